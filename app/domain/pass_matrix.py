"""Pass matrix of a problem: candidates by tests, from recorded outcomes.

A test is a case of a problem by cases (its shapes and dtypes), or a kind of inputs: the problem's
own, and each variant of them (edge cases).  Seeds are drawn anew for every evaluation, so that a
seed is no test that two candidates share.

An evaluation keeps its first calls and its wrong ones.  Kinds of inputs that it does not list count
as passed where it passed, or where it lists a wrong variant and no wrong call is missing: variants
are tried together.  An answer that is wrong on the problem's own inputs ends the evaluation: its
other outcomes are not known (None).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.domain.aces import Row
from app.domain.evaluation import Status

OWN = "own"
"""Kind of the problem's own inputs."""


@dataclass(frozen=True, kw_only=True)
class Tested:
    """Outcomes that one evaluation recorded."""

    evaluation_id: str
    candidate_id: str
    status: Status
    failed_calls: int
    trials: tuple[tuple[str, bool], ...] = ()
    """Kind of inputs, and whether the answer was right, of every recorded call."""
    excused: frozenset[str] = frozenset()
    """Kinds of inputs on which no answer had to be right."""
    cases: tuple[tuple[str, bool], ...] = ()
    """Cases tried, and whether each passed; of a problem by cases alone."""
    shapes: dict[str, str] = field(default_factory=dict)
    """Test → dtypes and shapes of its outputs."""


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Candidates by tests."""

    tests: tuple[str, ...]
    outputs: tuple[str, ...]
    """Dtypes and shapes of each test's outputs; empty where not recorded."""
    rows: tuple[Row, ...]


def matrix(found: Iterable[Tested]) -> Matrix:
    """Matrix of the latest evaluation of every candidate; `found` has the newest first."""
    latest: dict[str, Tested] = {}
    for one in found:
        latest.setdefault(one.candidate_id, one)
    tests = _tests(latest.values())
    rows = (tuple(_outcome(one, test) for test in tests) for one in latest.values())
    shapes: dict[str, str] = {}
    for one in latest.values():
        for test, text in one.shapes.items():
            shapes.setdefault(test, text)
    return Matrix(
        tests=tests,
        outputs=tuple(shapes.get(test, "") for test in tests),
        rows=tuple(row for row in rows if any(ok is not None for ok in row)),
    )


def _tests(found: Iterable[Tested]) -> tuple[str, ...]:
    """The problem's own inputs first, then cases and variants in the order in which
    they come up.
    """
    names: dict[str, None] = {}
    for one in found:
        for name, _ in one.cases or (
            *((OWN, ok) for kind, ok in one.trials if kind == OWN),
            *sorted(one.trials),
        ):
            names[name] = None
    return tuple(names)


def _outcome(one: Tested, test: str) -> bool | None:
    if one.cases:
        return dict(one.cases).get(test)
    recorded = [ok for kind, ok in one.trials if kind == test]
    if recorded:
        return all(recorded)
    if test in one.excused:
        return None
    return True if one.status is Status.PASSED or _tried_all(one.trials, one.failed_calls) else None


def _tried_all(trials: Sequence[tuple[str, bool]], failed_calls: int) -> bool:
    """Test whether variants were tried and every wrong call is recorded."""
    wrong = sum(not ok for _, ok in trials)
    return any(kind != OWN for kind, _ in trials) and wrong == failed_calls
