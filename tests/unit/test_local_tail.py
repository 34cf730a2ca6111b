"""Work of a reference in its last operators of which each result follows from a few elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from workers.backends.recording import library_work
from workers.shims.problem.observers.flops import FlopCounter

X, WEIGHT, BIAS = torch.randn(10, 20), torch.randn(20, 30), torch.randn(30)
TAPS, TABLE = torch.randn(10, 1, 1), torch.randn(30, 30)
PASS_BYTES = 2 * 4 * 10 * 30
"""An operator that reads and writes the product once."""


@pytest.fixture(autouse=True)
def _free_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_work, "OPERATOR_BYTES", 0)
    monkeypatch.setattr(library_work, "LAUNCH_BYTES", 0)


def _in_place(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(10, 30)
    for at in range(3):
        out[:, 10 * at : 10 * at + 10] = (x @ WEIGHT)[:, 10 * at : 10 * at + 10]
    return out.relu_()


def _eval_norm(x: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(x, torch.zeros(30), torch.ones(30))


def _below_diagonal() -> torch.Tensor:
    rows, columns = torch.arange(10), torch.arange(30)
    return rows[:, None] >= columns


@pytest.mark.parametrize(
    ("model", "passes"),
    [
        (lambda x: x @ WEIGHT, 0),
        (lambda x: torch.relu(x @ WEIGHT), 1),
        (lambda x: functional.hardswish(x @ WEIGHT).T.contiguous(), 2),
        (lambda x: (h := x @ WEIGHT) * torch.tanh(functional.softplus(h)), 3.5),
        (lambda x: torch.sigmoid(x @ WEIGHT + BIAS), 2.05),
        (lambda x: torch.softmax(torch.relu(x @ WEIGHT), 1), 0),
        (lambda x: (h := torch.exp(x @ WEIGHT)) / h.sum(1, keepdim=True), 0),
        (lambda x: torch.relu((x @ WEIGHT) * (x @ WEIGHT)), 2.5),
        (lambda x: ((x @ WEIGHT) - 1).cumsum(0), 0),
        (lambda x: torch.relu(x + 1), 4 / 3),
        (_in_place, 2),
        (lambda x: functional.max_pool1d((x @ WEIGHT)[None], 2)[0], 1.25),
        (lambda x: functional.max_pool1d((x @ WEIGHT)[None], 10)[0], 0),
        (lambda x: (x @ WEIGHT).view(10, 10, 3).sum(2), 2 / 3),
        (lambda x: torch.relu(_eval_norm(x @ WEIGHT)), 2.1),
        (lambda x: torch.relu(functional.batch_norm(x @ WEIGHT, None, None, training=True)), 1),
        (lambda x: functional.conv1d((x @ WEIGHT)[None], TAPS, groups=10)[0], 61 / 60),
        (lambda x: TABLE[(x @ WEIGHT).argmax(1)], 61 / 30),
        (lambda x: (x @ WEIGHT).where(_below_diagonal(), 0), 1.385),
        (lambda x: (x @ WEIGHT) * torch.ones_like(BIAS), 1.05),
        (lambda x: (x @ WEIGHT) * torch.randn(30), 0),
    ],
)
def test_operators_after_the_last_that_combines_elements(
    model: Callable[[torch.Tensor], Any], passes: float
) -> None:
    with torch.no_grad(), FlopCounter() as counter:
        outputs = model(X)
    assert counter.tail_bytes([outputs]) == pytest.approx(passes * PASS_BYTES)
    assert counter.work.whole_bytes >= counter.work.local_bytes >= passes * PASS_BYTES * 0.99


def test_elementwise_operators_in_the_middle() -> None:
    with torch.no_grad(), FlopCounter() as counter:
        outputs = torch.tanh(torch.relu(X @ WEIGHT)).mean(1)
    assert counter.tail_bytes([outputs]) == 0
    assert counter.work.local_bytes == 2 * PASS_BYTES


def test_operators_of_inputs_before_all_others() -> None:
    with torch.no_grad(), FlopCounter() as counter:
        torch.tanh(torch.relu(X.exp()) @ WEIGHT).mean(1)
    assert counter.work.head_bytes == counter.work.local_bytes * 2 * X.numel() // (
        2 * X.numel() + len(X) * WEIGHT.shape[1]
    )


def test_rows_that_are_computed_one_by_one() -> None:
    with torch.no_grad(), FlopCounter() as counter:
        y = torch.relu(X @ WEIGHT)
        outputs = torch.cat([torch.exp(row / row.sum()) for row in y.split(1)])
    assert counter.tail_bytes([outputs]) == 2 * PASS_BYTES
    assert counter.work.local_bytes == 3 * PASS_BYTES


def test_a_long_tail_is_followed() -> None:
    with torch.no_grad(), FlopCounter() as counter:
        x = X
        for _ in range(3000):
            x = x + 1
    assert counter.tail_bytes([x]) == 3000 * 2 * x.nbytes


def test_a_loop_takes_its_time_by_its_number_of_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_work, "OPERATOR_BYTES", 1 << 16)
    with torch.no_grad(), FlopCounter() as counter:
        torch.cat([torch.exp(row / row.sum()) for row in X.split(1)])
    assert counter.work.whole_bytes // (1 << 16) == 31


def test_of_many_operators_most_of_the_time_is_launching_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library_work, "LAUNCH_BYTES", 5 << 20)
    with torch.no_grad(), FlopCounter() as counter:
        outputs = torch.cat([torch.exp(row / row.sum()) for row in X.repeat(90, 1).split(1)])
    launching = (2701 - library_work.MANY) * (5 << 20)
    assert counter.work.whole_bytes == pytest.approx(launching, rel=1e-3)
    assert counter.tail_bytes([outputs]) == pytest.approx(launching * 901 / 2701, rel=1e-3)
    assert counter.work.local_bytes == pytest.approx(launching * 902 / 2701, rel=1e-3)
