"""Inputs that reach the cases which a reference's code distinguishes."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.protocol.input_variants import Variant
from workers.shims.problem.input_slots import InputSlots
from workers.shims.problem.inputs import planned_inputs, reaching_inputs
from workers.shims.problem.inputs.input_changes import Scaling
from workers.shims.problem.inputs.planned_inputs import Plan
from workers.shims.problem.reference_problem import Problem

CPU = torch.device("cpu")


def _plan(model: Callable[..., Any], *inputs: Callable[[], Any]) -> Plan:
    torch.manual_seed(0)
    return reaching_inputs.plan(model, lambda: [draw() for draw in inputs], CPU)


def _normal() -> torch.Tensor:
    return torch.randn(64, 32)


def test_a_plan_that_memory_ran_out_for_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(tmp_path, CPU)
    found: list[Any] = [torch.OutOfMemoryError("CUDA out of memory"), Plan(named=((0, 1.0),))]

    def plan(*_: object) -> Plan:
        if isinstance(found[0], Exception):
            raise found.pop(0)
        return found[0]

    monkeypatch.setattr(reaching_inputs, "plan", plan)
    spec = SimpleNamespace(work=reaching_inputs.NO_WORK)
    session: Any = SimpleNamespace(model=None, draw=None, spec=spec)
    slots = InputSlots(problem)
    problem._sole = False
    with pytest.raises(torch.OutOfMemoryError):
        slots._planned(session)
    assert slots._planned(session) == found[0]
    found.insert(0, torch.OutOfMemoryError("CUDA out of memory"))
    problem._sole = True
    assert InputSlots(problem)._planned(session) == Plan()


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.clamp(x, -500, 500),
        lambda x: torch.clamp(x, max=500),
        lambda x: torch.nn.functional.hardtanh(x, -500.0, 500.0),
        lambda x: torch.nn.functional.threshold(x, 500.0, 0.0),
        lambda x: torch.where(x > 500, x.sqrt(), x),
        lambda x: x / 2 if (x.abs().amax() > 500) else x,
        lambda x: torch.minimum(x, torch.tensor(500.0)),
        lambda x: torch.maximum(torch.full((32,), -500.0), x),
        lambda x: torch.clamp(x, max=torch.tensor(500.0)),
        lambda x: torch.where(torch.tensor(500.0) < x, x.sqrt(), x),
        lambda x: torch.remainder(x.abs(), 500),
        lambda x: torch.fmod(x, 500.0),
        lambda x: torch.nn.functional.huber_loss(x, torch.zeros_like(x), delta=500.0),
        lambda x: torch.nn.functional.smooth_l1_loss(x, torch.zeros_like(x), beta=500.0),
        lambda x: torch.nn.functional.hardshrink(x, 500.0),
    ],
)
def test_limits_out_of_reach_are_reached(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    plan = _plan(model, _normal)
    assert replace(plan, emptied=frozenset(), zeroed=frozenset()).kinds == (Variant.REACHING,)
    assert plan.scaling is not None
    (x,) = planned_inputs.applied(Variant.REACHING, plan, [_normal()])
    assert float(x[::2].abs().amax()) > 500 > float(x[1::2].abs().amax())


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.relu(x),
        lambda x: torch.clamp(x, -1, 1),  # reached as it is
        lambda x: (
            x / torch.clamp(x.norm(dim=-1, keepdim=True), min=1e-12)
        ),  # keeps a division from zero
        lambda x: x.masked_fill(x < -1e9, 0.0),  # stands for infinity
        lambda x: torch.maximum(x, x.roll(1)),
        lambda x: torch.nn.functional.smooth_l1_loss(x, torch.zeros_like(x)),
    ],
)
def test_other_limits_are_left_alone(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert replace(_plan(model, _normal), emptied=frozenset()) == Plan()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(64, 32).softmax(-1),
        lambda: torch.randint(0, 2, (64, 32)).float(),
        lambda: torch.nn.functional.normalize(torch.rand(64, 32), dim=-1),
    ],
)
def test_inputs_with_a_structure_are_not_scaled(draw: Callable[[], torch.Tensor]) -> None:
    assert _plan(lambda x: torch.clamp(x, max=500), draw) == Plan()


@pytest.mark.parametrize("draw", [lambda: torch.rand(64, 32), lambda: 2 * torch.rand(64, 32) - 1])
def test_inputs_leave_their_bounds_to_reach_a_limit(draw: Callable[[], torch.Tensor]) -> None:
    plan = _plan(lambda x: torch.clamp(x, -500, 500), draw)
    assert plan.scaling is not None
    assert plan == Plan(scaling=Scaling(plan.scaling.factor, leaves_bounds=True))
    (x,) = planned_inputs.applied(Variant.REACHING, plan, [draw()])
    assert float(x[::2].abs().amax()) > 500 > 1 >= float(x[1::2].abs().amax())


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.arange(10)[(x * 9).long()].clamp(max=500) + x.clamp(max=500),
        lambda x: torch.arange(10)[(x * 9).int().long()] + x.clamp(max=500),
        lambda x: (
            torch.nn.functional.binary_cross_entropy(x, x, reduction="none").clamp(max=500)
            + x.clamp(max=500)
        ),
    ],
)
def test_inputs_that_become_an_index_or_a_probability_keep_their_bounds(
    model: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    plan = _plan(model, lambda: torch.rand(64, 32))
    assert replace(plan, named=()) == Plan()


@pytest.mark.parametrize(
    ("model", "is_scattered"),
    [
        (lambda x: torch.minimum(x, torch.linspace(50, 60, 32)), False),
        (lambda x: torch.where(x > torch.linspace(50, 60, 32), x.abs().sqrt(), x), False),
        (lambda x: torch.clamp(x, max=torch.linspace(50, 60, 32)), False),
        (lambda x: torch.maximum(x, x.mean(-1, keepdim=True) - 5 * x.std(-1, keepdim=True)), True),
    ],
)
def test_limits_that_are_tensors_are_reached(
    model: Callable[[torch.Tensor], torch.Tensor], is_scattered: bool
) -> None:
    plan = _plan(model, _normal)
    assert replace(plan, emptied=frozenset(), zeroed=frozenset()).kinds == (Variant.REACHING,)
    assert plan.scaling is not None
    assert plan.scaling.is_scattered is is_scattered


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.renorm(x, 2, 0, 500.0),
        lambda x: torch.nn.functional.hardswish(x / 100),
        lambda x: torch.nn.functional.hardsigmoid(x / 100),
        lambda x: x * torch.clamp(500 / (x.norm() + 1e-6), max=1.0),
        lambda x: torch.relu(x.square().sum(-1) - x.roll(1).square().sum(-1) + 150),  # a margin
    ],
)
def test_limits_within_operators_and_of_norms_are_reached(
    model: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    assert _plan(model, _normal).kinds == (Variant.REACHING,)


def test_sorted_integers_stay_sorted_between_the_same_ends() -> None:
    offsets = torch.arange(13) * 50
    plan = _plan(lambda x, at: x.sum() + at.sum(), _normal, lambda: offsets.clone())
    assert plan == Plan(fixed=frozenset({1}))
    x = _normal()
    same, drawn = planned_inputs.applied(Variant.REDRAWN, plan, [x, offsets])
    assert same is x
    assert (drawn[0], drawn[-1], drawn.dtype, drawn.shape) == (0, 600, offsets.dtype, offsets.shape)
    assert bool((drawn[1:] > drawn[:-1]).all())
    assert not torch.equal(drawn, offsets)


def test_segments_that_do_not_overlap_stay_so() -> None:
    starts, lengths = torch.arange(12) * 50, torch.randint(30, 51, (12,))
    plan = Plan(fixed=frozenset({0}))
    assert planned_inputs.applied(Variant.REDRAWN, plan, [starts, lengths])[0] is starts
    ends = starts + lengths
    assert planned_inputs.applied(Variant.REDRAWN, plan, [starts, ends])[0] is starts
    unrelated = torch.randint(0, 3000, (12,))
    unrelated[0], unrelated[1] = -1, 3000
    assert not torch.equal(
        planned_inputs.applied(Variant.REDRAWN, plan, [starts, unrelated])[0], starts
    )


def test_rows_of_other_integers_change_places() -> None:
    table = torch.arange(40).reshape(8, 5)
    mask = torch.ones(8, 8, dtype=torch.bool).tril()
    plan = _plan(lambda a, b: a.sum() + b.sum(), lambda: table.clone(), lambda: mask.clone())
    assert plan.fixed == {0, 1}
    torch.manual_seed(1)
    places, causal = planned_inputs.applied(Variant.REDRAWN, plan, [table, mask])
    assert sorted(map(tuple, places.tolist())) == sorted(map(tuple, table.tolist()))
    assert not torch.equal(places, table)
    assert bool(causal.any(dim=1).all())


@pytest.mark.parametrize("kept", [True, False])
def test_an_eighth_of_a_mask_that_hides_all_or_nothing_is_turned(kept: bool) -> None:
    mask = torch.full((32, 32), kept)
    plan = _plan(lambda a, b: (a.sum(), b.sum()), _normal, lambda: mask.clone())
    assert plan == Plan(fixed=frozenset({1}), emptied=frozenset({1}))
    torch.manual_seed(1)
    _, turned = planned_inputs.applied(Variant.REDRAWN, plan, [_normal(), mask])
    assert turned.dtype == torch.bool
    assert 64 < int((turned != mask).sum()) < 192


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.arange(10),
        lambda: torch.full((10,), -1),
        lambda: torch.randint(0, 9, (50,)),
        lambda: 7,
    ],
)
def test_integers_that_vary_or_cannot_are_left_alone(draw: Callable[[], Any]) -> None:
    assert _plan(lambda x, _: x, _normal, draw) == Plan()


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
def test_numbers_that_are_all_equal_are_drawn_about_their_value(value: float) -> None:
    plan = _plan(lambda x, level: x + level, _normal, lambda: torch.full((64, 32), value))
    assert (plan.kinds, plan.fixed) == ((Variant.REDRAWN,), frozenset({1}))
    inputs = [_normal(), torch.full((64, 32), value)]
    x, level = planned_inputs.applied(Variant.REDRAWN, plan, inputs)
    assert torch.equal(x, inputs[0])
    assert float(level.std()) > 0.1
    assert value == 0 or bool((level / value > 0).all())


@pytest.mark.parametrize(
    "level",
    [
        lambda: torch.full((64, 32), 1 / 32),  # shares
        lambda: torch.full((8, 16), 0.25),  # unit rows
        lambda: torch.full((64, 32), -1e9),  # stands for infinity
        lambda: torch.full((64, 32), float("inf")),
        lambda: torch.zeros(64, 32, dtype=torch.float8_e4m3fn),
        lambda: torch.full((64, 32), float(torch.rand(()))),  # another in every draw
        lambda: torch.linspace(0, 1, 32),  # a problem's own kind
    ],
)
def test_other_numbers_are_left_as_they_are(level: Callable[[], torch.Tensor]) -> None:
    assert not _plan(lambda x, level: x, _normal, level).fixed


def test_rows_that_are_alike_are_reordered_within() -> None:
    plan = _plan(lambda x: x * 2, lambda: torch.arange(64).repeat(8, 1))
    assert plan.kinds == (Variant.REDRAWN,)
    torch.manual_seed(1)
    (x,) = planned_inputs.applied(Variant.REDRAWN, plan, [torch.arange(64).repeat(8, 1)])
    assert not torch.equal(x, torch.arange(64).repeat(8, 1))
    assert torch.equal(x.sort(dim=1).values, torch.arange(64).repeat(8, 1))


@pytest.mark.parametrize("shape", [(8,), (4, 3), (1,), ()])
def test_equal_integers_are_drawn_from_half_of_their_value_on(shape: tuple[int, ...]) -> None:
    lengths = torch.full(shape, 97)
    plan = _plan(lambda x, n: x * n.sum(), lambda: torch.randn(7, 5), lambda: lengths.clone())
    assert plan.fixed == {1}
    plan = Plan(fixed=frozenset({0}))
    drawn = torch.stack(
        [planned_inputs.applied(Variant.REDRAWN, plan, [lengths])[0] for _ in range(9)]
    )
    assert 48 <= int(drawn.min()) < int(drawn.max()) <= 97
    assert drawn.dtype == lengths.dtype


@pytest.mark.parametrize("value", [0, 1])
def test_some_of_equal_zeros_or_ones_are_inverted(value: int) -> None:
    mask = torch.full((6, 5), value)
    plan = _plan(lambda x, m: x * m.sum(), _normal, lambda: mask.clone())
    assert plan.fixed == {1}
    (turned,) = planned_inputs.applied(Variant.REDRAWN, Plan(fixed=frozenset({0})), [mask])
    assert 0 < int((turned != mask).sum()) < 20
    assert set(turned.flatten().tolist()) == {0, 1}


def test_sizes_that_add_up_to_the_length_of_an_input_keep_their_sum() -> None:
    sizes = torch.full((4,), 16)
    plan = _plan(
        lambda x, sizes: torch.stack([part.sum(0) for part in x.split(sizes.tolist())]),
        _normal,
        sizes.clone,
    )
    assert plan.fixed == {1}
    for kind in (Variant.REDRAWN, Variant.PARTLY):
        _, changed = planned_inputs.applied(kind, plan, [_normal(), sizes])
        assert int(changed.sum()) == 64
        assert int(changed.amin()) > 0
        assert not torch.equal(changed, sizes)


def test_sizes_that_decide_the_shape_of_an_answer_are_left_alone() -> None:
    assert not _plan(
        lambda x, sizes: x.split(sizes.tolist()), _normal, lambda: torch.full((4,), 16)
    ).fixed


@pytest.mark.parametrize(
    "value", [0.0, 0.5, 1.0, 3.0, -2.0, torch.tensor(0.0), torch.tensor([1.5])]
)
def test_single_numbers_move(value: Any) -> None:
    plan = _plan(lambda x, level: x * level, _normal, lambda: copy.deepcopy(value))
    assert plan.fixed == {1}
    for seed in range(20):
        torch.manual_seed(seed)
        x = _normal()
        same, moved = planned_inputs.applied(Variant.REDRAWN, plan, [x, value])
        assert same is x
        assert type(moved) is type(value)
        before, after = float(value), float(moved)
        assert 0.1 <= after <= 0.9 if not before else abs(math.log(after / before)) >= 0.199
        assert not 0 < before <= 1 or after <= 1


def test_rows_of_a_unit_matrix_are_permuted() -> None:
    plan = _plan(lambda x, turn: x @ turn, _normal, lambda: torch.eye(32))
    assert plan.fixed == {1}
    torch.manual_seed(1)
    _, turn = planned_inputs.applied(Variant.REDRAWN, plan, [_normal(), torch.eye(32)])
    assert not torch.equal(turn, torch.eye(32))
    assert torch.equal(turn @ turn.T, torch.eye(32))


def test_an_input_on_which_the_reference_fails_does_not_spoil_the_others() -> None:
    def model(x: torch.Tensor, row: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x[:1][row] * mask

    plan = _plan(
        model, _normal, lambda: torch.zeros(3, dtype=torch.int64), lambda: torch.ones(3, 32)
    )
    assert plan.fixed == {2}


@pytest.mark.parametrize(
    ("model", "scale"),
    [
        (lambda x: x * torch.clamp(1 / x.norm(), max=1.0), 1e-3),  # larger inputs reach it
        (lambda x: torch.clamp(x.abs().amax(), min=0.5), 1.0),  # smaller ones do
    ],
)
def test_limits_below_all_values_are_reached(
    model: Callable[[torch.Tensor], torch.Tensor], scale: float
) -> None:
    plan = _plan(model, lambda: scale * torch.randn(1, 512))
    assert replace(plan, emptied=frozenset(), zeroed=frozenset()).kinds == (Variant.REACHING,)
