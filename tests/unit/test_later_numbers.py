"""Numbers that observers of a call read together, after the call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from workers.shims.problem import constant_parameters
from workers.shims.problem.observers import later_numbers
from workers.shims.problem.observers.later_numbers import LaterNumbers
from workers.shims.problem.observers.one_signed_products import OneSignedProducts
from workers.shims.problem.observers.reference_limits import Limits
from workers.shims.problem.observers.repeated_uses import LOOKED_AT
from workers.shims.problem.observers.weight_limits import WeightLimits
from workers.shims.problem.observers.weight_work import WeightWork

READERS = ("__bool__", "__float__", "__int__", "item", "tolist")


@contextmanager
def readings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the functions that have read numbers out of tensors."""
    found: list[str] = []

    def counted(name: str) -> None:
        read = getattr(torch.Tensor, name)

        def reading(*args: object) -> object:
            found.append(name)
            return read(*args)

        patched.setattr(torch.Tensor, name, reading)

    with monkeypatch.context() as patched:
        for name in READERS:
            counted(name)
        yield found


def _steps(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(50):
        x = (torch.relu(x.clamp(max=60.0)) @ w.abs()).tanh().softmax(dim=-1)
        x = x.amax(dim=0, keepdim=True).expand_as(x) * 1.0
    return x


def test_a_loops_limits_are_read_in_a_few_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = torch.rand(8, 8), torch.rand(8, 8)
    _steps(x, w)
    with readings(monkeypatch) as found:
        with Limits([x], traits=True) as limits:
            _steps(x, w)
        assert len(found) <= 8
    assert len(limits.above) > 40
    assert limits.averaging > 40
    assert limits.overflows
    assert limits.one_sided > 40


def test_products_alone_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(4, 4)
    with readings(monkeypatch) as found, OneSignedProducts() as products:
        for _ in range(20):
            x = (x @ x).clamp(max=1.0)
    assert found == ["tolist"]
    assert products.averaging == 20


def test_weights_of_a_loop_are_looked_at_in_some_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(self: WeightLimits, name: str, *_: object) -> None:
        looked.append(name)

    monkeypatch.setattr(WeightLimits, "look_before", look)
    layer = torch.nn.Linear(4, 4)
    x = torch.rand(2, 4)
    with torch.no_grad(), readings(monkeypatch) as found, WeightWork(layer, [x]):
        for _ in range(10 * LOOKED_AT):
            x = layer(x)
    assert LOOKED_AT <= len(looked) < 2 * LOOKED_AT
    assert len(found) <= 2


def test_numbers_are_given_to_their_functions_in_order() -> None:
    later, found = LaterNumbers(), list[tuple[float, ...]]()

    def note(*numbers: float) -> None:
        found.append(numbers)

    later.add(note, torch.tensor(1.5), torch.tensor(2.0))
    later.add(note, torch.tensor(True))
    later.add(note, torch.tensor(3.0, dtype=torch.float64))
    assert not found
    later.read()
    later.read()
    assert found == [(1.5, 2.0), (1.0,), (3.0,)]


def test_many_numbers_are_read_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_numbers, "MOST", 4)
    later, found = LaterNumbers(), list[float]()
    for each in range(6):
        later.add(found.append, torch.tensor(float(each)))
    assert found == [0.0, 1.0, 2.0, 3.0]
    later.read()
    assert found == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_weights_of_a_network_are_read_in_a_few_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [torch.nn.Linear(8, 8) for _ in range(20)]
    norms = [torch.nn.BatchNorm1d(8) for _ in range(3)]
    norms[1].register_buffer("shift", torch.zeros(8))
    norms[1].register_buffer("scale", torch.rand(8))
    torch.nn.init.orthogonal_(layers[5].weight)
    model = torch.nn.Sequential(*layers, *norms).eval()
    with readings(monkeypatch) as found:
        names = constant_parameters.of(model)
    assert len(found) <= 12
    kinds = ("weight", "bias", "running_mean", "running_var")
    of_norms = {f"{at}.{kind}" for at in (20, 21, 22) for kind in kinds}
    assert set(names) == {"5.weight", "21.shift"} | of_norms
