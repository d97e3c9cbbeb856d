"""A request's pages: found in the prefix cache, allocated, published, returned."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from diffusion_engine.runtime.pages import PAGE_TOKENS, OutOfPagesError, PagePool
from diffusion_engine.runtime.prefix_cache import Match, Node, PrefixCache
from diffusion_engine.runtime.runner import Runner


@dataclass(eq=False)
class PageTable:
    """The pages of one request.

    Attributes:
        pages: in the order of the text.
        cached: leading tokens whose keys and values are clean and final.
        own: pages that go back to the pool with the request; the others belong to the prefix cache.
        held: nodes of the prefix cache that must stay.
        block_length: which tree of the prefix cache; None for causal text.
    """

    block_length: int | None
    pages: list[int] = field(default_factory=list)
    cached: int = 0
    own: set[int] = field(default_factory=set)
    held: list[Node] = field(default_factory=list)


class KVCache:
    """Pool and prefix cache of one runner."""

    def __init__(self, runner: Runner, pages: int, *, share: bool = True) -> None:
        """Start empty.

        Args:
            runner: keeps the tensors; it has room for `pages`.
            pages: in the pool.
            share: False turns the prefix cache off.
        """
        self._runner = runner
        self.pool = PagePool(pages)
        self.prefix = PrefixCache(self.pool)
        self._share = share

    def acquire(self, text: list[int], limit: int, expected: int, block_length: int | None) -> PageTable:
        """Start a request on the longest cached prefix of its text.

        Args:
            text: token ids.
            limit: tokens of it that may come from the cache.
            expected: length that the text will grow to, as a guess; room is sought for it in one piece.
            block_length: see `PageTable`.

        Raises:
            OutOfPagesError: there is no room, and nothing was taken.
        """
        table = PageTable(block_length)
        if not self._share:
            return table
        match = self.prefix.match(text, limit, block_length)
        try:
            self._adopt(table, match, math.ceil(expected / PAGE_TOKENS))
        except OutOfPagesError:
            self.release(table, [])
            raise
        finally:
            if match.tail is not None:
                self.prefix.drop([match.tail])
        return table

    def extend(self, table: PageTable, length: int) -> None:
        """Make room for `length` tokens, evicting what nobody uses.

        Raises:
            OutOfPagesError: no page is free and nothing can be evicted; what was added stays with the request.
        """
        while len(table.pages) * PAGE_TOKENS < length:
            self._allocate(table)

    def publish(self, table: PageTable, text: list[int]) -> None:
        """Share the request's clean pages with those to come."""
        if self._share:
            owned = self.prefix.insert(text[: table.cached], table.pages, table.block_length, table.held, tail=False)
            table.own -= owned

    def release(self, table: PageTable, text: list[int]) -> None:
        """Keep the request's clean text in the prefix cache, and give back everything else."""
        if self._share and text and table.cached:
            owned = self.prefix.insert(text[: table.cached], table.pages, table.block_length, table.held, tail=True)
            table.own -= owned
        self.prefix.drop(table.held)
        for page in table.own:
            self.pool.release(page)
        table.pages, table.own, table.held, table.cached = [], set(), [], 0

    def _adopt(self, table: PageTable, match: Match, expected: int) -> None:
        shared = [page for node in match.nodes for page in node.pages]
        tokens = sum(len(node.tokens) for node in match.nodes)
        table.held = match.nodes
        if shared and not self._room_behind(shared, expected) and self._find_run(max(expected, len(shared) + 1)):
            # A prefix that can't grow in place is copied once; otherwise every layer of every pass would gather it.
            for _ in shared:
                self._allocate(table)
            self._runner.copy(shared, table.pages, tokens)
            self.prefix.drop(match.nodes)
            table.held = []
        else:
            table.pages = shared
        table.cached = tokens
        if match.tail is not None:
            at = len(table.pages)
            self.extend(table, tokens + match.tail_tokens)
            self._runner.copy(match.tail.pages, table.pages[at:], match.tail_tokens)
            table.cached += match.tail_tokens

    def _room_behind(self, shared: list[int], expected: int) -> bool:
        side_by_side = shared == list(range(shared[0], shared[0] + len(shared)))
        return side_by_side and self.pool.run_behind(shared[-1]) >= expected - len(shared)

    def _find_run(self, pages: int) -> bool:
        """Whether a run of free pages is there, evicting while half of the pool is idle text."""
        while self.pool.longest_run()[1] < pages:
            if self.prefix.pages * 2 < self.pool.total or not self.prefix.evict():
                return False
        return True

    def _allocate(self, table: PageTable) -> None:
        while not self.pool.free:
            if not self.prefix.evict():
                raise OutOfPagesError
        page = self.pool.allocate(table.pages[-1] if table.pages else None)
        table.pages.append(page)
        table.own.add(page)
