"""Who may send requests, and how many: API keys, and a limit to the rate of each."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from diffusion_engine.server.errors import ApiError


@dataclass
class _Bucket:
    """A token bucket: full after a minute without requests."""

    level: float
    filled: float


@dataclass
class Access:
    """See the module.

    Attributes:
        keys: that are valid; none for no check.
        requests_per_minute: of each key (of everybody together where there are no keys); None for no limit.
        clock: in seconds.
    """

    keys: Sequence[str] = ()
    requests_per_minute: int | None = None
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, _Bucket] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Raise ValueError, naming the field, for a value that can't be served."""
        if any(not key.strip() or key != key.strip() for key in self.keys):
            raise ValueError("keys must not be empty or begin or end with a blank")
        if self.requests_per_minute is not None and self.requests_per_minute < 1:
            raise ValueError(f"requests_per_minute must be at least 1, not {self.requests_per_minute}")

    def check(self, authorization: str) -> str:
        """Find whose request it is.

        Args:
            authorization: the header; empty when there was none.

        Returns:
            The owner: a name for the key that gives nothing away; empty where there are not several keys.

        Raises:
            ApiError: 401, no valid key.
        """
        if not self.keys:
            return ""
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode()
        # Every key is compared, in constant time: how long it takes says nothing about them.
        valid = [i for i, key in enumerate(self.keys) if secrets.compare_digest(given, key.encode())]
        if scheme.lower() != "bearer" or not valid:
            raise ApiError(401, "no valid API key; send it as Authorization: Bearer <key>", code="invalid_api_key")
        return f"key-{valid[0]}" if len(self.keys) > 1 else ""

    def admit(self, owner: str) -> dict[str, str]:
        """Count a request that costs computation.

        Returns:
            OpenAI's `x-ratelimit-*` headers; none without a limit.

        Raises:
            ApiError: 429 with the time until the next one is allowed.
        """
        if self.requests_per_minute is None:
            return {}
        now, limit = self.clock(), self.requests_per_minute
        bucket = self._buckets.setdefault(owner, _Bucket(limit, now))
        bucket.level = min(limit, bucket.level + (now - bucket.filled) * limit / 60)
        bucket.filled = now
        if bucket.level < 1 - 1e-6:  # what is added up over time is never quite whole
            wait = math.ceil((1 - bucket.level) * 60 / limit)
            raise ApiError(
                429,
                f"this key may send {limit} requests a minute; the next one in {wait} s",
                code="rate_limit_exceeded",
                retry_after_s=wait,
            )
        bucket.level -= 1
        return {
            "x-ratelimit-limit-requests": str(limit),
            "x-ratelimit-remaining-requests": str(int(bucket.level)),
            "x-ratelimit-reset-requests": f"{(limit - bucket.level) * 60 / limit:.3f}s",
        }
