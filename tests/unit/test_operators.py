"""The semantic key: the same computation has the same key however it is written."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (as everybody writes it)
from torch import nn

from workers.shims.problem.observers.operators import OperatorTrace


def key(call: object, *inputs: torch.Tensor) -> str:
    assert callable(call)
    with torch.no_grad(), OperatorTrace(inputs) as trace:
        output = call(*inputs)
    return trace.key([output])


X, Y = torch.randn(4, 8), torch.randn(4, 8)


def test_modules_and_functions_have_one_key() -> None:
    linear = nn.Linear(8, 8)
    written = [
        nn.Sequential(linear, nn.ReLU()),
        lambda x: torch.relu(linear(x)),
        lambda x: F.relu(F.linear(x, linear.weight, linear.bias)),
        lambda x: linear(x).relu(),
    ]
    assert len({key(each, X) for each in written}) == 1


def test_independent_operators_may_stand_in_any_order() -> None:
    def one(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        left, right = x.exp(), y.tanh()
        return left * right

    def other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        right, left = y.tanh(), x.exp()
        return left * right

    assert key(one, X, Y) == key(other, X, Y) != key(one, Y[:, :4], X[:, :4])


def test_what_is_computed_from_what_is_told_apart() -> None:
    assert key(lambda x, y: x - y, X, Y) != key(lambda x, y: y - x, X, Y)
    assert key(lambda x: x.exp().tanh(), X) != key(lambda x: x.tanh().exp(), X)
    assert key(lambda x: x.add_(1.0).exp(), X.clone()) != key(lambda x: x.exp(), X)


def _filled(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] = 1.0
    return y


def _scaled_in_a_column(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1].mul_(2.0)
    return y


def _written_in_a_list(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    torch._foreach_exp_([y])
    return y


def _written_beneath_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    view = y.view(-1)
    y.exp_()
    return view


def test_writes_through_views_and_into_lists_are_told_apart() -> None:
    writing = (_filled, _scaled_in_a_column, _written_in_a_list, _written_beneath_a_view)
    keys = {key(each, X) for each in (*writing, lambda x: x.clone(), lambda x: x.clone().view(-1))}
    assert len(keys) == len(writing) + 2


def test_numbers_are_in_the_first_half_alone() -> None:
    wide = torch.randn(4, 16)
    one, other = (key(lambda x: (x * 2.0).sum(dim=1), x).split(":") for x in (X, wide))
    assert one[1] != other[1]
    assert one[2] == other[2]
    assert one[2] != key(lambda x: (x * 2.0).mean(dim=1), X).split(":")[2]


def test_the_bytes_of_a_storage_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN sets the weights of recurrent layers to parts of one storage."""
    storage = torch.zeros(1 << 20).untyped_storage()

    def read(_: object) -> str:
        raise AssertionError

    monkeypatch.setattr(torch.UntypedStorage, "__repr__", read)

    def on_storage(x: torch.Tensor) -> torch.Tensor:
        weight = torch.empty(0)
        weight.set_(storage, 0, (4, 4))  # type: ignore[call-overload]
        return x @ weight

    assert key(on_storage, torch.ones(2, 4))


def test_the_compiler_is_not_imported_for_it() -> None:
    code = (
        "import sys, torch; from workers.shims.problem.observers.operators import OperatorTrace\n"
        "x = torch.ones(2, 2)\n"
        "with OperatorTrace([x]) as c: y = x @ x\n"
        "print(c.key([y])[:3], 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["o1:", "False"]
