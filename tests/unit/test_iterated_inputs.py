"""Inputs on which every step of an iteration or a recurrence tells."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from workers.protocol.input_variants import Variant
from workers.shims.problem.inputs import iterated_inputs, planned_inputs, reaching_inputs
from workers.shims.problem.inputs.iterated_inputs import BESIDE, Iterations
from workers.shims.problem.inputs.planned_inputs import Plan


def _planned(model: Callable[..., Any], *inputs: Callable[[], Any]) -> Plan:
    torch.manual_seed(0)
    cpu = torch.device("cpu")
    return reaching_inputs.plan(model, lambda: [draw() for draw in inputs], cpu)


def _powers(x: torch.Tensor) -> torch.Tensor:
    y = torch.ones(x.shape[-1])
    for _ in range(20):
        y = x @ y
        y = y / y.norm()
    return y


def _decayed(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x[0])
    for row in x:
        y = y * torch.sigmoid(row) + row
    return y


class _Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = torch.nn.GRU(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cells(x)[1]


@pytest.mark.parametrize(
    ("model", "draw", "kinds"),
    [
        (
            _powers,
            lambda: torch.rand(32, 32),
            (Variant.HELD, Variant.DIAGONAL, Variant.STRETCHED, Variant.LASTING),
        ),
        (_powers, lambda: torch.randn(32, 32), (Variant.HELD, Variant.DIAGONAL)),
        (_decayed, lambda: torch.randn(64, 3), (Variant.HELD,)),
        (_decayed, lambda: torch.randn(30, 3), ()),  # no more steps than a deep network has
        (lambda x: x @ x @ x, lambda: torch.randn(32, 32), ()),
    ],
)
def test_a_reference_that_iterates_is_given_inputs_on_which_each_step_tells(
    model: Callable[..., Any], draw: Callable[[], Any], kinds: tuple[Variant, ...]
) -> None:
    assert _planned(model, draw).iterated == kinds


def test_a_recurrent_network_iterates() -> None:
    cells = _Recurrent()
    torch.manual_seed(0)
    plan = reaching_inputs.plan(cells, lambda: [torch.rand(50, 4, 8)], torch.device("cpu"))
    assert Variant.HELD in plan.iterated
    (x,) = planned_inputs.applied(Variant.HELD, plan, [torch.rand(50, 4, 8)])
    assert torch.equal(x[:25], x[:1, :1].expand(25, 4, 8))
    assert torch.equal(x[25:], x[-1:, :1].expand(25, 4, 8))
    (x,) = planned_inputs.applied(Variant.HELD, plan, [torch.rand(4, 50, 8)])
    assert torch.equal(x, torch.cat((x[:, :1].expand(4, 25, 8), x[:, -1:].expand(4, 25, 8)), dim=1))
    assert float(x.amax()) > 1


class _Equilibrium(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.keep, self.drive, self.wide = (
            torch.nn.Linear(8, 8),
            torch.nn.Linear(8, 8),
            torch.nn.Linear(8, 9),
        )
        self.cells = torch.nn.RNN(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        for _ in range(10):
            y = torch.tanh(self.keep(y) + self.drive(x))
            self.wide(y)
        return self.cells(y)[0]


def test_square_matrices_of_every_step_are_named() -> None:
    model, x = _Equilibrium(), torch.randn(10, 8)
    with torch.no_grad(), Iterations(model, [x]) as iterations:
        model(x)
    places = iterations.recurrent_places(model)
    assert {
        "keep.weight": 0,
        "drive.weight": BESIDE,
        "cells.weight_hh_l0": 0,
    }.items() <= places.items()
    assert not {"wide.weight", "wide.bias"} & places.keys()


class _Joined(torch.nn.Module):
    def __init__(self, *, state_first: bool) -> None:
        super().__init__()
        self.cell, self.read = torch.nn.Linear(12 + 8, 8), torch.nn.Linear(8, 5)
        self.state_first = state_first

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        for row in x:
            parts = (state, row) if self.state_first else (row, state)
            state = torch.tanh(self.cell(torch.cat(parts, dim=1)))
            self.read(state)
        return self.read(state)


@pytest.mark.parametrize(("state_first", "place"), [(True, 0), (False, 12)])
def test_matrices_that_take_a_state_beside_an_input_are_named(
    state_first: bool, place: int
) -> None:
    model, given = _Joined(state_first=state_first), [torch.randn(10, 3, 12), torch.randn(3, 8)]
    with torch.no_grad(), Iterations(model, given) as iterations:
        model(*given)
    assert iterations.recurrent_places(model) == {"cell.weight": place, "cell.bias": BESIDE}


def test_matrices_of_a_deep_network_are_not_named() -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(20)))
    with torch.no_grad(), Iterations(model, []) as iterations:
        model(torch.randn(3, 8))
    assert iterations.recurrent_places(model) == {}
    assert iterations.recurrent_places(lambda x: x) == {}


def test_keys_of_a_recurrence_are_not_made_alike() -> None:
    def delta_rule(keys: torch.Tensor, values: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(2, 4, 8, 8)
        for key, value, share in zip(*(x.unbind(1) for x in (keys, values, shares)), strict=True):
            error = value - torch.einsum("bhkv,bhk->bhv", state, key)
            state = state + torch.einsum("bhk,bhv->bhkv", share[..., None] * key, error)
        return state

    def rows() -> torch.Tensor:
        return torch.randn(2, 40, 4, 8)

    plan = _planned(delta_rule, rows, rows, lambda: torch.rand(2, 40, 4))
    assert not {Variant.HELD, Variant.REACHING} & set(plan.kinds)
    keys = rows()
    assert (
        planned_inputs.applied(Variant.DIAGONAL, plan, [keys, rows(), torch.rand(2, 40, 4)])[0]
        is keys
    )


def test_diagonals_keep_a_matrix_symmetric_and_positive_definite() -> None:
    x = torch.randn(3, 20, 20)
    x = x @ x.mT + torch.eye(20)
    (changed,) = planned_inputs.applied(Variant.DIAGONAL, Plan(), [x])
    assert changed is not x
    assert torch.equal(changed, changed.mT)
    assert not bool(torch.linalg.cholesky_ex(changed).info.any())
    assert float(changed.diagonal(dim1=1, dim2=2).min() / changed.amax()) >= 1 / 256


def _balanced(x: torch.Tensor) -> torch.Tensor:
    y = torch.exp(-x)
    for _ in range(20):
        y = y / y.sum(dim=1, keepdim=True)
        y = y / y.sum(dim=0, keepdim=True)
    return y


def _balanced_in_three(x: torch.Tensor) -> torch.Tensor:
    y = torch.exp(-x)
    for _ in range(3):
        y = y / y.sum(dim=1, keepdim=True)
        y = y / y.sum(dim=0, keepdim=True)
    return y


def test_inputs_are_stretched_far_where_the_reference_allows_it() -> None:
    plan = _planned(_balanced, lambda: torch.rand(96, 96))
    assert plan.stretch == iterated_inputs.FAR_FACTOR
    (x,) = planned_inputs.applied(Variant.STRETCHED, plan, [torch.rand(96, 96)])
    exact = _balanced(x.double())
    assert float((_balanced_in_three(x.double()) - exact).norm() / exact.norm()) > 0.02


@pytest.mark.parametrize(
    "model",
    [
        _powers,  # the size of the matrix does not matter
        lambda x: _decayed(x) ** 2,  # 16,384 times as large
        lambda x: torch.sin(1e4 * _decayed(x)),  # depends on roundings
        lambda x: _decayed(x.exp()),  # overflows
    ],
)
def test_elsewhere_they_are_stretched_less(model: Callable[..., Any]) -> None:
    plan = _planned(model, lambda: torch.rand(64, 64))
    expected = iterated_inputs.FAR_FACTOR if model is _powers else iterated_inputs.FACTOR
    assert plan.stretch == expected


def test_products_of_lasting_values_do_not_vanish() -> None:
    plan = _planned(lambda x: x.cumprod(dim=1), lambda: torch.randn(4, 2048))
    assert plan.multiplies
    for x in (torch.randn(4, 2048), torch.rand(4, 2048)):
        assert float(x.cumprod(dim=1)[:, 1024:].abs().max()) == 0
        (lasts,) = planned_inputs.applied(Variant.LASTING, plan, [x])
        assert float(lasts.cumprod(dim=1)[:, 1024:].abs().min()) > 0.01
    others = _planned(_decayed, lambda: torch.randn(64, 3))
    assert Variant.LASTING not in others.iterated


def test_a_function_of_elements_leaves_their_range() -> None:
    plan = _planned(lambda x: torch.sin(x) * torch.exp(-x), lambda: torch.rand(64, 64))
    assert plan.iterated == (Variant.STRETCHED,)
    (x,) = planned_inputs.applied(Variant.STRETCHED, plan, [torch.rand(64, 64)])
    assert 7 < float(x.amax()) <= 8
    for model in (lambda x: 2 * x, lambda x: torch.asin(x), lambda x: torch.exp(20 * x)):
        assert _planned(model, lambda: torch.rand(64, 64)).iterated == ()
    assert _planned(torch.exp, lambda: torch.randn(64, 64)).iterated == ()


def test_rows_columns_or_matrices_are_stretched() -> None:
    torch.manual_seed(0)
    seen = set()
    for _ in range(20):
        x = torch.rand(16, 64, 48).mT
        changed = iterated_inputs.stretched_in_part(x, 128)
        assert changed.stride() == x.stride()
        where = changed > 1
        seen.add(tuple(int(where.any(dim=dims).sum()) for dims in ((1, 2), (0, 2), (0, 1))))
    rows, columns = ({each for each in seen if each[at] <= 12} for at in (1, 2))
    assert rows
    assert columns
    assert seen - rows - columns


def test_matrices_that_take_inputs_alone_are_not_named() -> None:
    layer, x = torch.nn.Linear(8, 8), torch.randn(10, 3, 8)
    with torch.no_grad(), Iterations(layer, [x]) as iterations:
        for row in x:
            layer(row)
    assert iterations.recurrent_places(layer) == {}
