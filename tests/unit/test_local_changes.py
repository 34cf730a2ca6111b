"""Changes to a small part of inputs, at random places."""

import pytest
import torch

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import local_changes, planned_inputs, redrawn_inputs
from workers.shims.problem.inputs.input_changes import Scaling
from workers.shims.problem.inputs.planned_inputs import Plan
from workers.shims.problem.inputs.varied_inputs import applied


@pytest.mark.parametrize("shape", [(256, 8), (2, 3, 4), (1, 9), (128,), (3, 1)])
def test_a_few_rows_are_changed(shape: tuple[int, ...]) -> None:
    x = torch.ones(shape)
    share = float((local_changes.in_few_rows(x, lambda rows: 2 * rows) == 2).double().mean())
    assert 0 < share <= 0.5
    assert (x == 1).all()


def test_what_has_one_element_stays_as_it_is() -> None:
    for x in (torch.ones(()), torch.ones(1, 1)):
        assert local_changes.in_few_rows(x, lambda rows: 2 * rows) is x


def test_consecutive_slices_are_changed() -> None:
    x = torch.zeros(1, 64)
    (changed,) = local_changes.in_a_quarter(x, torch.ones_like).nonzero()[:, 1].unsqueeze(0)
    assert changed.tolist() == list(range(int(changed[0]), int(changed[0]) + 16))
    assert (local_changes.in_a_quarter(torch.zeros(3, 2), torch.ones_like) == 1).all()


def test_rows_repeat_themselves() -> None:
    rows = torch.arange(7.0).repeat(2, 1)
    assert local_changes.with_equal_halves(rows)[1].tolist() == [0, 1, 2, 0, 1, 2, 6]
    assert local_changes.with_equal_pairs(rows)[0].tolist() == [0, 0, 2, 2, 4, 4, 6]


def test_local_inputs_are_the_problems_own_but_for_a_few_places() -> None:
    x = torch.randn(128, 32)
    changed = (applied(Variant.LOCAL, x) != x).double().mean()
    assert 0 < changed <= 5 * local_changes.FEW


def test_some_rows_are_faint_and_some_negative() -> None:
    x = torch.randn(128, 32)
    sizes = applied(Variant.LOCAL, x).square().mean(dim=1)
    assert (sizes < 2**-7).any()
    negative = [(applied(Variant.LOCAL, x) < -1e-6).all(dim=1).any() for _ in range(8)]
    assert any(negative)
    labels = torch.randint(0, 2, (128,)) * 2.0 - 1
    assert set(applied(Variant.LOCAL, labels).abs().tolist()) <= {1.0, 8.0, 64.0}
    assert (applied(Variant.LOCAL, torch.rand(128, 32)) >= 0).all()


@pytest.mark.parametrize("shape", [(4, 4096), (16, 8, 256), (32, 2, 16, 16)])
def test_of_several_slices_each_draw_has_rows_that_repeat_themselves_and_unlike_ones(
    shape: tuple[int, ...],
) -> None:
    for _ in range(32):
        x = applied(Variant.LOCAL, torch.randn(shape)).reshape(-1, shape[-1])
        half = shape[-1] // 2
        halves = (x[:, :half] == x[:, half:]).all(1)
        pairs = (x[:, ::2] == x[:, 1::2]).all(1)
        assert (halves | pairs).any()
        assert (x.abs().amax(1) < 0.5).any() or (x <= 0).all(1).any()


def test_a_mask_is_redrawn_in_part() -> None:
    mask = torch.full((64, 64), float("-inf")).triu(1)
    seen = 0
    for _ in range(60):
        (after,) = redrawn_inputs.redrawn_in_part([mask], {0})
        assert torch.equal(after.flatten().sort().values, mask.flatten().sort().values)
        seen += not torch.equal(after, mask)
        assert (after == mask).double().mean() > 0.9
    assert seen > 5


def test_offsets_keep_their_ends_and_their_order() -> None:
    offsets = torch.arange(0, 640, 10)
    for _ in range(20):
        (after,) = redrawn_inputs.redrawn_in_part([offsets], {0})
        assert (after.diff() > 0).all()
        assert (int(after[0]), int(after[-1])) == (0, 630)


@pytest.mark.parametrize("whole", [0, 1])
def test_samples_seldom_see_a_change(whole: int) -> None:
    """The first rows, every second, third or fifth one, the middle, the ends of all."""
    samples = torch.zeros(256, 300, dtype=torch.bool)
    for rows in (slice(64), slice(0, None, 2), slice(0, None, 3), slice(0, None, 5), 128, -1):
        samples[rows] = True
    if not whole:
        samples[:, :75] = samples[:, ::2] = True
    unseen = 0
    for _ in range(100):
        changed = local_changes.in_few_rows(torch.zeros(256, 300), torch.ones_like, whole=whole)
        unseen += not (changed[samples] != 0).any()
    assert unseen > 50


def test_single_places_of_all_dimensions_are_changed() -> None:
    shares = [
        float(local_changes.in_secluded_places(torch.zeros(32, 200, 9), torch.ones_like).mean())
        for _ in range(50)
    ]
    assert 1e-3 < min(shares) < 0.02
    assert max(shares) < 0.5


@pytest.mark.parametrize("size", range(1, 40))
def test_there_is_a_place_where_samples_seldom_look(size: int) -> None:
    at = local_changes.places(size).tolist()
    assert at
    assert 0 not in at or size == 1
    inner = set(local_changes.places(size, secluded=False).tolist())
    assert inner >= set(at)
    assert len(inner) == max(1, size - 3)


def test_matrices_are_changed_as_a_whole() -> None:
    for _ in range(20):
        changed = local_changes.in_few_rows(torch.zeros(8, 5, 6), torch.ones_like, whole=2)
        assert set(changed.sum(dim=(1, 2)).tolist()) == {0.0, 30.0}


def test_all_kinds_are_in_a_part() -> None:
    plan = Plan(
        scaling=Scaling(1000.0), signed=frozenset({1}), unsorted=frozenset({2}), named=((3, 7.0),)
    )
    given = [
        torch.randn(256, 8),
        torch.rand(256, 8) + 1,
        torch.rand(256, 8).sort(dim=-1).values,
        torch.randint(0, 5, (256, 8)),
    ]
    for before, after in zip(
        given, planned_inputs.applied(Variant.PARTLY, plan, given), strict=True
    ):
        assert 0 < float((before != after).double().mean()) <= 3 / 8


@pytest.mark.parametrize("count", [8, 24, 200])
def test_sizes_of_groups_are_traded_where_samples_seldom_look(count: int) -> None:
    x, sizes = torch.zeros(50 * count, 2), torch.full((count,), 50)
    for _ in range(20):
        changed = redrawn_inputs.redrawn_in_part([x, sizes], {1})[1]
        assert changed.sum() == sizes.sum()
        assert 2 <= int((changed != sizes).sum()) < count
        assert {int(changed[at]) for at in (0, count // 2, -1)} == {50}
