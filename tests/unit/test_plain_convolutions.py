"""The fp64 twin of a model with convolutions is computed without cuDNN where that is faster."""

import copy

import pytest
import torch

from workers.shims.problem import reference_session
from workers.shims.problem.answers import plain_convolutions, true_answer
from workers.shims.problem.answers.true_answer import Truth

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


clock_s = [0.0]
"""Time of a clock that only calls advance."""


class Convolution(torch.nn.Module):
    """Convolution that takes `with_s` seconds with cuDNN and `without_s` without it."""

    def __init__(self, with_s: float, without_s: float) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 1, 1)
        self.seconds = {True: with_s, False: without_s}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        clock_s[0] += self.seconds[torch._C._get_cudnn_enabled()]
        return self.conv(x)


def _are_faster(model: torch.nn.Module, device: torch.device = GPU) -> bool:
    return plain_convolutions.are_faster(model, [torch.ones(1, 1, 4)], Truth.FP64, device)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_session, "settle", lambda _: None)
    monkeypatch.setattr(reference_session, "perf_counter", lambda: clock_s[0])


@pytest.mark.parametrize(
    ("with_s", "without_s", "faster"),
    [(0.02, 0.002, True), (0.02, 0.02, False), (0.02, 0.06, False), (0.001, 0.0, False)],
)
def test_the_faster_convolutions_are_chosen_for_slow_calls(
    with_s: float, without_s: float, faster: bool
) -> None:
    assert _are_faster(Convolution(with_s, without_s)) == faster


def test_only_models_with_convolutions_on_a_gpu_are_timed() -> None:
    assert not _are_faster(Convolution(0.02, 0.0), CPU)
    assert not _are_faster(torch.nn.Linear(4, 4))


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError(), RuntimeError("not implemented for 'Double'")]
)
def test_a_failure_without_cudnn_is_no_reason_to_fail(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Large(Convolution):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch._C._get_cudnn_enabled():
                raise error
            return super().forward(x)

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    assert not _are_faster(Large(0.02, 0.0))
    assert torch._C._get_cudnn_enabled()


def test_a_twin_and_its_copies_keep_the_choice() -> None:
    seen = []

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(torch._C._get_cudnn_enabled())
            return x

    for plain in (False, True):
        twin = true_answer.twin(Model(), Truth.FP64, plain=plain)
        for each in (twin, copy.deepcopy(twin)):
            true_answer.call(each, [torch.ones(2)], Truth.FP64)
    assert seen == [True, True, False, False]
    assert torch._C._get_cudnn_enabled()
