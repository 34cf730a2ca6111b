"""EXPORT: a graph of expressions, digested so that names and the order in which
nodes were made play no part.

Nodes with equal heads and equal children are one node.  A node made by `open` is
only ever equal to itself and gets its children later: a parameter, a variable of a
loop, a function that calls itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

Term = int
"""A node, by its number in its graph."""


class Terms:
    """One graph."""

    def __init__(self) -> None:
        self._heads: list[str] = []
        self._children: list[tuple[Term, ...]] = []
        self._known: dict[tuple[str, tuple[Term, ...]], Term] = {}

    def node(self, head: str, *children: Term) -> Term:
        """The node of this head and these children."""
        key = (head, children)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._add(head, children)
        return found

    def open(self, head: str) -> Term:
        """A node of its own, without children so far."""
        return self._add(head, ())

    def close(self, term: Term, children: Iterable[Term]) -> None:
        """Give an open node its children."""
        self._children[term] = tuple(children)

    def head(self, term: Term) -> str:
        """The head of a node."""
        return self._heads[term]

    def children(self, term: Term) -> tuple[Term, ...]:
        """The children of a node, in order."""
        return self._children[term]

    def digest(self, roots: Sequence[Term]) -> str:
        """16 hexadecimal digits of the nodes reachable from the roots: nodes are
        numbered by their first visit, depth first, so that equal graphs have equal
        digests for any names of their nodes.
        """
        content = hashlib.blake2b(digest_size=8)
        numbers: dict[Term, int] = {}
        waiting = list(reversed(roots))
        while waiting:
            term = waiting.pop()
            number = numbers.get(term)
            if number is not None:
                content.update(b"#%d;" % number)
                continue
            numbers[term] = len(numbers)
            children = self._children[term]
            head = self._heads[term].encode("utf-8", "surrogatepass")
            content.update(b"%d:%b(%d)" % (len(head), head, len(children)))
            waiting += reversed(children)
        return content.hexdigest()

    def _add(self, head: str, children: tuple[Term, ...]) -> Term:
        self._heads.append(head)
        self._children.append(children)
        return len(self._heads) - 1
