"""FLOPs of products by calls and by the shapes in a profiler's trace."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from workers.backends.recording import library_work, products
from workers.shims.problem.observers.flops import FlopCounter

A, B, IMAGE = torch.randn(4, 6, 8), torch.randn(4, 8, 10), torch.randn(2, 4, 9, 7)

CALLS: dict[str, Callable[[], object]] = {
    "mm": lambda: A[0] @ B[0],
    "mm of a transpose": lambda: A[0] @ torch.randn(5, 8).T,
    "bmm": lambda: A @ B,
    "linear": lambda: nn.Linear(8, 3)(A),
    "addmm with a matrix": lambda: torch.addmm(torch.randn(6, 10), A[0], B[0]),
    "baddbmm": lambda: torch.baddbmm(torch.randn(4, 6, 10), A, B),
    "into a tensor": lambda: torch.mm(A[0], B[0], out=torch.empty(6, 10)),
    "einsum": lambda: torch.einsum("bij,bjk->bik", A, B),
    "convolution": lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=1, dilation=2)(IMAGE),
    "groups": lambda: nn.Conv2d(4, 8, 3, groups=2, bias=False)(IMAGE),
    "transposed": lambda: nn.ConvTranspose2d(4, 6, 4, stride=2, padding=1)(IMAGE),
    "one dimension": lambda: nn.Conv1d(4, 5, 3)(IMAGE[:, :, 0]),
}


def _traced(call: Callable[[], object], folder: Path) -> list[dict[str, Any]]:
    """Operators of a call as Kineto notes them."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        call()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return [event for event in events if event.get("cat") == "cpu_op"]


@pytest.mark.parametrize("name", CALLS)
def test_a_trace_says_the_same_as_torchs_formulas(name: str, tmp_path: Path) -> None:
    with torch.no_grad():
        with FlopCounter() as counter:
            CALLS[name]()
        found = [
            products.of_shapes(
                event["name"], event["args"]["Input Dims"], event["args"]["Concrete Inputs"]
            )
            for event in _traced(CALLS[name], tmp_path)
        ]
    assert counter.work.products == tuple(filter(None, found)) == (counter.total,)


def test_a_product_that_is_added_in_place_is_one(tmp_path: Path) -> None:
    def add() -> None:
        torch.zeros(6, 10).addmm_(A[0], B[0])

    with torch.no_grad(), FlopCounter() as counter:
        add()
    found = [
        products.of_shapes(
            event["name"], event["args"]["Input Dims"], event["args"]["Concrete Inputs"]
        )
        for event in _traced(add, tmp_path)
    ]
    assert counter.work.products == tuple(filter(None, found)) == (2 * 6 * 8 * 10,)


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.functional.scaled_dot_product_attention(A[None], A[None], A[None]),
        lambda: torch.softmax(A, -1),
        lambda: A[0].to("meta") @ B[0].to("meta"),
    ],
)
def test_attention_and_products_that_are_not_computed_are_none(call: Callable[[], object]) -> None:
    with torch.no_grad(), library_work.Account(beyond=False) as account:
        call()
    assert not any(each.product_flops for each in account.operators)


@pytest.mark.parametrize(
    ("shapes", "values"),
    [([], []), ([[2, 3], [4, 5]], ["", ""]), ([[2, 3]], [""]), ([[2, 3, 4], []], ["", ""])],
)
def test_shapes_that_do_not_fit_are_no_product(shapes: list[Any], values: list[str]) -> None:
    assert products.of_shapes("aten::mm", shapes, values) == 0
    assert products.of_shapes("aten::convolution", shapes, values) == 0
