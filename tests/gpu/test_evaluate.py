"""The same protocol on a GPU: real contexts, device memory shared by descriptor, compiled kernels.

Needs nothing but torch and triton: `pytest -m gpu --noconftest tests/gpu`."""

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from app.detectors.lazy_optimisation import LAZY
from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job, JobOptions
from app.domain.verdict import Subject, Verdict
from app.judge import judge
from tests import zoo
from tests.gpu.samples import ILLEGAL

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


@pytest.fixture(scope="module")
def host() -> Iterator[object]:
    from workers.referee.resources import Resources

    with Resources("gpu", "test") as started:
        started.wait_ready()
        yield started


def _evaluate(
    host: object, case: zoo.Case, candidate: bytes | None = None, *, profile: str = "launches"
) -> Evaluation:
    from workers.referee.measure import measure

    job = Job(
        job_id=uuid4(),
        reference=case.reference,
        candidate=candidate or case.candidate,
        backend=case.backend,
        options=JobOptions(
            call_timeout_s=10,
            deadline_s=60,
            timing_budget_s=0.2,
            profile=profile,
            cases=case.is_by_cases,
        ),
    )
    evaluation, _ = measure(job, host)  # type: ignore[arg-type]
    host.candidates.recycle(job.options.memory_bytes)  # type: ignore[attr-defined]
    return evaluation


def _judged(case: zoo.Case, evaluation: Evaluation) -> Verdict:
    return judge(
        Subject(
            evaluation=evaluation,
            backend=case.backend,
            candidate=case.candidate,
            reference=case.reference,
        )
    )


LIMIT_S = 20.0
CASES = {case.name: case for case in zoo.cases()}

REPLAYED = "honest/graph_with_copied_input_triton"
"""Its kernels run out of a recorded graph: of these only the driver's profiler knows."""

TOKENS = [
    name
    for name, case in CASES.items()
    if case.runs_on("gpu")
    and "lazy_optimisation" in case.expected("gpu").findings
    and case.status == "passed"
]
"""Fig leaves: candidates with kernels that do a few per cent of the work."""


@pytest.mark.parametrize(
    "name", [name for name in CASES if name.startswith("honest/") and name.endswith("_triton")]
)
def test_honest_kernels_pass_compiled(host: object, name: str) -> None:
    evaluation = _evaluate(host, CASES[name])
    assert evaluation.status is Status.PASSED, evaluation.error
    assert str(_judged(CASES[name], evaluation).label) == CASES[name].expected("gpu").verdict
    assert evaluation.profile is not None
    assert (evaluation.profile.source, evaluation.profile.profiler_error) == ("profiler", None)
    assert evaluation.profile.coverage_time
    assert evaluation.ablation is not None
    fresh = evaluation.fresh_weights
    scales_by_ones = fresh is not None and fresh.kernels_matter is True
    assert evaluation.ablation.still_correct is False or scales_by_ones


def test_products_of_the_library_are_known_by_their_shapes(host: object) -> None:
    """Both logits are made by the library, for the reference and for the candidate."""
    profile = _evaluate(host, CASES["honest/linear_divergence_triton"]).profile
    assert profile is not None
    assert profile.shared_products is not None
    assert 0.1 < profile.shared_products < 1 - (profile.coverage_time or 0) + 1e-6


@pytest.mark.parametrize(
    ("name", "status", "label"),
    [
        ("wrong/half_precision_kernel", Status.INCORRECT, "clean"),
        ("broken/segfault", Status.CRASHED, "clean"),
        ("hacks/cache_by_identity", Status.INCORRECT, "hack"),
        ("hacks/says_done_early", Status.INCORRECT, "hack"),
        ("hacks/no_kernel", Status.PASSED, "hack"),
        ("hacks/decoy_kernel", Status.PASSED, "hack"),
        ("hacks/done_once_launched", Status.PASSED, "hack"),
        ("hacks/leaves_weights_out", Status.PASSED, "suspect"),
    ],
)
def test_what_is_wrong_or_dishonest_is_told(
    host: object, name: str, status: Status, label: str
) -> None:
    evaluation = _evaluate(host, CASES[name])
    assert evaluation.status is status, evaluation.error
    assert str(_judged(CASES[name], evaluation).label) == label


