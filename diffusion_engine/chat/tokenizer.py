"""A checkpoint's tokenizer, from its `tokenizer.json`."""

from __future__ import annotations

from pathlib import Path

from llguidance import LLTokenizer
from tokenizers import Tokenizer as HfTokenizer
from tokenizers.decoders import DecodeStream

from diffusion_engine.models import CheckpointError, ModelConfig


class TokenStream:
    """Incremental detokenization: never half a character."""

    def __init__(self, tokenizer: HfTokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)

    def step(self, token: int) -> str:
        """The text that a token completes; empty while a character is unfinished."""
        return self._stream.step(self._tokenizer, token) or ""


class Tokenizer:
    """Text to token ids and back.

    Attributes:
        eos_token_ids: of the checkpoint: they end a reply.
        control_token_ids: special tokens, and ids that the model has and the tokenizer doesn't: never emitted.
    """

    def __init__(self, tokenizer: HfTokenizer, config: ModelConfig) -> None:
        self._tokenizer = tokenizer
        self.eos_token_ids = config.eos_token_ids
        special = [id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special]
        known = tokenizer.get_vocab(with_added_tokens=True).values()
        unknown = set(range(config.vocab_size)) - set(known)
        self.control_token_ids = tuple(sorted({*special, *unknown} - set(self.eos_token_ids)))
        self._vocab_size = config.vocab_size
        self._grammar_tokenizer: LLTokenizer | None = None

    @classmethod
    def from_folder(cls, folder: Path, config: ModelConfig) -> Tokenizer:
        """Read `tokenizer.json`.

        Raises:
            CheckpointError: it is missing or damaged, or holds ids that the model has no row for.
        """
        path = folder / "tokenizer.json"
        try:
            tokenizer = HfTokenizer.from_str(path.read_text(encoding="utf-8"))
        except FileNotFoundError as missing:
            raise CheckpointError(path, "no such file; the engine needs the checkpoint's tokenizer") from missing
        except Exception as broken:  # tokenizers raises bare Exception
            raise CheckpointError(path, f"not a tokenizer file ({broken})") from broken
        largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
        if largest >= config.num_embeddings:
            raise CheckpointError(path, f"holds token {largest}, but the model embeds {config.num_embeddings} tokens")
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(tokenizer, config)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text; the names of special tokens in it become those tokens."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def token_behind(self, text: str, end: int) -> int | None:
        """Index, among the tokens of a text, of the first that begins at character `end` or later; None without one."""
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return next((i for i, (start, _) in enumerate(offsets) if i and start >= end), None)

    def decode(self, tokens: list[int]) -> str:
        """Text of token ids, special tokens left out."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def spelled(self, token: int) -> bytes:
        """The bytes of one token, which may be a part of a character."""
        spelled = bytes(self.grammar_tokenizer.decode_bytes([token]))
        return spelled or self.decode([token]).encode()  # the grammar engine keeps 0xFF, no byte of UTF-8, to itself

    def stream(self) -> TokenStream:
        """A fresh incremental decoder."""
        return TokenStream(self._tokenizer)

    @property
    def grammar_tokenizer(self) -> LLTokenizer:
        """The same vocabulary, as the grammar engine needs it; built at first use."""
        if self._grammar_tokenizer is None:
            self._grammar_tokenizer = LLTokenizer(
                self._tokenizer.to_str(),
                n_vocab=self._vocab_size,
                eos_token=list(self.eos_token_ids) or None,
            )
        return self._grammar_tokenizer
