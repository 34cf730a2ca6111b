"""Elements from which the results of a reference's local operators follow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from app.domain.kernel_profile import ReferenceChains
from workers.backends.recording.library_work import LAUNCH_BYTES
from workers.shims.problem.observers.flops import FlopCounter

STEPS, SHIFTS = 40, 49
X, TABLE = torch.rand(4, STEPS, 16), torch.randn(STEPS, 16)
WEIGHT = torch.randn(16, 16)


def _work(model: Callable[[torch.Tensor], object]) -> ReferenceChains:
    with torch.no_grad(), FlopCounter([X]) as counter:
        model(X)
    return counter.work.chains


def _product(x: torch.Tensor) -> torch.Tensor:
    state, states = torch.ones(4, 16), []
    for step in range(STEPS):
        state = state * (0.9 + 0.2 * x[:, step])
        states.append(state)
    return torch.stack(states, 1)


def _in_place(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    out[:, 0] = x[:, 0]
    for step in range(1, STEPS):
        out[:, step] = x[:, step] - 0.5 * out[:, step - 1]
    return out


def _into(x: torch.Tensor) -> torch.Tensor:
    state, out = torch.zeros(4, 16), torch.empty(4, STEPS, 16)
    for step in range(STEPS):
        state.mul_(0.5).add_(x[:, step])
        torch.tanh(state, out=out[:, step])
    return out


def _last_seen(x: torch.Tensor) -> torch.Tensor:
    state = torch.zeros(4, 16)
    for step in range(STEPS):
        state = torch.where(x[:, step] > 0.5, x[:, step], state)
    return state


def _blur(x: torch.Tensor) -> torch.Tensor:
    padded = functional.pad(x @ WEIGHT, (0, 0, SHIFTS, 0))
    out = torch.zeros_like(x)
    for shift in range(SHIFTS):
        out = out + padded[:, shift : shift + STEPS] / SHIFTS
    return out


def _rolled(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for shift in range(SHIFTS):
        out = out + x.roll(shift, 1)
    return out


@pytest.mark.parametrize("model", [_product, _in_place, _into, _last_seen, _blur, _rolled])
def test_a_chain_combines_many_elements(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    found = _work(model)
    assert 0 < found.launched_bytes <= found.rest_bytes <= found.whole_bytes


def _rows_apart(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for step in range(STEPS):
        torch.exp(x[:, step], out=out[:, step])
        out[:, step] = torch.relu(out[:, step] - 1)
    return torch.cat([torch.tanh(row) for row in out.split(1, 1)], 1) * x


def _polynomial(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for each in TABLE:
        out = out * x + each
    return out


def _iteration(x: torch.Tensor) -> torch.Tensor:
    out = x
    for _ in range(STEPS):
        out = (out + x.view(-1, 16).reshape(4, STEPS, 16) / out).clone().float()
    return out


def _layers(x: torch.Tensor) -> torch.Tensor:
    for _ in range(STEPS):
        x = torch.tanh(x @ WEIGHT) * x[:, :1].contiguous().expand_as(x) @ WEIGHT
    return x


def _chosen(x: torch.Tensor) -> torch.Tensor:
    group, out = x[:, :, :1].round(), torch.zeros_like(x)
    for number in range(STEPS):
        out = torch.where(group == number, x * number, out)
    return out


def _shares_of_eight(x: torch.Tensor) -> torch.Tensor:
    parts = x.view(4, STEPS, 2, 8).exp()
    for _ in range(3):
        parts = parts / parts.sum(3, keepdim=True)
    return parts


def _four_by_four(x: torch.Tensor) -> torch.Tensor:
    parts = x.unbind(2)
    return sum(parts[1:], parts[0])


@pytest.mark.parametrize(
    "model",
    [_rows_apart, _polynomial, _iteration, _layers, _chosen, _shares_of_eight, _four_by_four],
)
def test_a_chain_combines_few_elements(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert _work(model) == ReferenceChains()


def test_work_of_a_chain_and_of_the_operators_that_it_takes() -> None:
    found = _work(_product)
    inner, part = STEPS - 16 - 15, X[:, 0].nbytes  # without the first and the last
    assert found.launched_bytes == inner * (LAUNCH_BYTES + 3 * part)
    assert found.rest_bytes == found.launched_bytes + LAUNCH_BYTES + part  # with the ones
    assert found.local_bytes == STEPS * 4 * part + (STEPS - inner) * 3 * part + 2 * X.nbytes
    beside = found.whole_bytes - found.rest_bytes
    assert beside == found.local_bytes + (3 * STEPS + 1 - inner) * LAUNCH_BYTES


def test_functions_of_each_state_are_no_part_of_a_chain() -> None:
    def functions(x: torch.Tensor) -> torch.Tensor:
        state, out = torch.ones(4, 16), torch.empty_like(x)
        for step in range(STEPS):
            state = state * (0.9 + 0.2 * x[:, step])
            out[:, step] = functional.silu(state) * torch.sigmoid(x[:, step])
        return out

    found = _work(functions)
    inner, part = STEPS - 16 - 15, X[:, 0].nbytes
    assert 0 < found.launched_bytes <= (inner + 2) * (LAUNCH_BYTES + 3 * part)
