import pytest
import torch

from app.domain.output_checks import Trial
from workers.referee.comparison import correctness, wrong_slices
from workers.referee.wrong_output import describe


def _answer(scale: torch.Tensor, rows: int = 64) -> torch.Tensor:
    """Rows of channels that differ in size, in fp64."""
    return (
        torch.randn(
            rows, len(scale), dtype=torch.float64, generator=torch.Generator().manual_seed(2)
        )
        * scale
    )


def _found(
    got: torch.Tensor, exact: torch.Tensor, own: torch.Tensor | None = None
) -> tuple[int, int] | None:
    own = exact.to(got.dtype) if own is None else own
    return wrong_slices.first(got.flatten(), exact.flatten(), own.flatten(), tuple(exact.shape))


def test_a_small_channel_that_is_left_out() -> None:
    exact = _answer(torch.logspace(0, -9, 48, dtype=torch.float64))
    got = exact.float()
    assert _found(got, exact) is None
    got[:, 40] = 0
    assert _found(got, exact) == (1, 40)
    assert _found(got.T, exact.T) == (0, 40)


def test_a_small_part_beside_a_large_one_in_the_middle() -> None:
    exact = torch.stack((_answer(torch.ones(32)), 1e7 * _answer(torch.ones(32))), dim=1)
    got = exact.float()
    got[:, 0] *= 1.3
    assert _found(got, exact) is None
    got[:, 0] *= 2
    assert _found(got, exact) == (1, 0)


@pytest.mark.parametrize("rows", [1, 5])
def test_a_small_part_of_a_flat_output(rows: int) -> None:
    ones = torch.ones(70_000, dtype=torch.float64)
    exact = _answer(torch.cat((ones, 1e-7 * ones)), rows=rows)
    exact = exact[0] if rows == 1 else exact
    got = exact.float()
    assert _found(got, exact) is None
    got[..., 70_000:] *= 0.4
    along, first = _found(got, exact) or (0, 0)
    assert along == exact.dim() - 1
    assert 0 <= first - 70_000 < 140_000 // wrong_slices.BLOCKS + 1
    got = exact.float()
    got[..., -40:] *= 3  # too few to gain anything
    assert _found(got, exact) is None


def test_a_flat_output_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_slices, "AT_ONCE", 5000)
    exact = _answer(torch.logspace(0, -9, 20_011, dtype=torch.float64), rows=1)[0]
    got = exact.float()
    assert _found(got, exact) is None
    got[15_000:] = 0
    along, first = _found(got, exact) or (1, 0)
    assert along == 0
    assert 14_600 <= first <= 15_400


def test_a_slice_that_the_reference_cannot_compute_either_says_nothing() -> None:
    exact = _answer(torch.tensor([1.0, 1e-9], dtype=torch.float64))
    rounded = exact.float() + 1e-8
    got = exact.float()
    got[:, 1] = 0
    assert _found(got, exact, rounded) is None
    assert _found(got, exact) == (1, 1)


def test_few_elements_and_faint_ones_say_nothing() -> None:
    exact = _answer(torch.tensor([1.0, 1e-9], dtype=torch.float64), rows=wrong_slices.LEAST - 1)
    got = exact.float()
    got[:, 1] = 0
    assert _found(got, exact) is None
    exact = _answer(torch.tensor([1.0, 1e-36], dtype=torch.float64))
    got = exact.float()
    got[:, 1] = 0  # a GPU rounds such numbers to zero
    assert _found(got, exact) is None


def test_a_large_output_is_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = _answer(torch.logspace(0, -9, 48, dtype=torch.float64), rows=70)
    monkeypatch.setattr(wrong_slices, "AT_ONCE", 48 * 32)
    got = exact.float()
    assert _found(got, exact) is None
    got[:, 40] = 0
    assert _found(got, exact) == (1, 40)
    got = exact.float()
    got[66] *= 3
    assert _found(got, exact) == (0, 66)
    monkeypatch.setattr(wrong_slices, "AT_ONCE", 47)
    assert _found(got, exact) is None


def test_numbers_that_are_exact_and_those_that_are_not_finite() -> None:
    exact = _answer(torch.ones(4))
    assert _found(exact.long(), exact.long()) is None
    exact[3, 2] = torch.inf
    assert _found(exact.float(), exact) is None


def test_an_output_with_such_a_slice_is_wrong_and_says_which() -> None:
    exact = _answer(torch.logspace(0, -9, 48, dtype=torch.float64))
    got = exact.float()
    got[:, 45:] = 0
    mine, truth, own = (each.reshape(1, -1) for each in (got, exact, exact.float()))
    compared = correctness.compare(mine, truth, own, torch.full_like(mine, 7), 0, (64, 48))
    assert compared.ok == [True]
    closer = compared.by_slices(1, truth, own)
    assert (closer.ok, closer.check(0).wrong_slice) == ([False], (1, 45))
    assert compared.by_slices(0, truth, own).ok == [True]
    trial = Trial(call=0, seed="", ok=False, outputs=(closer.check(0),))
    assert "slice 45 of dimension 1 is off by half of its own size" in describe(
        trial, correctness.DEFAULT_RULE
    )
