"""Unusual inputs: the changes of each variant, and the parts that it leaves alone."""

import pytest
import torch

from workers.protocol.input_variants import CHECKED, Variant
from workers.shims.problem.varied_inputs import applied


def test_what_lies_between_the_edges_is_made_small() -> None:
    x = torch.full((4, 5), 1.5)
    edges = applied(Variant.EDGES, x)
    assert torch.equal(edges[[0, -1]], x[[0, -1]])
    assert torch.equal(edges[:, [0, -1]], x[:, [0, -1]])
    assert (edges[1:-1, 1:-1] == 1.5 / 8).all()
    assert (x == 1.5).all()


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