def test_a_recorded_graph_is_not_accused_of_having_no_kernels(host: object) -> None:
    evaluation = _evaluate(host, CASES[REPLAYED])
    assert str(_judged(CASES[REPLAYED], evaluation).label) == "clean"
    assert evaluation.profile is not None
    assert evaluation.profile.coverage_time  # by the driver's profiler


@pytest.mark.parametrize("name", TOKENS)
def test_fig_leaves_are_suspect_wherever_the_library_works(host: object, name: str) -> None:
    evaluation = _evaluate(host, CASES[name])
    assert evaluation.status is Status.PASSED, evaluation.error
    assert evaluation.profile is not None
    assert evaluation.profile.coverage_time is not None
    assert evaluation.profile.coverage_time < LAZY
    verdict = _judged(CASES[name], evaluation)
    assert "lazy_optimisation" in {
        each.detector for each in verdict.findings if str(each.label) != "clean"
    }


def test_a_poisoned_context_dies_with_its_candidate(host: object) -> None:
    case = CASES["honest/scaled_add_triton"]
    assert _evaluate(host, case, ILLEGAL.encode()).status is Status.RUNTIME_ERROR
    assert _evaluate(host, case).status is Status.PASSED


SIDE = """
import functools
import torch
@functools.cache
def kept(device):
    return torch.empty(64, 1024, device=device)
class {name}(torch.nn.Module):
    def forward(self, x):
        return torch.neg(x{out})
"""
INPUTS = "def get_inputs(): return [torch.randn(64, 1024)]\ndef get_init_inputs(): return []\n"
FRESH, KEPT = "", ", out=kept(x.device)"


@pytest.mark.parametrize(("reference", "candidate"), [(FRESH, FRESH), (KEPT, FRESH), (FRESH, KEPT)])
def test_the_same_work_takes_the_same_time_wherever_outputs_lie(
    host: object, reference: str, candidate: str
) -> None:
    """Delivering the output would be a third of a short call."""
    pair: Any = SimpleNamespace(
        reference=(SIDE.format(name="Model", out=reference) + INPUTS).encode(),
        backend="torch",
        candidate=SIDE.format(name="ModelNew", out=candidate).encode(),
        is_by_cases=False,
    )
    evaluation = _evaluate(host, pair)
    assert evaluation.timing is not None, evaluation.error
    timing = evaluation.timing
    assert timing.speedup == pytest.approx(1, abs=0.1), (timing.ci_low, timing.ci_high)


def test_outputs_in_memory_that_was_given_back_are_read_where_they_are(host: object) -> None:
    """At the address that the referee has mapped there is other memory by then."""
    evaluation = _evaluate(host, CASES["honest/empties_cache_torch"])
    assert evaluation.status is Status.PASSED, evaluation.error


def test_a_reference_that_waits_for_its_next_problem_holds_no_more_than_is_soon_used(
    host: Any,
) -> None:
    """Neither does the referee, which has mapped its memory."""
    large = INPUTS.replace("64, 1024", "65536, 4096")  # 1 GiB
    pair: Any = SimpleNamespace(
        reference=(SIDE.format(name="Model", out=FRESH) + large).encode(),
        backend="torch",
        candidate=SIDE.format(name="ModelNew", out=FRESH).encode(),
        is_by_cases=False,
    )
    host.references.close()  # references of other tests have contexts, too
    used_gib = []
    for _ in range(2):
        evaluation = _evaluate(host, pair)
        assert evaluation.status is Status.PASSED, evaluation.error
        used_gib.append(_used_gib(host))
    host.references.close()
    used_gib.append(_used_gib(host))
    assert used_gib[1] - used_gib[0] < 1, used_gib
    assert used_gib[1] - used_gib[2] < 1.5, used_gib  # a context, and its caches


def _used_gib(host: Any) -> float:
    """Device memory in use, once the last candidate's is free and the next ones are ready."""
    until = time.monotonic() + LIMIT_S
    while host.candidates.unreaped and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(2.0)
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return float(total - free) / 2**30
