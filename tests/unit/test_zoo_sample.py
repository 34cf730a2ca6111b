"""The sample of the zoo that the usual test run evaluates: nothing that the whole zoo shows is
absent from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from tests import zoo
from tests.zoo import sample

WHOLE = [case for case in zoo.cases() if case.runs_on("cpu")]
CHOSEN = sample.chosen(WHOLE)

SHOWN: dict[str, Callable[[zoo.Case], Iterable[object]]] = {
    "detectors": lambda case: case.on_cpu.findings,
    "outcomes of a group": lambda case: [
        (case.group, case.on_cpu.status, case.on_cpu.verdict, case.on_cpu.findings)
    ],
    "backends of an outcome": lambda case: [(sample.kind(case), case.backend)],
    "ways of cheating": lambda case: case.codes,
    "speedups": lambda case: [(case.group, case.on_cpu.speedup)],
    "problems by cases": lambda case: [(case.group, case.is_by_cases)],
}


@pytest.mark.parametrize("what", SHOWN)
def test_the_sample_shows_all_that_the_zoo_shows(what: str) -> None:
    whole = {each for case in WHOLE for each in SHOWN[what](case)}
    assert {each for case in CHOSEN for each in SHOWN[what](case)} == whole


def test_of_each_outcome_one_or_a_sixteenth_are_in_the_sample() -> None:
    whole, chosen = Counter(map(sample.kind, WHOLE)), Counter(map(sample.kind, CHOSEN))
    too_few = {
        kind: (chosen[kind], count)
        for kind, count in whole.items()
        if chosen[kind] < max(1, count // 16)
    }
    assert not too_few


def test_the_sample_is_a_third_of_the_zoo_at_most_and_always_the_same() -> None:
    assert len(CHOSEN) <= len(WHOLE) // 3
    assert sample.chosen(reversed(WHOLE)) == CHOSEN[::-1]


def test_a_new_kind_of_outcome_is_in_the_sample() -> None:
    without = [case for case in WHOLE if "late_write" not in case.on_cpu.findings]
    (added, *_) = [case for case in WHOLE if "late_write" in case.on_cpu.findings]
    assert added in sample.chosen([*without, added])
