"""Launches that write the values of a tensor that the library computed earlier in the call."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch

from workers.backends.recording.earlier_tensors import MOST_NOTED, EarlierTensors
from workers.backends.recording.recorder import Recorder
from workers.protocol.control_channel import AblationMode
from workers.protocol.launch_records import Launch


def _launch(recorder: Recorder, run: Callable[[], object], *tensors: torch.Tensor) -> None:
    recorder.launch(run, lambda _: Launch(name="k", origin="triton"), None, tensors)


def _replaced(
    library: Callable[[torch.Tensor], torch.Tensor],
    kernel: Callable[[torch.Tensor, torch.Tensor], object],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Values that are written in place of a kernel, and those that it would write: `library`
    computes its argument from the input, `kernel` writes into its second argument.
    """
    recorder = Recorder()
    for mode in (AblationMode.NOTE, AblationMode.SCALE):
        x = torch.randn(30, 40)
        recorder.substitute(mode)
        if mode == AblationMode.NOTE:
            recorder.note_inputs([x])
        with recorder.watching():
            given, out = library(x), torch.zeros(30, 40)
            _launch(recorder, functools.partial(kernel, given, out), given, out)
    right = torch.zeros(30, 40)
    kernel(given, right)
    return out, right


@pytest.mark.parametrize(
    ("library", "kernel"),
    [
        (lambda x: x.exp().flip(0, 1), lambda y, out: out.copy_(y.flip(0, 1))),
        (lambda x: x.exp().T.contiguous(), lambda y, out: out.copy_(y.T)),
        (lambda x: ~x.exp().view(torch.int32), lambda y, out: out.copy_((~y).view(torch.float32))),
    ],
)
def test_an_answer_that_the_library_had_computed_is_written_in_place_of_a_launch(
    library: Callable[[torch.Tensor], torch.Tensor],
    kernel: Callable[[torch.Tensor, torch.Tensor], object],
) -> None:
    torch.manual_seed(0)
    out, right = _replaced(library, kernel)
    assert torch.equal(out, right)


@pytest.mark.parametrize(
    ("library", "kernel"),
    [
        (lambda x: x.exp(), lambda y, out: out.copy_(torch.relu(y - 1))),
        (lambda x: x.flip(0), lambda y, out: out.copy_(y.flip(0))),
        (lambda x: torch.zeros_like(x), lambda y, out: out.copy_(y + 1)),
    ],
)
def test_computations_and_moved_inputs_are_left_out(
    library: Callable[[torch.Tensor], torch.Tensor],
    kernel: Callable[[torch.Tensor, torch.Tensor], object],
) -> None:
    torch.manual_seed(0)
    out, _ = _replaced(library, kernel)
    assert not bool(out.any())


def test_views_unwritten_memory_and_results_of_others_are_not_noted() -> None:
    x, earlier = torch.randn(8, 8), EarlierTensors()
    with earlier:
        x.view(64)
        torch.empty(64)
        with earlier.paused():
            made = x.exp()
        (x > 0).sum()
    assert not list(earlier.numbers_of(made, 1e-5))
    assert not list(earlier.numbers_of(torch.zeros(64), 1e-5))


def test_only_so_many_are_noted() -> None:
    x, earlier = torch.randn(8), EarlierTensors()
    with earlier:
        for _ in range(MOST_NOTED):
            last = x.exp()
        assert list(earlier.numbers_of(last, 0.0))
        later = last + 1
    assert not list(earlier.numbers_of(later, 0.0))
