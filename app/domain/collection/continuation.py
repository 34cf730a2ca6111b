"""COLLECT: whether an attempt continues the trajectory of its parent.

A trajectory is a path in the tree along which every prompt is the whole conversation before it.  An
attempt with any other prompt begins a trajectory of its own, and the first messages of that
trajectory are those really sent.
"""

from __future__ import annotations

from collections.abc import Collection

from app.domain.collection.tree import Generate, Tree


def continues(each: Generate, tree: Tree, taken: Collection[str | None]) -> bool:
    """True if the attempt's prompt is its parent's, with the parent's answer and feedback added.

    `taken`: parents with a continuation in their trajectory already, so that a
    second one is a branch.
    """
    if each.parent is None or each.parent in taken:
        return False
    parent = tree[each.parent]
    return each.shown == (*parent.shown, parent.key)
