"""Launches that apply a function to each element of a library's tensor."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from workers.backends.recording import elementwise_maps
from workers.backends.recording.library_work import OPERATOR_BYTES
from workers.backends.recording.recorder import Recorder
from workers.protocol.control_channel import AblationMode
from workers.protocol.launch_records import Launch

torch.manual_seed(0)
X, BIAS = torch.randn(60, 70), 0.03 * torch.randn(70)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.exp, True),
        (torch.square, True),
        (torch.reciprocal, True),
        (torch.relu, True),
        (functional.gelu, True),
        (lambda x: x.bfloat16().float().exp(), True),
        (lambda x: x.exp().half(), True),
        (lambda x: torch.where(x > 1, -torch.inf, x), True),
        (lambda x: (x + BIAS).sigmoid(), False),
        (lambda x: x.softmax(dim=1), False),
        (lambda x: x.flip(0), False),
        (lambda x: torch.ones_like(x), False),
        (lambda x: x.sqrt(), False),  # some are NaN
    ],
)
def test_functions_of_each_element(
    function: Callable[[torch.Tensor], torch.Tensor], expected: bool
) -> None:
    x, y = X.flatten().double(), function(X).flatten().double()
    assert elementwise_maps.is_function(x, y) is expected


def test_a_few_elements_tell_nothing() -> None:
    x = X.flatten()[:100].double()
    assert not elementwise_maps.is_function(x, x.exp())


def _made(
    library: Callable[[torch.Tensor], torch.Tensor],
    kernel: Callable[[torch.Tensor, torch.Tensor], object],
) -> tuple[torch.Tensor, int]:
    """Result of a launch in the mode MAP, and Recorder.mapped."""
    recorder = Recorder()
    for mode in (AblationMode.NOTE, AblationMode.MAP):
        x = torch.randn(60, 70)
        recorder.substitute(mode)
        if mode == AblationMode.NOTE:
            recorder.note_inputs([x])
        out = torch.zeros(60, 70)
        with recorder.watching():
            given = library(x)
            recorder.launch(
                functools.partial(kernel, given, out),
                lambda _: Launch(name="k", origin="triton"),
                None,
                (given, out),
            )
    return out, recorder.mapped


@pytest.mark.parametrize(
    ("library", "kernel", "is_made"),
    [
        (lambda x: x.log_softmax(1), lambda y, out: out.copy_(y.exp()), True),
        (lambda x: x.log_softmax(1) + BIAS, lambda y, out: out.copy_((y - BIAS).exp()), True),
        (lambda x: x.softmax(1), lambda y, out: out.copy_(y.cumsum(1)), False),
    ],
)
def test_a_launch_that_maps_what_the_library_computed_is_made(
    library: Callable[[torch.Tensor], torch.Tensor],
    kernel: Callable[[torch.Tensor, torch.Tensor], object],
    is_made: bool,
) -> None:
    torch.manual_seed(0)
    out, mapped = _made(library, kernel)
    assert (mapped > 0) is is_made
    work = (2 * out.nbytes + OPERATOR_BYTES, 4 * out.nbytes + BIAS.nbytes + 2 * OPERATOR_BYTES)
    assert mapped // 4 in (0, *work)


def test_a_multiple_is_written_and_no_map() -> None:
    torch.manual_seed(0)
    out, mapped = _made(lambda x: x.softmax(1), lambda y, out: out.copy_(2 * y))
    assert bool(out.any())
    assert mapped == 0


@pytest.mark.parametrize("goes_on", [False, True])
def test_the_library_may_go_on_with_the_result(goes_on: bool) -> None:
    recorder, x, out = Recorder(), torch.randn(60, 70), torch.zeros(60, 70)
    recorder.substitute(AblationMode.NOTE)
    with recorder.watching():
        y = x.softmax(1)
        run = functools.partial(torch.square, y, out=out)
        recorder.launch(run, lambda _: Launch(name="k", origin="triton"), None, (y, out))
        moved = out.T.clone()
        if goes_on:
            moved.sum(1)
    assert bool(recorder.mapped % 2) is goes_on
