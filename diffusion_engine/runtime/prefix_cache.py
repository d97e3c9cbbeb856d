"""Clean KV of earlier text, found again by its tokens: a radix tree of pages.

A node holds the pages of one unit of text, which is a page or, where a block is longer than a page, the pages that
whole blocks fill: within a block the keys depend on tokens to the right. Only a leaf may hold less than a unit (the
tail of a text); its content is copied by who uses it, never shared. Each block length has its own tree, since the same
text has other keys under another one. What no request holds is evicted, least recently used first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from diffusion_engine.runtime.pages import PAGE_TOKENS, PagePool


@dataclass(eq=False)
class Node:
    """One unit of text.

    Attributes:
        tokens: its ids; a full unit, or fewer in a tail.
        pages: that hold its keys and values.
        parent: the text before it.
        children: what followed it, by tokens.
        holders: running requests that read these pages.
        used: time of the last match, for eviction.
    """

    tokens: tuple[int, ...]
    pages: list[int]
    parent: Node | None
    children: dict[tuple[int, ...], Node] = field(default_factory=dict)
    holders: int = 0
    used: int = 0


@dataclass(frozen=True)
class Match:
    """The longest cached prefix of a text.

    Attributes:
        nodes: full units, in order; held for the caller until `drop`.
        tail: a node whose first tokens continue the text, to be copied; held like the others.
        tail_tokens: how many of its tokens do.
    """

    nodes: list[Node]
    tail: Node | None
    tail_tokens: int


class PrefixCache:
    """See the module."""

    def __init__(self, pool: PagePool) -> None:
        """Evict into `pool`."""
        self._pool = pool
        self._roots: dict[int | None, Node] = {}
        self._clock = 0
        self.pages = 0

    def match(self, text: list[int], limit: int, block_length: int | None) -> Match:
        """Find and hold the longest cached prefix of `text[:limit]`.

        Args:
            text: token ids.
            limit: tokens that may come from the cache.
            block_length: of a block-causal request; None for a causal one.
        """
        self._clock += 1
        unit, step = unit_tokens(block_length), block_length or 1
        node = self._root(block_length)
        nodes: list[Node] = []
        at = 0
        while at + unit <= limit and (child := node.children.get(tuple(text[at : at + unit]))) is not None:
            child.holders += 1
            child.used = self._clock
            nodes.append(child)
            node = child
            at += unit
        rest = text[at:limit]
        best, tail = 0, None
        for child in node.children.values():
            common = _common_prefix(child.tokens, rest) // step * step
            if common > best:
                best, tail = common, child
        if tail is not None:
            tail.used = self._clock
            tail.holders += 1
        return Match(nodes, tail, best)

    def insert(
        self, text: list[int], pages: list[int], block_length: int | None, held: list[Node], *, tail: bool
    ) -> set[int]:
        """Keep clean text.

        Args:
            text: token ids whose keys and values are all clean and final.
            pages: of the text, in order.
            block_length: as for `match`.
            held: nodes that the caller holds; new ones are added, held.
            tail: keep an incomplete last unit as well; the caller gives its pages up.

        Returns:
            The pages that the cache owns from now on.
        """
        self._clock += 1
        unit = unit_tokens(block_length)
        per_unit = unit // PAGE_TOKENS
        node = self._root(block_length)
        owned: set[int] = set()
        for at in range(0, len(text), unit):
            tokens = tuple(text[at : at + unit])
            if len(tokens) < unit and (not tail or self._has_prefix(node, tokens)):
                break
            child = node.children.get(tokens)
            if child is None:
                first = at // PAGE_TOKENS
                child = Node(tokens, pages[first : first + min(per_unit, math.ceil(len(tokens) / PAGE_TOKENS))], node)
                self._drop_shorter_tails(node, tokens)
                node.children[tokens] = child
                owned.update(child.pages)
                self.pages += len(child.pages)
                if len(tokens) == unit:
                    child.holders += 1
                    held.append(child)
            child.used = self._clock
            node = child
        return owned

    def drop(self, nodes: list[Node]) -> None:
        """End the hold on nodes of `match` and `insert`."""
        for node in nodes:
            node.holders -= 1

    def evict(self) -> bool:
        """Free the least recently used leaf that no request holds. False when there is none."""
        leaves = [node for node in self._nodes() if not node.children and not node.holders]
        if not leaves:
            return False
        self._remove(min(leaves, key=lambda node: node.used))
        return True

    def evictable(self) -> int:
        """Pages that eviction could free."""
        return sum(len(node.pages) for node in self._nodes() if not _in_use(node))

    def clear(self) -> None:
        """Evict all that no request holds."""
        while self.evict():
            pass

    def _root(self, block_length: int | None) -> Node:
        return self._roots.setdefault(block_length, Node((), [], None))

    def _nodes(self) -> Iterator[Node]:
        stack = [child for root in self._roots.values() for child in root.children.values()]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def _has_prefix(self, node: Node, tokens: tuple[int, ...]) -> bool:
        return any(child.tokens[: len(tokens)] == tokens for child in node.children.values())

    def _drop_shorter_tails(self, node: Node, tokens: tuple[int, ...]) -> None:
        for child in list(node.children.values()):
            if child.tokens == tokens[: len(child.tokens)]:
                self._remove(child)

    def _remove(self, node: Node) -> None:
        assert node.parent is not None
        del node.parent.children[node.tokens]
        for page in node.pages:
            self._pool.release(page)
        self.pages -= len(node.pages)


def unit_tokens(block_length: int | None) -> int:
    """Tokens of a full node: whole pages and whole blocks."""
    return PAGE_TOKENS if block_length is None else math.lcm(PAGE_TOKENS, block_length)


def _common_prefix(a: tuple[int, ...], b: list[int]) -> int:
    common = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        common += 1
    return common


def _in_use(node: Node) -> bool:
    return node.holders > 0 or any(_in_use(child) for child in node.children.values())
