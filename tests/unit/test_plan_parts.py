"""Plans of changes to inputs: whether a call with all changes in parts of the inputs is made."""

from typing import Any

import pytest
import torch

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs.input_changes import Scaling
from workers.shims.problem.inputs.planned_inputs import Plan, applied

SOME = frozenset({0})


@pytest.mark.parametrize(
    ("plan", "has_parts"),
    [
        (Plan(), False),
        (Plan(balanced=SOME, emptied=SOME), False),
        (Plan(deepened=SOME, aligned=((0, ("w",)),), telling=("scaled",)), False),
        (Plan(iterated=(Variant.HELD, Variant.DIAGONAL, Variant.LASTING)), False),
        (Plan(iterated=(Variant.STRETCHED,)), True),
        (Plan(scaling=Scaling(8.0)), True),
        (Plan(signed=SOME), True),
        (Plan(named=((0, 3.0),)), True),
    ],
)
def test_parts_are_changed_where_a_kind_is_made_in_parts(plan: Plan, *, has_parts: bool) -> None:
    torch.manual_seed(0)
    inputs: list[Any] = [torch.rand(64, 64)]
    [changed] = applied(Variant.PARTLY, plan, inputs)
    assert plan.has_parts is has_parts
    assert torch.equal(changed, inputs[0]) is not has_parts
