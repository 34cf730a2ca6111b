"""Kernels that only apply a function to each element of a library's tensor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.detectors.fig_leaf import FigLeaf
from app.domain.verdict import Label, Subject
from tests.unit.measurements import ablated, kernels, profile


def _labels(
    mapped: int | None,
    tail: int | None,
    *,
    origin: str = "triton",
    within: bool = False,
    head: int | None = None,
) -> list[Label]:
    """Labels of a candidate beside a reference whose work is 3000 bytes, 1200 of them elementwise.
    `within`: the library goes on with its kernels' results; `head`: it begins with others, in place
    of operators of so many bytes.
    """
    evaluation = ablated(
        kernels(35, 65, origin),
        mapped_bytes=mapped,
        mapped_within=within,
        mapped_before=head is not None,
    )
    seen = replace(
        profile(evaluation),
        reference_bytes=3000,
        reference_elementwise_bytes=1200,
        reference_head_bytes=head or 0,
        reference_tail_bytes=tail,
    )
    evaluation = replace(evaluation, profile=seen)
    subject = Subject(evaluation=evaluation, backend="triton", candidate=b"", reference=b"")
    return [finding.label for finding in FigLeaf().detect(subject)]


@pytest.mark.parametrize(
    ("mapped", "tail", "is_accused"),
    [
        (400, 0, True),
        (400, 200, True),
        (2900, 0, False),  # the reference's own product
        (1900, 400, False),  # a normalisation folded into weights
        (400, 1300, False),  # a long tail, which the kernels may take over
        (400, None, False),
        (None, 200, False),
    ],
)
def test_less_work_of_the_library_than_before_the_references_tail(
    mapped: int | None, tail: int | None, is_accused: bool
) -> None:
    assert _labels(mapped, tail) == ([Label.SUSPECT] if is_accused else [])


def test_kernels_between_operators_of_the_library_may_take_over_any_that_are_elementwise() -> None:
    assert _labels(400, 0, within=True) == []
    assert _labels(400, 0) == [Label.SUSPECT]


def test_kernels_before_the_library_may_take_over_operators_of_inputs() -> None:
    assert _labels(400, 200, head=0) == [Label.SUSPECT]
    assert _labels(400, 200, head=1200) == []


def test_kernels_of_an_extension_are_not_seen_by_the_mode() -> None:
    assert _labels(400, 200, origin="extension") == []
