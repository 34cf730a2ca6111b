"""Changes to a small part of inputs, at random places."""

import pytest
import torch

from workers.protocol.input_variants import Variant
from workers.shims.problem import local_changes, reaching_inputs, redrawn_inputs
from workers.shims.problem.input_changes import Scaling
from workers.shims.problem.reaching_inputs import Plan
from workers.shims.problem.varied_inputs import applied


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


def test_local_inputs_are_the_problems_own_but_for_a_few_rows() -> None:
    x = torch.randn(128, 32)
    changed = (applied(Variant.LOCAL, x) != x).any(dim=1).sum()
    assert 1 <= changed <= 6


def test_a_mask_is_redrawn_in_part() -> None:
    mask = torch.full((64, 64), float("-inf")).triu(1)
    seen = 0
    for _ in range(20):
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


def test_all_kinds_are_in_a_few_rows() -> None:
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
        given, reaching_inputs.applied(Variant.PARTLY, plan, given), strict=True
    ):
        rows = int((before != after).any(dim=1).sum())
        assert 1 <= rows <= 12, rows
