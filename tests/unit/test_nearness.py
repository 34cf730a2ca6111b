"""Answers near the reference's own are within the limits of their expected outputs,
which nothing computes then.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from workers.referee.comparison import correctness
from workers.referee.comparison.nearness import MARGIN, TRUE_CALLS, Nearness, distances

ELEMENTS = 4096
TYPES = (torch.float32, torch.float16, torch.bfloat16)
POISON = torch.zeros(64, dtype=torch.uint8)


def _compared(
    got: torch.Tensor, expected: torch.Tensor, own: torch.Tensor
) -> correctness.ComparedOutput:
    return correctness.compare(got, expected, own, POISON, 0, (ELEMENTS,))


def _answers(
    generator: torch.Generator, error: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """An expected output in fp64 and a reference's own, which errs by `error` in
    relative L2 beside its rounding.
    """
    expected = torch.randn((1, ELEMENTS), generator=generator, dtype=torch.float64)
    noise = torch.randn((1, ELEMENTS), generator=generator, dtype=torch.float64)
    return expected, (expected + error * noise).to(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_no_answer_counts_as_near_that_its_limits_refuse(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    near = refused = 0
    for error in (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        nearness = Nearness(correctness.DEFAULT_RULE)
        for _ in range(TRUE_CALLS):
            expected, own = _answers(generator, error, dtype)
            nearness.note([_compared(own, expected, own)], 0)
        for share, apart, lone in itertools.product(
            (MARGIN * 1.1, 1.0, 3.0), (0.0, 1e-7, 1e-6, 3e-6, 1e-5, 1e-4, 1e-3, 1e-2), (False, True)
        ):
            expected, own = _answers(generator, error * share, dtype)
            change = torch.zeros((1, ELEMENTS), dtype=torch.float64)
            if lone:
                change[0, 7] = apart * ELEMENTS**0.5
            else:
                change = apart * torch.randn(
                    (1, ELEMENTS), generator=generator, dtype=torch.float64
                )
            got = (own.double() + change).to(dtype)
            right = _compared(got, expected, own).ok == [True]
            is_near = nearness.applies() and nearness.are_near([got], [own]) == [True]
            assert right or not is_near, (error, share, apart, lone)
            near += is_near
            refused += not right
    assert near > 30
    assert refused > 30


def test_the_same_bytes_are_near_and_a_nan_is_not() -> None:
    generator = torch.Generator().manual_seed(2)
    nearness = Nearness(correctness.DEFAULT_RULE)
    for _ in range(TRUE_CALLS):
        assert not nearness.applies()
        expected, own = _answers(generator, 1e-6, torch.float32)
        nearness.note([_compared(own, expected, own)], 0)
    assert nearness.applies()
    both = torch.cat([own, own])
    other = both.clone()
    other[1, 5] = math.nan
    assert nearness.are_near([both], [both.clone()]) == [True, True]
    assert nearness.are_near([other], [both]) == [True, False]
    assert nearness.are_near([other], [other.clone()]) == [True, False]


def test_whole_numbers_are_near_only_where_they_are_equal() -> None:
    nearness = Nearness(correctness.DEFAULT_RULE)
    ids = torch.arange(6).reshape(2, 3)
    other = ids.clone()
    other[1, 2] += 1
    assert nearness.are_near([ids], [other]) == [True, False]


def test_every_output_of_a_call_has_to_be_near() -> None:
    generator = torch.Generator().manual_seed(3)
    nearness = Nearness(correctness.DEFAULT_RULE)
    expected, own = _answers(generator, 1e-6, torch.float32)
    nearness.note([_compared(own, expected, own)], 0)
    two = torch.cat([own, own])
    wrong = two.clone()
    wrong[0] *= 1.01
    ids = torch.zeros((2, 3), dtype=torch.int64)
    assert nearness.are_near([two, ids], [wrong, ids]) == [False, True]


def test_a_submitters_tolerance_and_a_reference_that_errs_much_are_not_decided_by_distance() -> (
    None
):
    generator = torch.Generator().manual_seed(4)
    for rule, error in (
        (correctness.Rule(tolerance=(1e-3, 1e-3)), 1e-6),
        (correctness.DEFAULT_RULE, 0.3),
    ):
        nearness = Nearness(rule)
        for _ in range(TRUE_CALLS):
            expected, own = _answers(generator, error, torch.float32)
            nearness.note(
                [correctness.compare(own, expected, own, POISON, 0, (ELEMENTS,), rule)], 0
            )
        assert not nearness.applies()


def test_distances_are_those_of_the_whole_output_also_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = torch.Generator().manual_seed(5)
    own = torch.randn((3, 1000), generator=generator)
    got = own + 1e-3 * torch.randn((3, 1000), generator=generator)
    whole = list(distances(got, own))
    monkeypatch.setattr("workers.referee.comparison.nearness.AT_ONCE", 256)
    assert list(distances(got, own)) == [pytest.approx(each, rel=1e-5) for each in whole]
    l2 = torch.linalg.vector_norm((got - own).double(), dim=1) / torch.linalg.vector_norm(
        own.double(), dim=1
    )
    assert [each for each, _ in whole] == pytest.approx(l2.tolist(), rel=1e-5)
    assert list(distances(own[:, :0], own[:, :0])) == [(0.0, 0.0)] * 3


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_no_answer_counts_as_far_that_its_limits_accept(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    far = 0
    for error, apart in itertools.product(
        (1e-6, 1e-3, 1e-2, 0.09), (1e-3, 0.1, 0.3, 0.5, 0.6, 1.0, 10.0)
    ):
        nearness = Nearness(correctness.DEFAULT_RULE)
        for _ in range(TRUE_CALLS):
            expected, own = _answers(generator, error, dtype)
            nearness.note([_compared(own, expected, own)], 0)
        expected, own = _answers(generator, error, dtype)
        change = apart * torch.randn((1, ELEMENTS), generator=generator, dtype=torch.float64)
        got = (own.double() + change).to(dtype)
        [is_far] = nearness.are_far([got], [own])
        assert nearness.applies()
        assert not (is_far and _compared(got, expected, own).ok[0]), (error, apart)
        far += is_far
    assert far >= 8


def test_on_unusual_inputs_an_answer_may_be_a_hundredth_apart() -> None:
    generator = torch.Generator().manual_seed(4)
    nearness = Nearness(correctness.DEFAULT_RULE)
    for _ in range(TRUE_CALLS):
        expected, own = _answers(generator, 1e-6, torch.float32)
        nearness.note([_compared(own, expected, own)], 0)
    rounded, scaled = own.to(torch.bfloat16).float(), own * 1.05
    assert nearness.are_near([rounded], [own]) == [False]
    assert nearness.are_near([rounded], [own], gross=True) == [True]
    assert nearness.are_near([scaled], [own], gross=True) == [False]
