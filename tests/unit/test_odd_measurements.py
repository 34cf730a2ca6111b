"""Detectors over measurements that lack parts: no blocks, no launches, no checks, no numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from app.detectors import DETECTORS
from app.domain.evaluation import Evaluation
from app.domain.verdict import Subject
from tests.integration import seed_evaluations
from tests.unit.measurements import early, settling, waiting

WHOLE = (
    seed_evaluations.passed(random.Random(1)),
    seed_evaluations.cheating(random.Random(1)),
    seed_evaluations.by_cases(),
    settling(10, 900.0),
    waiting(900.0),
    early(4),
)
"""Measurements that have as many parts as possible."""


def _emptied(value: Any) -> Iterator[Any]:
    """The value with one part of it empty, None or zero, at any depth."""
    for field in fields(value):
        part, kind = getattr(value, field.name), str(field.type)
        for other in _others(part, kind):
            if (found := _replaced(value, field.name, other)) is not None:
                yield found


def _others(part: Any, kind: str) -> Iterator[Any]:
    if part is not None and "None" in kind:
        yield None
    if isinstance(part, int | float) and not isinstance(part, bool):
        yield type(part)(0)
    if is_dataclass(part):
        yield from _emptied(part)
    if isinstance(part, tuple) and part:
        yield from ((), part[:1], part[-1:])
        if is_dataclass(part[0]):
            yield from ((each, *part[1:]) for each in _emptied(part[0]))
            yield from _all_emptied(part)


def _all_emptied(parts: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The parts with one field of all of them empty."""
    for field in fields(parts[0]):
        for empty in _empty(str(field.type)):
            found = [_replaced(each, field.name, empty) for each in parts]
            if all(each is not None for each in found):
                yield tuple(found)


def _empty(kind: str) -> Iterator[Any]:
    if "None" in kind:
        yield None
    if kind in ("int", "float"):
        yield 0
    if "tuple" in kind:
        yield ()


def _replaced(value: Any, name: str, part: Any) -> Any:
    """None where the type itself refuses such a part."""
    try:
        return replace(value, **{name: part})
    except ValueError:
        return None


@pytest.fixture(scope="module")
def lacking() -> list[Evaluation]:
    return [each for whole in WHOLE for each in (whole, *_emptied(whole))]


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_takes_measurements_that_lack_any_part(
    name: str, lacking: list[Evaluation]
) -> None:
    """Or says which part it needs: a check that could not run has not passed."""
    refusals = []
    for evaluation in lacking:
        subject = Subject(evaluation=evaluation, backend="triton", candidate=b"", reference=b"")
        try:
            assert {found.detector for found in DETECTORS[name].detect(subject)} <= {name}
        except ValueError as error:
            refusals.append(str(error))
    assert bool(refusals) is (name == "claimed_time")
    assert all("expected blocks with calls of both sides" in each for each in refusals)
