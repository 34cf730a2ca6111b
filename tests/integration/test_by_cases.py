"""Problems by cases (workflow kernel_simple) through a real referee: real sandbox,
real processes, no queue.
"""

from uuid import uuid4

import pytest

from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job, JobOptions
from app.domain.verdict import Label, Subject, Verdict
from app.judge import judge
from workers.worker import referee_client

ROWS = b"""
import torch

def get_cases():
    for n in (64, 1000):
        x = torch.randn(4, n)
        yield {"name": f"rows of {n}", "inputs": [x, 2.0], "outputs": 2 * torch.softmax(x, dim=-1),
               "rtol": 1e-4, "atol": 1e-6}
"""
FIXED = b"""
import torch
X = torch.randn(4, 64, generator=torch.Generator().manual_seed(7))

def get_cases():
    return [{"inputs": [X, 2.0], "outputs": 2 * torch.softmax(X, dim=-1)}]
"""
TRITON = b"""
import torch
import triton
import triton.language as tl

@triton.jit
def rows(x, y, n, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * n + at, scale * power / tl.sum(power, axis=0), mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x, scale):
        y = torch.empty_like(x)
        rows[(x.shape[0],)](x, y, x.shape[1], scale, BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
"""
TORCH = b"""
import torch

class ModelNew:
    def __call__(self, x, scale):
        return scale * torch.softmax(x, dim=-1)
"""


def run(
    device_referee: referee_client.RefereeClient,
    problem: bytes,
    candidate: bytes,
    backend: str = "torch",
    **options: float,
) -> Evaluation:
    told = {"timing_budget_s": 0, "call_timeout_s": 5.0, "deadline_s": 30.0, **options}
    chosen = JobOptions(**told, cases=True)  # type: ignore[arg-type]
    job = Job(
        job_id=uuid4(), reference=problem, candidate=candidate, backend=backend, options=chosen
    )
    return device_referee.run(job).evaluation


def judged(
    evaluation: Evaluation, problem: bytes, candidate: bytes, backend: str = "torch"
) -> Verdict:
    return judge(
        Subject(evaluation=evaluation, backend=backend, candidate=candidate, reference=problem)
    )


def test_an_honest_kernel_passes_each_case_and_its_time_is_told(
    device_referee: referee_client.RefereeClient,
) -> None:
    found = run(device_referee, ROWS, TRITON, "triton", timing_budget_s=0.2)
    assert found.status is Status.PASSED, found.error
    assert [case.name for case in found.cases] == ["rows of 64", "rows of 1000"]
    for case in found.cases:
        assert case.status is Status.PASSED
        assert case.tolerance == "rtol=0.0001,atol=1e-06"
        assert case.candidate_us_low is not None
        assert case.candidate_us is not None
        assert case.candidate_us_high is not None
        assert 0 < case.candidate_us_low <= case.candidate_us <= case.candidate_us_high
        assert case.calls > 5, "timed calls are verified, too"
    assert found.candidate_us == found.cases[0].candidate_us
    assert found.timing is None, "there is nothing to be faster than"
    assert found.ablation is not None
    assert found.ablation.still_correct is False
    assert [kernel.outcome for kernel in found.compiled_kernels] == ["ok", "ok"], "one a shape"
    assert judged(found, ROWS, TRITON, "triton").label is Label.CLEAN


def test_reported_times_are_no_shorter_than_a_call(
    device_referee: referee_client.RefereeClient,
) -> None:
    """No more is subtracted for hand-overs than they take.  (No less, either:
    tests/unit/test_paired_benchmark.py, where no other test keeps the cores from a
    process that waits.)
    """
    waiting = b"import time\n" + TORCH.replace(
        b"        return", b"        time.sleep(0.002)\n        return"
    )
    case, _ = run(device_referee, ROWS, waiting, timing_budget_s=0.2).cases
    assert case.candidate_us is not None
    assert case.candidate_us > 2000


def test_cases_that_are_always_the_same_prove_little(
    device_referee: referee_client.RefereeClient,
) -> None:
    """An honest kernel is no cheat for that: its kernels' output of another call is
    right in every call here.
    """
    found = run(device_referee, FIXED, TRITON, "triton")
    assert found.status is Status.PASSED, found.error
    assert found.ablation is not None
    assert not found.ablation.replays_still_correct
    verdict = judged(found, FIXED, TRITON, "triton")
    assert verdict.label is Label.SUSPECT
    assert [finding.detector for finding in verdict.findings] == ["degenerate_problem"]


def test_remembered_answers_are_wrong_where_cases_are_drawn(
    device_referee: referee_client.RefereeClient,
) -> None:
    remembers = TORCH.replace(
        b"        return scale",
        b"        if not hasattr(self, 'kept'):\n            self.kept = scale * torch.softmax(x,"
        b" dim=-1)\n        return self.kept\n        return scale",
    )
    found = run(device_referee, ROWS, remembers)
    assert found.status is Status.INCORRECT
    assert found.error is not None
    assert found.error.kind == "stale_output"
    assert run(device_referee, FIXED, remembers).status is Status.PASSED, (
        "which is why fixed cases make suspects"
    )


