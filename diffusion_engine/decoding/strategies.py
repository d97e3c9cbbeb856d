"""From a request's parameters to its decoder."""

from __future__ import annotations

import torch
from torch import Tensor

from diffusion_engine.decoding.causal import CausalDecoder
from diffusion_engine.decoding.constraint import Constraint
from diffusion_engine.decoding.denoising import BlockDecoder
from diffusion_engine.decoding.parameters import DecodingParameters, Strategy
from diffusion_engine.decoding.passes import Decoder
from diffusion_engine.models import Attention, ModelConfig

STRATEGIES: dict[Attention, tuple[Strategy, ...]] = {
    Attention.CAUSAL: (Strategy.HYBRID, Strategy.AUTOREGRESSIVE),
    Attention.BLOCK_CAUSAL: (Strategy.DYNAMIC, Strategy.STATIC, Strategy.SEQUENTIAL),
}
"""What each kind of attention can decode exactly; the first is the default."""


def check_parameters(config: ModelConfig, parameters: DecodingParameters) -> None:
    """Raise ValueError, naming the field, for a decoding that this model can't do."""
    known = STRATEGIES[config.attention]
    if parameters.strategy not in known:
        names = ", ".join(known)
        raise ValueError(f"strategy: this model decodes by {names}, not by {parameters.strategy}")
    masks = len(config.mask_token_ids)
    if masks > 1 and parameters.block_length > masks:
        raise ValueError(f"block_length: this model has masks for {masks} positions, not {parameters.block_length}")


def suppressed_tokens(config: ModelConfig, control: tuple[int, ...] = ()) -> Tensor:
    """Ids that are never emitted: masks, and those that the tokenizer calls control or doesn't know.

    Args:
        config: of the model.
        control: the tokenizer's; end tokens among them stay allowed.

    Returns:
        int64 ids below `vocab_size`.
    """
    ids = {*config.mask_token_ids, *control} - set(config.eos_token_ids)
    return torch.tensor(sorted(id for id in ids if id < config.vocab_size), dtype=torch.long)


def make_decoder(
    config: ModelConfig,
    parameters: DecodingParameters,
    prompt: list[int],
    *,
    max_length: int,
    suppressed: Tensor,
    constraint: Constraint | None = None,
) -> Decoder:
    """The decoder for a request whose parameters `check_parameters` has passed.

    Args:
        config: of the model.
        parameters: of the request.
        prompt: token ids, at least one.
        max_length: tokens of prompt and reply together.
        suppressed: see `suppressed_tokens`.
        constraint: a grammar at its beginning, or None for free text.
    """
    if parameters.strategy in (Strategy.HYBRID, Strategy.AUTOREGRESSIVE):
        return CausalDecoder(
            config,
            prompt,
            max_length=max_length,
            draft_length=parameters.block_length if parameters.strategy is Strategy.HYBRID else 0,
            sampling=parameters.sampling,
            suppressed=suppressed,
            constraint=constraint,
        )
    return BlockDecoder(config, prompt, parameters=parameters, suppressed=suppressed, constraint=constraint)
