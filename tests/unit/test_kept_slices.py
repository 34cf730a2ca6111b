"""Slices of an answer that stay right without the candidate's kernels."""

import pytest
import torch

from workers.referee.comparison import kept_slices, output_errors


def share(wrong: torch.Tensor, dtype: torch.dtype = torch.float32) -> float:
    expected = torch.randn(wrong.shape).double()
    got = torch.where(wrong, float("nan"), expected).to(dtype)
    return kept_slices.share([got.flatten()], [expected.flatten()], [tuple(wrong.shape)])


@pytest.mark.parametrize("along", [0, 1, 2])
def test_slices_without_an_error_are_kept(along: int) -> None:
    wrong = torch.zeros(8, 10, 20, dtype=torch.bool)
    wrong.select(along, 3).fill_(True)
    assert share(wrong) == pytest.approx(1 - 1 / wrong.shape[along])


def test_scattered_errors_leave_no_slice() -> None:
    assert share(torch.eye(16, dtype=torch.bool)) == 0


def test_rounding_is_no_error() -> None:
    assert share(torch.zeros(4, 4, dtype=torch.bool), torch.bfloat16) == 1


def test_outputs_count_by_their_elements() -> None:
    right, wrong = torch.ones(30), torch.full((10,), float("nan"))
    expected = [torch.ones(30).double(), torch.ones(10).double()]
    assert kept_slices.share([right, wrong], expected, [(30,), (2, 5)]) == 0.75


def test_exact_types_are_equal_or_wrong() -> None:
    expected = torch.arange(12)
    got = expected.clone()
    got[5] += 1
    assert kept_slices.share([got], [expected], [(3, 4)]) == pytest.approx(0.75)
    assert kept_slices.share([got], [expected], [(12,)]) == pytest.approx(11 / 12)
    assert kept_slices.share([got[0]], [expected[0]], [()]) == 1


def test_nothing_is_known_of_an_output_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(output_errors.LOOKED_AT, "cpu", 8)
    assert share(torch.zeros(3, 3, dtype=torch.bool)) == 0
