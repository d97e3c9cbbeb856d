"""llama.cpp on the embedded model's base: the honest peer on a CPU, where `llama-cpp-python` is installed."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from diffusion_engine.bench.bed import CLAUSE_TOKENS
from diffusion_engine.bench.figures import Figure, figure, milliseconds, paired_ratio

NOT_INSTALLED = "not measured: llama-cpp-python is not installed"
_TRIAL = """
import sys, llama_cpp
model = llama_cpp.Llama(model_path=sys.argv[1], n_ctx=256, n_threads=1, n_threads_batch=1, verbose=False)
model.eval(list(range(100, 164)))
next(model.generate(list(range(100, 165)), temp=0.0))
"""


class LlamaCppPeer:
    """Decodes as many tokens as the engine did, behind the same prompt, cached as well.

    The weights are the base's in its own quantization (Q4_1), without the adapter: the work is the same, the text is
    not, so an end token doesn't end it.
    """

    def __init__(self, weights: Path, context: int, threads: int) -> None:
        """Load.

        Args:
            weights: a GGUF file.
            context: in tokens.
            threads: that compute.
        """
        library: Any = importlib.import_module("llama_cpp")
        self.version = str(library.__version__)
        self._model = library.Llama(
            model_path=str(weights), n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False
        )
        self.first_token_s: list[float | None] = []
        self.clause_s: list[float | None] = []
        self.reply_s: list[float | None] = []
        self.forward_s: list[float] = []

    @staticmethod
    def obstacle(weights: Path) -> str | None:
        """Why it can't be measured here; None when it can.

        Tried in a process of its own: a library built for other instructions than this processor's ends its process.
        """
        if importlib.util.find_spec("llama_cpp") is None:
            return NOT_INSTALLED
        tried = subprocess.run([sys.executable, "-c", _TRIAL, str(weights)], capture_output=True, text=True)
        if tried.returncode == 0:
            return None
        said = (tried.stderr.strip().splitlines() or ["no message"])[-1]
        return f"not measured: llama-cpp-python fails here (exit status {tried.returncode}: {said})"

    def run(self, prompt: list[int], tokens: int) -> None:
        """Decode greedily and note the times; a prompt without a reply is skipped.

        Args:
            prompt: token ids; the base's tokenizer is the checkpoint's.
            tokens: to decode.
        """
        if not tokens:
            for samples in (self.first_token_s, self.clause_s, self.reply_s):
                samples.append(None)
            return
        self._model.reset()
        self._model.eval(prompt[:-1])
        began = time.perf_counter()
        times = []
        for _ in self._model.generate(prompt, temp=0.0):
            times.append(time.perf_counter() - began)
            if len(times) == tokens:
                break
        self.first_token_s.append(times[0])
        self.clause_s.append(times[CLAUSE_TOKENS - 1] if tokens >= CLAUSE_TOKENS else None)
        self.reply_s.append(times[-1])
        self.forward_s += [after - before for before, after in zip([0.0, *times], times, strict=False)]

    def forget(self) -> None:
        """Drop the samples: they were for warming up."""
        for samples in (self.first_token_s, self.clause_s, self.reply_s, self.forward_s):
            samples.clear()

    def summary(self, tokens: list[int]) -> dict[str, Any]:
        """The figures under the keys of the output; what it doesn't have by its nature has n 0.

        Args:
            tokens: decoded, run by run.
        """
        nothing: Figure = figure([])
        rates = [count / s for count, s in zip(tokens, self.reply_s, strict=True) if s]
        return {
            "first_token_ms": milliseconds(self.first_token_s),
            "first_clause_ms": milliseconds(self.clause_s),
            "reply_ms": milliseconds(self.reply_s),
            "forward_ms": milliseconds(self.forward_s),
            "overhead_ms": nothing,
            "tokens_per_forward": figure(1.0 for count in tokens if count),
            "cancel_steps": nothing,
            "throughput_tok_s": {"1": figure(rates)},
            "version": self.version,
            "weights": "the base in Q4_1, without the adapter; as many tokens as the engine's reply had",
        }

    def ratio(
        self, first_token: list[float | None], clause: list[float | None], reply: list[float | None]
    ) -> dict[str, float | None]:
        """Our times divided by llama.cpp's, prompt by prompt."""
        return {
            "first_token": paired_ratio(first_token, self.first_token_s),
            "first_clause": paired_ratio(clause, self.clause_s),
            "reply": paired_ratio(reply, self.reply_s),
        }
