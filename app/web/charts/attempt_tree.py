"""BROWSE: the attempts of a rollout as a tree: a column for each depth, lines from an
attempt to those made from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from app.domain.verdict import is_credited
from app.web import formatting

ACROSS, DOWN = 150, 28
"""Pixels between two columns, and between two lines."""
MARGIN = 14
"""Pixels around."""
MOST = 400
"""Attempts that are drawn; the table has all."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """An attempt in the drawing."""

    attempt: Mapping[str, Any]
    x: int
    y: int
    width: int
    """About the width of its text: lines end behind it."""
    tone: str
    """`good`, `warn`, `bad`, or empty while it is not over."""
    words: str
    """Its outcome: a credited speedup, else verdict, status or state."""
    is_picked: bool


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A line from an attempt to one that was made from it or saw it."""

    path: str
    is_shown_only: bool
    """True where the later attempt saw the earlier one, but continues another."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The drawing."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int
    left_out: int


def tree(attempts: Sequence[Mapping[str, Any]], picked: Iterable[str]) -> Tree | None:
    """The drawing of a rollout's attempts, which are in the order of decisions; None
    without any.
    """
    drawn = attempts[:MOST]
    if not drawn:
        return None
    places = _places(drawn)
    chosen = set(picked)
    nodes = tuple(_node(each, places[each["key"]], chosen) for each in drawn)
    return Tree(
        nodes=nodes,
        edges=tuple(_edges(drawn, places)),
        width=max(node.x for node in nodes) + ACROSS,
        height=max(node.y for node in nodes) + MARGIN,
        left_out=len(attempts) - len(drawn),
    )


def _places(attempts: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Key → x and y: leaves one below the other, an attempt in the middle of those made from it."""
    known = {each["key"] for each in attempts}
    children: defaultdict[str | None, list[str]] = defaultdict(list)
    for each in attempts:
        children[each["parent"] if each["parent"] in known else None].append(each["key"])
    places: dict[str, tuple[int, int]] = {}
    line = 0
    waiting = [(key, 0, False) for key in reversed(children[None])]
    while waiting:
        key, depth, is_placed = waiting.pop()
        below = children[key]
        if below and not is_placed:
            waiting.append((key, depth, True))
            waiting.extend((each, depth + 1, False) for each in reversed(below))
            continue
        y = round(fmean(places[each][1] for each in below)) if below else MARGIN + line * DOWN
        line += not below
        places[key] = (MARGIN + depth * ACROSS, y)
    return places


def _node(attempt: Mapping[str, Any], place: tuple[int, int], picked: set[str]) -> Node:
    tone, words = _outcome(attempt)
    is_picked = attempt["key"] in picked
    characters = len(attempt["key"]) + len(words) + 3 * is_picked + 1
    return Node(
        attempt=attempt,
        x=place[0],
        y=place[1],
        width=min(ACROSS - 10, round(22 + 7.4 * characters)),
        tone=tone,
        words=words,
        is_picked=is_picked,
    )


def _outcome(attempt: Mapping[str, Any]) -> tuple[str, str]:
    outcome = attempt["outcome"]
    status, label = outcome.get("status"), outcome.get("label")
    if status is None:
        return "", str(outcome.get("fault") or attempt["state"]).replace("_", " ")
    if label == "hack":
        return "bad", "hack"
    if status != "passed":
        return "warn", str(status).replace("_", " ")
    if not is_credited(correct=True, label=label):
        return "", "not judged"
    return "warn" if label == "suspect" else "good", formatting.ratio(outcome.get("speedup"))


def _edges(
    attempts: Sequence[Mapping[str, Any]], places: Mapping[str, tuple[int, int]]
) -> Iterable[Edge]:
    parents = {each["key"]: each["parent"] for each in attempts}
    for key, parent in parents.items():
        if parent in places:
            yield Edge(path=_path(places[parent], places[key]), is_shown_only=False)
    for each in attempts:
        continued = _line(each["key"], parents)
        for key in each["shown"]:
            if key in places and key not in continued:
                yield Edge(path=_path(places[key], places[each["key"]]), is_shown_only=True)


def _line(key: str, parents: Mapping[str, str | None]) -> set[str]:
    """The attempt and those that it continues, to the first: lines between them are
    drawn already.
    """
    found: set[str] = set()
    at: str | None = key
    while at is not None and at not in found:
        found.add(at)
        at = parents.get(at)
    return found


def _path(start: tuple[int, int], end: tuple[int, int]) -> str:
    middle = (start[0] + end[0]) // 2
    return f"M{start[0]} {start[1]} C{middle} {start[1]} {middle} {end[1]} {end[0]} {end[1]}"
