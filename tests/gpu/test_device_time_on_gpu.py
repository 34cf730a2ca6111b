"""The speedup by the device's own time on a GPU: it is that of CUDA graphs replayed in one process,
and candidates that cannot be captured have a reason and harm no other evaluation.

Needs nothing but torch and triton: `pytest -m gpu --noconftest
tests/gpu/test_device_time_on_gpu.py`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job, JobOptions
from app.domain.other_timings import DeviceTiming
from app.domain.problem_check import identity
from tests.bench import launch_paths

if TYPE_CHECKING:
    from workers.referee.resources import Resources

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

NEAR = 0.10
"""Deviation that one evaluation of the same code may have."""

TRUTH_OFF, WIDE = 0.03, 0.5
"""Relative error of a truth that was taken in another process; width of an interval,
over the speedup, from which on it says little.  tests/bench/launch_paths.py says how
often intervals hold the truth.
"""

SMALL, LARGE = "softmax_384kb", "softmax_64mb"
NO_GRAPH = "replayed outputs are wrong"

_HEAD = """
import torch
from torch import nn
class ModelNew(nn.Module):
    def forward(self, x):
"""


@pytest.fixture(scope="module")
def host() -> Iterator["Resources"]:
    from workers.referee.resources import Resources

    with Resources("gpu", "test", slots=2) as started:
        started.wait_ready()
        yield started


def _evaluate(
    host: "Resources", reference: str, candidate: str, backend: str = "torch"
) -> Evaluation:
    from workers.referee.evaluate import evaluate

    job = Job(
        job_id=uuid4(),
        reference=reference.encode(),
        candidate=candidate.encode(),
        backend=backend,
        options=JobOptions(
            timing_budget_s=0.2, call_timeout_s=30, deadline_s=120, device_time=True
        ),
    )
    evaluation, _ = evaluate(job, host)
    assert evaluation.status is Status.PASSED, evaluation.error
    return evaluation


def _device_time(evaluation: Evaluation) -> DeviceTiming:
    assert evaluation.timing is not None
    found = evaluation.timing.device
    assert found is not None
    return found


def _body(*lines: str) -> str:
    return _HEAD + "".join(f"        {line}\n" for line in lines)


@pytest.mark.parametrize("name", [SMALL, LARGE, "scale_4mb", "spin_30us"])
def test_it_is_the_speedup_of_graphs_in_one_process(host: "Resources", name: str) -> None:
    pair = launch_paths.PAIRS[name]
    true = launch_paths.truths([name])[name]["graph"]
    evaluation = _evaluate(host, pair["reference"], pair["candidate"], pair["backend"])
    found = _device_time(evaluation)
    print(name, true, found, evaluation.timing and evaluation.timing.speedup, evaluation.stage_ms)
    assert found.error is None
    assert found.ci_low * (1 - TRUTH_OFF) <= true <= found.ci_high * (1 + TRUTH_OFF)
    assert (found.ci_high - found.ci_low) / found.speedup < WIDE


@pytest.mark.parametrize("name", [SMALL, LARGE])
def test_a_reference_is_as_fast_as_itself(host: "Resources", name: str) -> None:
    reference = launch_paths.PAIRS[name]["reference"]
    found = _device_time(_evaluate(host, reference, identity(reference.encode()).decode()))
    assert found.error is None
    assert abs(found.speedup - 1) < NEAR / 2


def test_a_buffer_that_is_returned_again_and_again_is_copied(host: "Resources") -> None:
    lines = (
        "self.y = getattr(self, 'y', None)",
        "if self.y is None: self.y = torch.empty_like(x)",
        "torch.softmax(x, 1, out=self.y)",
        "return self.y",
    )
    found = _device_time(_evaluate(host, launch_paths.PAIRS[SMALL]["reference"], _body(*lines)))
    assert found.error is None
    assert abs(found.speedup - 1) < NEAR


REFUSED = {
    "asks the device": (
        ("return torch.softmax(x * (1 if x.sum().item() < 1e9 else 2), 1)",),
        "RuntimeError",
    ),
    "waits": (("y = torch.softmax(x, 1)", "torch.cuda.synchronize()", "return y"), "Error"),
    "raises": (
        (
            "assert not torch.cuda.is_current_stream_capturing(), 'not with me'",
            "return torch.softmax(x, 1)",
        ),
        "AssertionError: not with me",
    ),
    "keeps an answer": (
        (
            "if not torch.cuda.is_current_stream_capturing(): self.y = torch.softmax(x, 1)",
            "return self.y.clone()",
        ),
        NO_GRAPH,
    ),
    "does nothing": (
        (
            "y = torch.empty_like(x)",
            "if not torch.cuda.is_current_stream_capturing(): y.copy_(torch.softmax(x, 1))",
            "return y",
        ),
        NO_GRAPH,
    ),
    "works on the default stream": (
        (
            "y = torch.empty_like(x)",
            "with torch.cuda.stream(torch.cuda.default_stream()):",
            "    torch.softmax(x, 1, out=y)",
            "return y",
        ),
        "",
    ),
    "allocates": (
        (
            "if torch.cuda.is_current_stream_capturing(): torch.empty(1 << 45, device='cuda')",
            "return torch.softmax(x, 1)",
        ),
        "OutOfMemoryError",
    ),
}
"""Lines of a candidate's forward that are right in ordinary calls, and words of the
reason why they have no value.
"""


@pytest.mark.parametrize("name", REFUSED)
def test_a_candidate_that_cannot_be_captured_has_a_reason(host: "Resources", name: str) -> None:
    lines, words = REFUSED[name]
    reference = launch_paths.PAIRS[SMALL]["reference"]
    refused = _device_time(_evaluate(host, reference, _body(*lines)))
    print(name, refused)
    assert refused.speedup is None
    assert words in (refused.error or "")
    assert refused.error
    honest = _device_time(_evaluate(host, reference, _body("return torch.softmax(x, 1)")))
    assert honest.error is None, "the next evaluation with the same reference"
    assert abs(honest.speedup - 1) < NEAR


def test_a_reference_that_waits_harms_no_other_evaluation(host: "Resources") -> None:
    reference = launch_paths.PAIRS[SMALL]["reference"]
    waiting = reference.replace(
        "return torch.softmax", "x.sum().item()\n        return torch.softmax"
    )
    found = _device_time(_evaluate(host, waiting, _body("return torch.softmax(x, 1)")))
    assert found.error is not None
    assert found.error.startswith("the reference could not be captured")
    assert (
        _device_time(_evaluate(host, waiting, _body("return torch.softmax(x, 1) "))).error
        is not None
    )
    assert (
        _device_time(_evaluate(host, reference, _body("return torch.softmax(x, 1)"))).error is None
    )


def test_a_candidate_that_replays_graphs_itself_is_evaluated(host: "Resources") -> None:
    pair = launch_paths.PAIRS["graph_of_16"]
    found = _device_time(_evaluate(host, pair["reference"], pair["candidate"], pair["backend"]))
    print(found)
    assert (found.error is None) == (found.speedup is not None)
