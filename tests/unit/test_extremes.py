"""Maxima and minima that lie on one side, and inputs on which they do not."""

from collections.abc import Callable

import pytest
import torch

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import planned_inputs, reaching_inputs
from workers.shims.problem.observers import extremes

Model = Callable[[torch.Tensor], torch.Tensor]


@pytest.mark.parametrize(
    ("model", "begun"),
    [
        (lambda x: torch.max_pool2d(x, 3), lambda x: torch.max_pool2d(x, 3).clamp(min=-2)),
        (lambda x: x.amax(dim=2), lambda x: x.amax(dim=2).clamp(min=-2)),
        (lambda x: x.min(dim=1).values, lambda x: x.min(dim=1).values.clamp(max=2)),
        (lambda x: x.amin(dim=(1, 2)), lambda x: x.amin(dim=(1, 2)).clamp(max=2)),
    ],
)
def test_an_extreme_that_begins_with_a_number_is_wrong(model: Model, begun: Model) -> None:
    torch.manual_seed(0)

    def draw() -> torch.Tensor:
        return torch.randn(8, 16, 12, 12)

    plan = reaching_inputs.plan(model, lambda: [draw()], torch.device("cpu"))
    assert plan.deepened == {0}
    (x,) = planned_inputs.applied(Variant.SIGNED, plan, [draw()])
    assert float((begun(x) - model(x)).norm() / model(x).norm()) > 0.02


@pytest.mark.parametrize(
    ("name", "values", "found", "are"),
    [
        ("aten::amax", [-4.0, 4.0], [3.0], True),
        ("aten::amax", [-4.0, 4.0], [-1.0, 2.0], True),
        ("aten::amax", [-4.0, 4.0], [-3.0, 2.0], False),
        ("aten::amax", [1.0, 4.0], [3.0], False),  # its values have one sign
        ("aten::amin", [-4.0, 4.0], [-3.0, 1.0], True),
        ("aten::amin", [-4.0, 4.0], [-3.0, 3.0], False),
        ("aten::sum", [-4.0, 4.0], [3.0], False),
    ],
)
def test_extremes_are_shallow(
    name: str, values: list[float], found: list[float], are: bool
) -> None:
    flag = extremes.are_shallow(name, torch.tensor(values), torch.tensor(found))
    assert bool(flag is not None and flag) == are
