"""What one request does with what a pass says: strategies, sampling, grammars. No I/O, no scheduling."""

from diffusion_engine.decoding.constraint import Constraint, ConstraintError
from diffusion_engine.decoding.logprobs import TokenLogprobs
from diffusion_engine.decoding.parameters import CanvasCache, DecodingParameters, Sampling, Strategy
from diffusion_engine.decoding.passes import Decoder, Pass, Progress
from diffusion_engine.decoding.prefill import PrefillDecoder
from diffusion_engine.decoding.probe import ProbingDecoder
from diffusion_engine.decoding.reading import Query, Reading, Reads
from diffusion_engine.decoding.sampling import NonFiniteLogitsError
from diffusion_engine.decoding.strategies import (
    CAUSAL_STRATEGIES,
    check_parameters,
    make_decoder,
    strategies_of,
    suppressed_tokens,
)

__all__ = [
    "CAUSAL_STRATEGIES",
    "CanvasCache",
    "Constraint",
    "ConstraintError",
    "Decoder",
    "DecodingParameters",
    "NonFiniteLogitsError",
    "Pass",
    "PrefillDecoder",
    "ProbingDecoder",
    "Progress",
    "Query",
    "Reading",
    "Reads",
    "Sampling",
    "Strategy",
    "TokenLogprobs",
    "check_parameters",
    "make_decoder",
    "strategies_of",
    "suppressed_tokens",
]
