"""The library's work on the CPU device, wherever it is called."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch._C import _profiler
from torch.utils._python_dispatch import _disable_current_modes

from workers.backends.recording import execution_trace, library_work

SIDE = 64
BYTES = SIDE * SIDE * 4
PRODUCT = library_work.modelled(3 * BYTES, 2 * SIDE**3)


@torch.library.custom_op("assay_tests::product", mutates_args=())
def product_in_an_operator(x: torch.Tensor) -> torch.Tensor:
    """Library work in the body of a custom operator."""
    return x @ x


@torch.library.custom_op("assay_tests::named", mutates_args=())
def named(x: torch.Tensor, name: str) -> torch.Tensor:
    """An operator with text for an argument."""
    return x + len(name)


def in_a_thread(x: torch.Tensor) -> torch.Tensor:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.mm, x, x).result()


def without_modes(x: torch.Tensor) -> torch.Tensor:
    with _disable_current_modes():
        return x @ x


def charged(call, x):
    with library_work.Account() as account:
        call(x)
    return [(each.name, each.work_bytes) for each in account.operators]


@pytest.mark.parametrize(
    "call", [lambda x: x @ x, product_in_an_operator, in_a_thread, without_modes]
)
def test_a_product_is_charged_once_wherever_it_is_called(call):
    found = charged(call, torch.randn(SIDE, SIDE))

    assert [name for name, _ in found] == ["aten::mm"]
    assert found[0][1] == pytest.approx(PRODUCT, rel=0.01)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.t()[1:].detach(),
        torch.empty_like,
        lambda x: product_in_an_operator,
        lambda x: x.shape,
    ],
)
def test_views_and_unwritten_memory_are_free(call):
    assert charged(call, torch.randn(SIDE, SIDE)) == []


def test_views_are_free_where_only_the_trace_sees_them():
    def call(x):
        with _disable_current_modes():
            return torch.empty_like(x).t().view(SIDE, SIDE)

    assert charged(call, torch.randn(SIDE, SIDE)) == []


@pytest.mark.parametrize("call", [lambda x: x.numpy(), np.from_dlpack])
def test_memory_that_is_handed_out_counts_as_many_passes(call):
    assert charged(call, torch.randn(SIDE, SIDE)) == [("numpy", library_work.EXPORT_PASSES * BYTES)]


def test_messages_of_the_trace_are_no_output_of_the_candidate(capfd):
    charged(lambda x: x @ x, torch.randn(SIDE, SIDE))

    assert capfd.readouterr().err == ""


def test_a_trace_that_cannot_be_read_is_work(tmp_path, monkeypatch):
    _profiler._add_execution_trace_observer(str(tmp_path / "another"))
    assert charged(product_in_an_operator, torch.randn(SIDE, SIDE)) == [
        ("aten::mm", pytest.approx(PRODUCT, rel=0.01))
    ]

    monkeypatch.setattr(execution_trace, "_parse", lambda _: json.loads("["))
    (found,) = charged(product_in_an_operator, torch.randn(SIDE, SIDE))
    assert found[0] == "operators that cannot be counted"
    assert found[1] > 1e9


@pytest.mark.parametrize(
    ("name", "call"),
    [
        (
            "mkldnn::_linear_pointwise",
            lambda x: torch.ops.mkldnn._linear_pointwise(x, x, None, "none", [], ""),
        ),
        ("aten::addbmm", lambda x: torch.addbmm(x, x[None], x[None])),
        ("aten::_linalg_solve_ex", lambda x: torch.linalg.solve(x, x)),
    ],
)
def test_a_product_without_a_formula_is_charged_as_one_of_its_size(name, call):
    side = 4 * SIDE
    found = dict(charged(call, torch.randn(side, side)))

    assert found[name] == pytest.approx(library_work.modelled(0, 2 * side**3), rel=0.01)


@pytest.mark.parametrize(
    "name", ["aten::cummax", "aten::_to_copy", "aten::convert_element_type", "mine::exp"]
)
def test_other_operators_have_no_arithmetic(name):
    assert execution_trace.arithmetic(name, [SIDE, SIDE], [SIDE]) == 0


def test_while_the_interpreter_copies_all_else_is_charged():
    def call(x):
        with library_work.copying():
            y = torch.empty_like(x).copy_(x).clone() @ x
        with library_work.unseen():
            return y @ x

    assert [name for name, _ in charged(call, torch.randn(SIDE, SIDE))] == ["aten::mm"]


def test_text_among_the_arguments_is_no_end_of_the_trace():
    names = [
        name for name, _ in charged(lambda x: named(x @ x, 'a "name" \\ '), torch.randn(SIDE, SIDE))
    ]
    assert names[0] == "aten::mm"
    assert "operators that cannot be counted" not in names


def test_without_kernels_nothing_is_looked_for_beyond_the_mode():
    with library_work.Account(beyond=False) as account:
        in_a_thread(torch.randn(SIDE, SIDE))
        torch.randn(SIDE, SIDE).exp()
    assert [each.name for each in account.operators] == ["aten::randn", "aten::randn", "aten::exp"]
