"""Which pages of the KV pool are free."""

from __future__ import annotations

import numpy as np

PAGE_TOKENS = 16
"""Tokens in a page."""


class OutOfPagesError(Exception):
    """No page is free."""


class PagePool:
    """Hands out pages by number; where it can, a request's pages lie side by side, so its KV is one slice."""

    def __init__(self, pages: int) -> None:
        """Start with all of `pages` free."""
        self._free = np.ones(pages, dtype=bool)
        self._free_count = pages

    @property
    def total(self) -> int:
        """Pages, free or not."""
        return len(self._free)

    @property
    def free(self) -> int:
        """Pages that are free."""
        return self._free_count

    def allocate(self, after: int | None = None) -> int:
        """Take a page: the one behind `after` if it is free, else the first of the longest free run.

        Raises:
            OutOfPagesError: none is free.
        """
        if not self._free_count:
            raise OutOfPagesError
        page = -1
        if after is not None and after + 1 < len(self._free) and self._free[after + 1]:
            page = after + 1
        else:
            page = self.longest_run()[0]
        self._free[page] = False
        self._free_count -= 1
        return page

    def run_behind(self, page: int) -> int:
        """Free pages directly behind a page."""
        behind = self._free[page + 1 :]
        taken = np.flatnonzero(~behind)
        return int(taken[0]) if len(taken) else len(behind)

    def longest_run(self) -> tuple[int, int]:
        """First page and length of the longest run of free pages; (0, 0) when none is free."""
        edges = np.flatnonzero(np.diff(np.concatenate(([0], self._free.view(np.int8), [0]))))
        if not len(edges):
            return 0, 0
        lengths = edges[1::2] - edges[::2]
        longest = int(lengths.argmax())
        return int(edges[2 * longest]), int(lengths[longest])

    def release(self, page: int) -> None:
        """Give a page back.

        Raises:
            ValueError: it is free already; giving it back twice would hand it to two requests.
        """
        if self._free[page]:
            raise ValueError(f"page {page} is free already")
        self._free[page] = True
        self._free_count += 1
