"""Problems with expected outputs made when outputs are verified, on the CPU device
with an arena made small.
"""

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import torch

from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job, JobOptions
from workers.protocol.input_variants import CHECKED
from workers.referee.evaluate import evaluate
from workers.referee.processes.process_session import Session
from workers.referee.resources import Resources
from workers.referee.session import variant_calls
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.verification import Verification

REFERENCE = b"""
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 512))
    def forward(self, x, y):
        return torch.tanh(x) * self.scale + y, x.argmax(1)
def get_inputs(): return [torch.randn(64, 512), torch.rand(64, 512)]
def get_init_inputs(): return []
"""
RIGHT = REFERENCE.replace(b"class Model(", b"class ModelNew(")
WRONG = {
    "one row": RIGHT.replace(b"return torch", b"x = x.clone(); x[63] = 0\n        return torch"),
    "half precision": RIGHT.replace(b"torch.tanh(x)", b"torch.tanh(x.half()).float()"),
    "the first answer": RIGHT.replace(
        b"return torch.tanh(x) * self.scale + y, x.argmax(1)",
        b"self.kept = getattr(self, 'kept', None) or (torch.tanh(x) * self.scale + y,"
        b" x.argmax(1))\n        return self.kept[0].clone(), self.kept[1].clone()",
    ),
    "late, by half precision": RIGHT.replace(
        b"return torch.tanh(x)",
        b"self.calls = getattr(self, 'calls', 0) + 1\n"
        b"        if self.calls > 9: x = x.half().float()\n"
        b"        return torch.tanh(x)",
    ),
    "late, by one element": RIGHT.replace(
        b"return torch.tanh(x)",
        b"self.calls = getattr(self, 'calls', 0) + 1\n"
        b"        if self.calls > 9: x = x.clone(); x[5, 5] += 0.1\n"
        b"        return torch.tanh(x)",
    ),
}
FLOATS = b"""
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x) + x.mean(1, keepdim=True)
def get_inputs(): return [torch.randn(64, 512)]
def get_init_inputs(): return []
"""
ONLY_USUAL = FLOATS.replace(b"class Model(", b"class ModelNew(").replace(
    b"return x", b"x = x.clamp(-6, 6)\n        return x"
)
"""Right on normal values, and wrong on larger ones."""

SMALL = 64 * 512
"""Elements of an input of the problem: an input that stays with the host has fewer."""

LAYOUTS = {"apart": 4 << 20, "streamed": 0}
"""Bytes of an arena: some input sets, and a call at a time."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resources]:
    with Resources("cpu", "test", lock_folder=Path(tmp_path_factory.mktemp("leases"))) as started:
        started.wait_ready()
        yield started


def _evaluated(
    host: Resources, layout: str, candidate: bytes, reference: bytes = REFERENCE
) -> Evaluation:
    usual = host.device
    host.device = replace(usual, together_bytes=0, arena_bytes=LAYOUTS[layout])
    options = JobOptions(timing_budget_s=0.05, deadline_s=120, call_timeout_s=30)
    try:
        job = Job(
            job_id=uuid4(),
            reference=reference,
            candidate=candidate,
            backend="torch",
            options=options,
        )
        return evaluate(job, host)[0]
    finally:
        host.device = usual
        host.candidates.recycle(options.memory_bytes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_right_candidate_passes(host: Resources, layout: str) -> None:
    found = _evaluated(host, layout, RIGHT)
    assert found.status is Status.PASSED, found.error
    assert found.timing is not None
    assert found.correctness is not None
    assert found.correctness.failed_calls == 0
    assert found.correctness.calls > found.correctness.near_calls > 0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_candidate_does_not(host: Resources, layout: str, fault: str) -> None:
    found = _evaluated(host, layout, WRONG[fault])
    assert found.status is Status.INCORRECT, found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_unusual_inputs_need_no_expected_outputs_where_answers_are_near_the_references(
    host: Resources, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    take = Verification.take_near
    monkeypatch.setattr(
        Verification, "take_near", lambda self, given: taken.append(take(self, given)) or taken[-1]
    )
    found = _evaluated(host, layout, FLOATS.replace(b"class Model(", b"class ModelNew("), FLOATS)
    assert found.status is Status.PASSED, found.error
    assert True in taken
    assert found.correctness is not None
    assert found.correctness.propagates_nonfinite is True


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_answer_that_is_wrong_on_unusual_inputs_alone_is_refused(
    host: Resources, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        variant_calls, "COSTLY_KINDS", len(CHECKED)
    )  # else chance decides, if calls are streamed
    found = _evaluated(host, layout, ONLY_USUAL, FLOATS)
    assert found.status is Status.INCORRECT, found
    assert found.correctness is not None
    assert found.correctness.trials[-1].variant != "own"


@pytest.mark.parametrize(
    "candidate", [RIGHT, WRONG["one row"], b"raise ValueError"], ids=["right", "wrong", "broken"]
)
def test_nothing_of_an_evaluation_waits_for_a_collection_of_cycles(
    host: Resources, candidate: bytes
) -> None:
    kinds = CallRunner | Session | torch.Tensor
    gc.collect()
    gc.disable()
    try:
        before = [
            each for each in gc.get_objects() if issubclass(type(each), kinds)
        ]  # other tests', kept alive here
        _evaluated(host, "apart", candidate)
        known = set(map(id, before))
        left = [
            each
            for each in gc.get_objects()
            if issubclass(type(each), kinds) and id(each) not in known
        ]
    finally:
        gc.enable()
    of_the_host = [each for each in left if type(each) is torch.Tensor and each.numel() < SMALL]
    assert len(left) == len(of_the_host), [type(each).__name__ for each in left]
