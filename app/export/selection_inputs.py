"""EXPORT: everything that a selection knows before its first attempt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.domain.dataset.decontamination import Match
from app.domain.dataset.selection import Kind, Learns, Spec
from app.export.mismatch_rejection import Ratios
from app.export.turn_credits import Book
from app.store.dataset.export_conditions import Condition
from app.store.dataset.problem_rows import Rates
from app.store.dataset.quoted_answers import Quotes


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Settings of a selection, and facts about problems, runs and turns."""

    spec: Spec
    kind: Kind
    conditions: Sequence[Condition]
    """Stages that the database decides, in order."""
    contaminated: Mapping[str, Match]
    """Problem → reason why it must not be trained on."""
    benchmarks: Mapping[str, Match] | None = None
    """Problem → benchmark problem that it equals; None if rows are no training data."""
    device: str | None = None
    """Class of the evaluations taken; None for all."""
    learns: Learns = Learns.ANSWER
    """Answers of a row that the trainer puts loss on, a property of the format."""
    rates: Rates = field(default_factory=dict)
    """First answers of the run that pass rates are of."""
    preferences: Iterable[tuple[str, str]] = ()
    """(Chosen, rejected) evaluations by people's word, oldest first."""
    book: Book | None = None
    """Credits of the runs' turns, if rows show them."""
    ratios: Ratios | None = None
    """Trainer over rollout engine, if answers are rejected by it."""
    quotes: Quotes = field(default_factory=dict)

    @property
    def trains(self) -> bool:
        """True if rows are training data."""
        return self.benchmarks is not None

    def preferred(self) -> dict[str, list[str]]:
        """Chosen evaluation → those rejected for it; of two preferences for one pair, which
        contradict, the newer one counts.
        """
        found: dict[str, list[str]] = {}
        last = {frozenset(said): said for said in self.preferences}
        for chosen, rejected in last.values():
            found.setdefault(chosen, []).append(rejected)
        return found
