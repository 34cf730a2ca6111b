"""Inputs that are the same in every draw: numbers of segments, and faint factors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
import torch

from workers.shims.problem.inputs import redrawn_inputs

SEGMENTS = torch.arange(9).repeat_interleave(12)


def test_numbers_of_segments_stay_sorted_between_the_same_ends() -> None:
    torch.manual_seed(0)
    x = torch.randn(108)
    assert redrawn_inputs.fixed([SEGMENTS, x], [SEGMENTS, x + 1]) == frozenset({0})
    for changed in (
        redrawn_inputs.redrawn([SEGMENTS, x], {0})[0],
        redrawn_inputs.redrawn_in_part([SEGMENTS, x], {0})[0],
    ):
        assert not torch.equal(changed, SEGMENTS)
        assert bool((changed.diff() >= 0).all())
        assert (int(changed[0]), int(changed[-1])) == (0, 8)


@pytest.mark.parametrize("redraw", [redrawn_inputs.redrawn, redrawn_inputs.redrawn_in_part])
def test_offsets_are_of_rows_in_another_order(
    redraw: Callable[[list[Any], Collection[int]], list[Any]],
) -> None:
    lengths = torch.tensor([5, 40, 0, 33, 12, 7, 21, 2] * 4)
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    for seed in range(20):
        torch.manual_seed(seed)
        (changed,) = redraw([offsets], {0})
        assert not torch.equal(changed, offsets)
        assert torch.equal(changed.diff().sort().values, lengths.sort().values)


def test_lengths_follow_their_offsets() -> None:
    lengths = torch.tensor([5, 40, 0, 33, 12, 7, 21, 2], dtype=torch.int32)
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    for some in ({0, 1}, {0}, {1}):
        torch.manual_seed(0)
        rows, starts = redrawn_inputs.redrawn([lengths, offsets], some)
        assert torch.equal(rows, starts.diff().int())
        assert rows.dtype == torch.int32
        assert torch.equal(starts, offsets) is (1 not in some)


def test_offsets_of_equal_rows_are_drawn_anew() -> None:
    torch.manual_seed(0)
    (changed,) = redrawn_inputs.redrawn([torch.arange(9) * 16], {0})
    assert (int(changed[0]), int(changed[-1])) == (0, 128)
    assert len(changed.diff().unique()) > 2


def test_they_stay_beside_integers_that_may_count_them() -> None:
    counts = torch.full((9,), 12)
    given = [SEGMENTS, counts.clone()]
    assert 0 not in redrawn_inputs.fixed(given, [SEGMENTS, counts])


@pytest.mark.parametrize("value", [1e-9, -1e-6])
def test_faint_equal_numbers_are_drawn_as_zeros_are_with_their_sign(value: float) -> None:
    torch.manual_seed(0)
    (several,) = redrawn_inputs.redrawn([torch.full((64,), value)], {0})
    (one,) = redrawn_inputs.redrawn([torch.tensor(value)], {0})
    assert float(several.abs().mean()) > 0.1
    assert abs(float(one)) >= redrawn_inputs.OPENED[0]
    assert bool((several * value >= 0).all())
    assert float(one) * value > 0


def test_a_faint_number_of_python_stays_near_its_value() -> None:
    (changed,) = redrawn_inputs.redrawn([1e-6], {0})
    assert 1e-7 < changed < 1e-5