def test_the_case_that_is_wrong_is_named_and_the_others_are_tried(
    device_referee: referee_client.RefereeClient,
) -> None:
    only_small = TORCH.replace(b"dim=-1)", b"dim=-1) + (0.01 if x.shape[1] == 64 else 0)")
    found = run(device_referee, ROWS, only_small)
    assert found.status is Status.INCORRECT
    assert [case.status for case in found.cases] == [Status.INCORRECT, Status.PASSED]
    assert found.error is not None
    assert found.error.message.startswith("case 'rows of 64' of 2: ")
    assert found.correctness is not None
    wrong = [trial for trial in found.correctness.trials if not trial.ok]
    assert {trial.case for trial in wrong} == {"rows of 64"}
    for trial in wrong:
        worst = trial.outputs[0].worst
        assert worst is not None
        assert len(worst.index) == 2
        assert float(worst.got) != float(worst.expected)
    assert all(
        output.worst is None
        for trial in found.correctness.trials
        if trial.ok
        for output in trial.outputs
    )


def test_a_cases_tolerance_precedes_the_submitters_and_the_default(
    device_referee: referee_client.RefereeClient,
) -> None:
    problem = b"""
import torch
def get_cases():
    x = torch.rand(1000) + 1
    case = {"inputs": [x, 1.0], "outputs": x.clone()}
    return [case | {"rtol": 1e-2}, case, case | {"rtol": 1e-6, "atol": 1e-6}]
"""
    rounds = TORCH.replace(b"scale * torch.softmax(x, dim=-1)", b"x.half().float() * scale")
    assert [case.status.value for case in run(device_referee, problem, rounds).cases] == [
        "passed",
        "incorrect",
        "incorrect",
    ]
    asked = run(device_referee, problem, rounds, rtol=1e-2, atol=1e-2).cases
    assert "elements are off by more than 1e-06 + 1e-06·|R|" in asked[2].message
    assert [case.status.value for case in asked] == ["passed", "passed", "incorrect"]
    tolerances = [case.tolerance for case in asked]
    assert tolerances == ["rtol=0.01,atol=1e-05", "rtol=0.01,atol=0.01", "rtol=1e-06,atol=1e-06"]


def test_constructor_arguments_several_outputs_and_whole_numbers(
    device_referee: referee_client.RefereeClient,
) -> None:
    problem = b"""
import torch
def get_init_inputs(): return [3]
def get_cases():
    x = torch.randint(0, 100, (50,))
    return {"inputs": x, "outputs": {"sum": x.sum(), "parts": [x * 3, x % 3]}}
"""
    candidate = b"""
class ModelNew:
    def __init__(self, n): self.n = n
    def __call__(self, x): return {"sum": x.sum(), "parts": [x * self.n, x % self.n]}
"""
    found = run(device_referee, problem, candidate)
    assert found.status is Status.PASSED, found.error
    assert [case.name for case in found.cases] == ["case_0"]
    wrong = run(device_referee, problem, candidate.replace(b"x % self.n", b"x % 7"))
    assert wrong.status is Status.INCORRECT


def test_inputs_may_have_names(device_referee: referee_client.RefereeClient) -> None:
    problem = b"""
import torch
def get_cases():
    x = torch.randn(50)
    yield {"inputs": {"x": x, "exponent": 2}, "outputs": x ** 2}
    yield {"inputs": [x, 3], "outputs": x ** 3}
"""
    candidate = b"""
class ModelNew:
    def __call__(self, x, exponent): return x ** exponent
"""
    found = run(device_referee, problem, candidate)
    assert found.status is Status.PASSED, found.error
    swapped = run(device_referee, problem, candidate.replace(b"x, exponent)", b"exponent, x)"))
    assert [case.status for case in swapped.cases] == [
        Status.PASSED,
        Status.INCORRECT,
    ], "the second is by position"


def test_after_a_call_that_hangs_no_other_case_is_tried(
    device_referee: referee_client.RefereeClient,
) -> None:
    hangs = b"import time\n" + TORCH.replace(
        b"        return", b"        time.sleep(60)\n        return"
    )
    found = run(device_referee, ROWS, hangs, call_timeout_s=1.0)
    assert found.status is Status.TIMEOUT
    assert [case.name for case in found.cases] == ["rows of 64"]


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (b"def get_inputs(): return []", "the reference defines no get_cases"),
        (
            b"class Model: ...",
            "the reference defines no get_cases, but Model: is it for the workflow kernelbench?",
        ),
        (b"def get_cases(): return []", "expected 1 to 100 cases, got none"),
        (b"def get_cases(): return [{'inputs': [1.0]}]", "case 0: expected outputs, found inputs"),
        (b"def get_cases(): raise KeyError('data')", "KeyError"),
    ],
)
def test_a_broken_problem_is_invalid(
    device_referee: referee_client.RefereeClient, problem: bytes, says: str
) -> None:
    found = run(device_referee, problem, TORCH)
    assert found.status is Status.INVALID
    assert found.error is not None
    assert says in found.error.message, found.error


def test_the_candidate_cannot_ask_for_the_cases(
    device_referee: referee_client.RefereeClient,
) -> None:
    """Neither as a module nor as a file: they are in another process, in another sandbox."""
    asks = (
        b"""
from pathlib import Path
try:
    import reference
except ImportError:
    reference = None
found = [
    path for top in ("/tmp", "/dev/shm", ".") for path in Path(top).rglob("*.py")
    if b"get_" + b"cases" in path.read_bytes()
]
print("found", reference, found, flush=True)
"""
        + TORCH
    )
    found = run(device_referee, ROWS, asks)
    assert found.status is Status.PASSED, found.error
    assert "found None []" in found.testimony.stdout
