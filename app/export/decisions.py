"""EXPORT: decisions about the attempts of a chunk: the stage that drops each, or its
row; and sets of attempts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from app.domain.dataset.attempt import Attempt
from app.export.funnel_stages import IN


class Decisions:
    """Decision about every attempt of a chunk."""

    def __init__(self, decided: list[str], details: list[str | None]) -> None:
        """`decided`: by attempt, the stage that drops it, or IN; `details`: the reason, or None."""
        self.decided = decided
        self.details = details

    def drop(self, attempts: Iterable[Attempt], stage: str, detail: str | None) -> None:
        """Record that a stage drops the attempts."""
        for attempt in attempts:
            self.decided[attempt.place], self.details[attempt.place] = stage, detail

    def take(self, attempts: Iterable[Attempt], detail: str | None) -> None:
        """Record that the attempts are part of a row."""
        self.drop(attempts, IN, detail)


def numbers(turns: Iterable[Attempt]) -> tuple[int, ...]:
    """Numbers of the turns in their trajectories, from 0."""
    return tuple(one.turn or 0 for one in turns)


def with_earlier(
    rows: Iterable[Attempt], earlier: Mapping[int, list[Attempt]]
) -> Iterator[Attempt]:
    """The last turns of rows, and the earlier turns of these rows that bear loss."""
    for row in rows:
        yield from earlier.get(row.place, ())
        yield row


def without(attempts: Iterable[Attempt], others: Iterable[Attempt]) -> list[Attempt]:
    """The attempts that are not among the others."""
    gone = {one.place for one in others}
    return [one for one in attempts if one.place not in gone]


def first_of_each(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Each source once."""
    found: dict[str, Attempt] = {}
    for attempt in attempts:
        found.setdefault(attempt.source_sha256, attempt)
    return list(found.values())
