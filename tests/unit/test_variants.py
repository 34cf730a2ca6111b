"""Unusual inputs: the changes of each variant, and the parts that it leaves alone."""

import pytest
import torch

from workers.protocol.input_variants import CHECKED, Variant
from workers.shims.problem.inputs.varied_inputs import applied


def test_what_lies_between_the_edges_is_made_small() -> None:
    x = torch.full((4, 5), 1.5)
    edges = applied(Variant.EDGES, x)
    assert torch.equal(edges[[0, -1]], x[[0, -1]])
    assert torch.equal(edges[:, [0, -1]], x[:, [0, -1]])
    assert (edges[1:-1, 1:-1] == 1.5 / 8).all()
    assert (x == 1.5).all()


@pytest.mark.parametrize("shape", [(1, 9), (1, 2, 9), (1, 1, 9, 1)])
def test_a_batch_of_one_has_edges_along_its_other_dimensions(shape: tuple[int, ...]) -> None:
    edges = applied(Variant.EDGES, torch.full(shape, 1.5)).view(-1, 9)
    assert (edges[:, [0, -1]] == 1.5).all()
    assert (edges[:, 1:-1] == 1.5 / 8).all()


def test_a_tensor_without_a_middle_has_no_edges() -> None:
    x = torch.ones(2, 1, 2)
    assert torch.equal(applied(Variant.EDGES, x), x)


def test_spikes_leave_masks_classes_and_infinities_alone() -> None:
    torch.manual_seed(0)
    x = torch.rand(64, 64)
    spiked = applied(Variant.SPIKED, x)
    changed = spiked != x
    assert 0.03 < changed.double().mean() < 0.1
    assert torch.equal(spiked[changed], -16 * x[changed])
    for alone in (
        (x > 0.5).float(),
        torch.randint(0, 9, (500,)).float(),
        torch.full((99,), float("-inf")),
    ):
        assert torch.equal(applied(Variant.SPIKED, alone), alone)


def test_candidates_need_not_be_right_on_spikes() -> None:
    assert Variant.SPIKED not in CHECKED
    assert Variant.OWN not in CHECKED


def test_a_small_tensor_has_one_nan_and_the_smallest_none() -> None:
    assert applied(Variant.NONFINITE, torch.ones(10)).isnan().sum() == 1
    assert torch.equal(applied(Variant.NONFINITE, torch.ones(3)), torch.ones(3))
    assert (~applied(Variant.NONFINITE, torch.ones(64)).isfinite()).sum() == 3


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_of_one_sign_stay_away_from_zero(sign: int) -> None:
    """A scale divides: nine of ten are the one nearest to zero."""
    steps = sign * (0.01 + 0.1 * torch.rand(1000))
    sparse = applied(Variant.SPARSE, steps)
    nearest = sign * float(steps.abs().min())
    assert 800 < int((sparse == nearest).sum()) < 980
    assert bool((sparse * sign > 0).all())


def test_most_resampled_rows_are_copies_of_three() -> None:
    """So an expert receives more tokens than its capacity."""
    torch.manual_seed(0)
    x = torch.randn(1, 512, 4)
    resampled = applied(Variant.RESAMPLED, x)[0]
    counts = resampled.unique(dim=0, return_counts=True)[1].sort(descending=True).values
    assert 0.65 < float(counts[:3].sum()) / 512 < 0.85
    assert 0.35 < float(counts[0]) / 512 < 0.55
    assert len(counts) > 64
    assert set(map(tuple, resampled.tolist())) <= set(map(tuple, x[0].tolist()))


def test_a_mask_gets_rows_that_hide_all_and_rows_that_hide_nothing() -> None:
    torch.manual_seed(0)
    mask = (torch.rand(256, 64) < 0.1).float()
    sums = applied(Variant.CONSTANT_ROWS, mask).sum(dim=1)
    assert {0.0, 64.0} <= set(sums.tolist())
    assert int((sums == 64).sum()) < 32


@pytest.mark.parametrize(
    "classes", [torch.randint(0, 16, (1024,)), torch.randint(3, 19, (512, 2), dtype=torch.int32)]
)
def test_most_classes_are_empty_in_resampled_inputs(classes: torch.Tensor) -> None:
    torch.manual_seed(0)
    _, drawn = applied(Variant.RESAMPLED, [torch.randn(1024, 4), classes])
    assert (drawn.shape, drawn.dtype) == (classes.shape, classes.dtype)
    rows = set(map(tuple, drawn.reshape(len(drawn), -1).tolist()))
    assert len(rows) <= 3
    assert rows <= set(map(tuple, classes.reshape(len(classes), -1).tolist()))
    assert torch.equal(applied(Variant.SCALED, [classes])[0], classes)


@pytest.mark.parametrize(
    "integers",
    [
        [torch.randperm(64)],  # a permutation
        [torch.randint(0, 30, (2, 64))],  # ends of edges
        [torch.randint(0, 4, (64,)).sort().values],  # segments
        [torch.tensor([5, 3, 3, 5] * 4)],  # sizes of groups of 64 rows
        [torch.randint(-1, 4, (64,))],  # negative for none
        [torch.arange(16).repeat(4)[torch.randperm(64)]],  # each for four rows
        [torch.randint(0, 4, (64,)), torch.randint(0, 4, (64,))],  # may belong together
        [torch.rand(64) < 0.5],
    ],
)
def test_other_integers_are_not_resampled(integers: list[torch.Tensor]) -> None:
    _, *drawn = applied(Variant.RESAMPLED, [torch.randn(64, 4), *integers])
    assert all(map(torch.equal, drawn, integers))


@pytest.mark.parametrize(
    ("largest", "factor"),
    [(0.25, 3.8), (0.01, 8.0), (0.0, 8.0), (0.6, 0.125), (0.97, 1.0), (1.0, 1.0), (4.0, 8.0)],
)
def test_small_shares_grow_and_stay_below_one(largest: float, factor: float) -> None:
    x = largest * torch.linspace(0, 1, 300)
    grown = applied(Variant.SCALED, [x])[0]
    torch.testing.assert_close(grown, factor * x)
