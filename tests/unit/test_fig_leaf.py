"""Kernels that only apply a function to each element of a library's tensor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.detectors.fig_leaf import FigLeaf
from app.domain.kernel_profile import ReferenceChains
from app.domain.verdict import Label, Subject
from tests.unit.measurements import ablated, kernels, profile

MB = 1 << 20
CHAINS = ReferenceChains(launched_bytes=900 * MB, rest_bytes=900 * MB, whole_bytes=2700 * MB)


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


@pytest.mark.parametrize(
    ("chains", "library", "is_accused"),
    [
        (CHAINS, 1, True),
        (CHAINS, 150, False),  # operators of a chain that the library computes as well
        (replace(CHAINS, local_bytes=900 * MB), 1, False),
        (replace(CHAINS, launched_bytes=90 * MB), 1, False),
        (ReferenceChains(), 1, False),
        (None, 1, False),
    ],
)
def test_chains_of_the_references_operators_that_the_library_saves(
    chains: ReferenceChains | None, library: int, is_accused: bool
) -> None:
    evaluation = ablated(kernels(35, 65, "triton"), mapped_bytes=5 * MB)
    rows = tuple(
        row if row.custom else replace(row, launches=10 * library)
        for row in profile(evaluation).kernels
    )
    seen = replace(profile(evaluation), kernels=rows, reference_chains=chains)
    subject = Subject(
        evaluation=replace(evaluation, profile=seen), backend="triton", candidate=b"", reference=b""
    )
    found = [finding.label for finding in FigLeaf().detect(subject)]
    assert found == ([Label.SUSPECT] if is_accused else [])
