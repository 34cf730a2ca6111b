"""Work of a reference in its last elementwise operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from workers.shims.problem.observers import elementwise_tail
from workers.shims.problem.observers.flops import FlopCounter

X, WEIGHT, BIAS = torch.randn(10, 20), torch.randn(20, 30), torch.randn(30)
PASS_BYTES = 2 * 4 * 10 * 30
"""An operator that reads and writes the product once."""


def _in_place(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(10, 30)
    for at in range(3):
        out[:, 10 * at : 10 * at + 10] = (x @ WEIGHT)[:, 10 * at : 10 * at + 10]
    return out.relu_()


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
        (lambda x: torch.relu((x @ WEIGHT) * (x @ WEIGHT)), 1),
        (lambda x: ((x @ WEIGHT) - 1).cumsum(0), 0),
        (lambda x: torch.relu(x + 1), 4 / 3),
        (_in_place, 2),
    ],
)
def test_operators_after_the_last_that_combines_elements(
    model: Callable[[torch.Tensor], Any], passes: float
) -> None:
    with torch.no_grad(), FlopCounter() as counter:
        outputs = model(X)
    assert counter.tail_bytes([outputs]) == pytest.approx(passes * PASS_BYTES)
    assert counter.work.whole_bytes >= counter.work.elementwise_bytes >= passes * PASS_BYTES * 0.99


def test_elementwise_operators_in_the_middle() -> None:
    with torch.no_grad(), FlopCounter() as counter:
        outputs = torch.tanh(torch.relu(X @ WEIGHT)).mean(1)
    assert counter.tail_bytes([outputs]) == 0
    assert counter.work.elementwise_bytes == 2 * PASS_BYTES


def test_a_tail_that_is_too_long_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise_tail, "MOST_OPERATORS", 5)
    with torch.no_grad(), FlopCounter() as counter:
        x = X
        for _ in range(6):
            x = x + 1
    assert counter.tail_bytes([x]) is None
