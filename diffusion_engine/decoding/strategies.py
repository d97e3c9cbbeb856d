"""What a model can decode by, and from a request's parameters to its decoder."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from diffusion_engine.decoding.blocks import BlockDecoder
from diffusion_engine.decoding.canvas import CanvasDecoder
from diffusion_engine.decoding.causal import CausalDecoder
from diffusion_engine.decoding.constraint import Constraint
from diffusion_engine.decoding.one_pass import OnePassDecoder
from diffusion_engine.decoding.parameters import CanvasCache, DecodingParameters, Strategy
from diffusion_engine.decoding.passes import Decoder
from diffusion_engine.decoding.unmasking import UNMASKING
from diffusion_engine.models import Attention, ModelConfig

CAUSAL_STRATEGIES = (Strategy.HYBRID, Strategy.AUTOREGRESSIVE, Strategy.PROMPT_LOOKUP, Strategy.HYBRID_ONE_PASS)
"""Exact readings of one causal text; they differ in where their drafts come from."""
_DRAFTING = (Strategy.HYBRID, Strategy.HYBRID_ONE_PASS)


def strategies_of(config: ModelConfig) -> tuple[Strategy, ...]:
    """What a model can decode by.

    Causal models decode autoregressively and hybrid. All but those with a mask of its own for every offset denoise
    blocks as well: such masks are trained for drafts of nothing but masks.
    """
    causal = CAUSAL_STRATEGIES if config.attention is Attention.CAUSAL else ()
    return causal if len(config.mask_token_ids) > 1 else (*causal, *UNMASKING)


def check_parameters(config: ModelConfig, parameters: DecodingParameters) -> None:
    """Raise ValueError, naming the field, for a decoding that this model can't do."""
    known = strategies_of(config)
    if parameters.strategy not in known:
        names = ", ".join(known)
        raise ValueError(f"strategy: this model decodes by {names}, not by {parameters.strategy}")
    masks = len(config.mask_token_ids)
    if masks > 1 and parameters.block_length > masks:
        raise ValueError(f"block_length: this model has masks for {masks} positions, not {parameters.block_length}")
    if parameters.canvas_cache is not CanvasCache.NONE and config.attention is not Attention.BIDIRECTIONAL:
        raise ValueError(
            "canvas_cache: this model's own cache is exact; the approximate ones are for bidirectional ones"
        )


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
    draft: Sequence[int] = (),
) -> Decoder:
    """The decoder for a request whose parameters `check_parameters` has passed.

    Args:
        config: of the model.
        parameters: of the request.
        prompt: token ids, at least one.
        max_length: tokens of prompt and reply together.
        suppressed: see `suppressed_tokens`.
        constraint: a grammar at its beginning, or None for free text.
        draft: an earlier draft of the reply.
    """
    if parameters.strategy in CAUSAL_STRATEGIES:
        decoder = OnePassDecoder if parameters.strategy is Strategy.HYBRID_ONE_PASS else CausalDecoder
        return decoder(
            config,
            prompt,
            max_length=max_length,
            draft_length=parameters.block_length if parameters.strategy in _DRAFTING else 0,
            sampling=parameters.sampling,
            suppressed=suppressed,
            constraint=constraint,
            top_logprobs=parameters.top_logprobs,
            warm_draft=draft,
            prompt_lookup=parameters.strategy is Strategy.PROMPT_LOOKUP,
        )
    if config.attention is Attention.BIDIRECTIONAL:
        return CanvasDecoder(
            config,
            prompt,
            max_length=max_length,
            parameters=parameters,
            suppressed=suppressed,
            constraint=constraint,
            draft=draft,
        )
    return BlockDecoder(
        config, prompt, parameters=parameters, suppressed=suppressed, constraint=constraint, draft=draft
    )
