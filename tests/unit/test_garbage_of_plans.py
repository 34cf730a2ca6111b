"""Tensors of a plan's calls are freed with their last use, not when garbage is collected: on a
device they may take gigabytes.
"""

import gc
from collections.abc import Callable, Iterator

import pytest
import torch

from tests.unit.test_reaching import _normal, _plan
from workers.shims.problem.inputs import planned_inputs

functional = torch.nn.functional


@pytest.fixture
def garbage() -> Iterator[list[object]]:
    """Everything that a collection has found, once there was one."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x.softmax(-1),
        lambda x: functional.hardtanh(x, -9, 9),
        lambda x: functional.max_pool2d(x[None].abs(), 3, padding=1),
        lambda x: x.cumsum(0).clamp(max=1e4),
        lambda x: x.sort(0).values,
    ],
)
def test_tensors_of_a_plan_are_in_no_cycle(
    model: Callable[[torch.Tensor], torch.Tensor], garbage: list[object]
) -> None:
    plan = _plan(model, _normal)
    for kind in plan.kinds:
        planned_inputs.applied(kind, plan, [_normal()])
    gc.collect()
    assert not [each for each in garbage if isinstance(each, torch.Tensor)]
