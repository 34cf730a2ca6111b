"""Tables that are the same in every draw, with their rows moved towards others."""

from collections.abc import Callable

import pytest
import torch

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import (
    blended_tables,
    input_domain,
    planned_inputs,
    reaching_inputs,
    redrawn_inputs,
)

CPU = torch.device("cpu")


def _codebook() -> torch.Tensor:
    return torch.linspace(-1, 1, 256 * 16).reshape(256, 16)


TABLES = [
    _codebook,
    lambda: torch.outer(torch.arange(64.0), torch.linspace(0.1, 1, 8)).cos(),
    lambda: torch.linspace(0, 99, 80).sin().reshape(16, 5).softmax(-1),
    lambda: torch.linspace(1, 3, 400).reshape(20, 20).tril(),
    lambda: torch.linspace(-3, 4, 480).reshape(10, 6, 8).half(),
]


@pytest.mark.parametrize("draw", TABLES)
@pytest.mark.parametrize("in_part", [False, True])
def test_a_blended_table_is_another_with_the_same_structure(
    draw: Callable[[], torch.Tensor], in_part: bool
) -> None:
    table = draw()
    assert blended_tables.may_be_blended(table)
    for seed in range(5):
        torch.manual_seed(seed)
        other = blended_tables.blended(table, in_part=in_part)
        assert (other.dtype, other.shape) == (table.dtype, table.shape)
        assert not torch.equal(other, table)
        assert input_domain.keeps_structure(table, other)
        assert bool((other[table == 0] == 0).all())
        assert table.min() <= other.min() <= other.max() <= table.max()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.linspace(0, 1, 32),
        lambda: torch.linspace(0, 1, 32).reshape(1, 32),
        lambda: torch.nn.functional.normalize(torch.linspace(0, 9, 24).sin().reshape(6, 4), dim=-1),
        lambda: torch.cov(torch.linspace(0, 1, 32).reshape(4, 8).sin()),
        lambda: torch.tensor([[0.5, 1.0, float("-inf")], [2.0, 3.0, 4.0]]),
    ],
)
def test_vectors_and_tables_whose_structure_would_break_are_left_alone(
    draw: Callable[[], torch.Tensor],
) -> None:
    assert not redrawn_inputs.fixed([draw()], [draw()])


def test_a_table_changes_while_most_of_it_stays() -> None:
    """A result that is kept under some numbers of a table shows on such a change."""
    torch.manual_seed(0)
    plan = reaching_inputs.plan(
        lambda x, table: x @ table,
        lambda: [torch.randn(8, 256), _codebook()],
        CPU,
    )
    assert plan.fixed == {1}
    table = _codebook()
    x, changed = planned_inputs.applied(Variant.PARTLY, plan, [torch.randn(8, 256), table])
    rows = (changed != table).any(dim=1)
    assert 4 < int(rows.sum()) < 64
    assert not rows[[0, 7, 128, 255]].any()
    assert float((x @ changed - x @ table).norm() / (x @ table).norm()) > 0.02


def test_a_table_that_is_drawn_each_time_is_not_redrawn() -> None:
    assert not redrawn_inputs.fixed([torch.randn(8, 8)], [torch.randn(8, 8)])
