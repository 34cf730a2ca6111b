"""EXPORT: the stages of a selection, and the attempts left after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.domain.dataset.selection import Kind, Spec
from app.domain.source.near_duplicates import Similarity
from app.store.dataset.export_conditions import Condition

WHERE = "where"
"""First stage.  Attempts that it drops are counted in the funnel and not recorded one by one."""

BENCHMARKS, DECONTAMINATED, MRS, PRS = "benchmarks", "decontaminated", "mrs", "prs"

CONTEXT, TURNS = "context", "turns"

DISTINCT, CHOICE, BALANCE = "distinct", "choice", "balance"

RENDERED = "rendered"

IN = "in"
"""Stage in the record of an attempt that is part of a row."""


@dataclass(kw_only=True)
class Funnel:
    """Attempts left after each stage, in all and by problem."""

    stages: Sequence[str]
    total: int = 0
    """Attempts of the snapshot, regardless of the filter."""
    by_problem: dict[str, Counter[str]] = field(default_factory=dict)
    """Problem → stage that dropped attempts (or `in`) → number of attempts, among
    those that the filter keeps.
    """
    rows: Counter[str] = field(default_factory=Counter)
    """Problem → rows planned."""

    def left(self, problem_id: str | None = None) -> list[int]:
        """Attempts left after each of `stages`, the filter first: in total, or of a problem."""
        if problem_id is not None:
            dropped = self.by_problem.get(problem_id, Counter())
        else:
            dropped = Counter()
            for found in self.by_problem.values():
                dropped.update(found)
        counts = [dropped.total()]
        for stage in self.stages[1:]:
            counts.append(counts[-1] - dropped[stage])
        return counts


def stage_names(
    spec: Spec, kind: Kind, conditions: Sequence[Condition], *, trains: bool = True
) -> list[str]:
    """Stages of a selection, in order.  `trains`: the rows are training data, not a report."""
    names = [one.name for one in conditions]
    if trains and not spec.include_benchmarks:
        names.append(BENCHMARKS)
    if spec.held_out:
        names.append(DECONTAMINATED)
    if not kind.takes_all:
        names += [MRS] if spec.mrs is not None else []
        names += [PRS] if spec.prs is not None else []
        names += [CONTEXT] if kind.shows_history else []
        names.append(TURNS)
        names += [DISTINCT] if spec.similarity is not Similarity.NONE else []
    names.append(CHOICE)
    if not kind.takes_all:
        names.append(BALANCE)
    return names
