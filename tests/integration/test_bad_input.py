"""Everything that is bad about a submission, through client, queue, real worker and real sandbox:
each ends in its own status, leaves nothing running, and does the next candidate no harm.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from subprocess import Popen
from typing import Any

import pytest

from app import embedded
from app.client import Client, Submission
from app.domain.job import JobState
from app.embedded import Services
from app.settings import Settings
from tests import zoo
from tests.conftest import fresh
from tests.processes import descendants, is_running, pool_processes
from tests.waiting import until

WAIT_S = 800.0
"""Forty evaluations one after the other, of which some sit out their limits, on a
machine with other work.
"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(WAIT_S + 100)]
OPTIONS: dict[str, Any] = {"call_timeout_s": 3.0, "deadline_s": 15.0, "timing_budget_s": 0.0}
HONEST = zoo.case(zoo.ROOT / "honest" / "scaled_add_torch.py")
HIDDEN_KEYS = ("speedup", "speedup_ci", "candidate_us")
"""Values that no candidate may have unless it passed."""


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A submission and its required outcome."""

    candidate: bytes
    status: str
    kind: str | None
    """Kind of the error."""
    says: str = ""
    """Part of the error's message."""
    reference: bytes = HONEST.reference
    backend: str = "torch"


NUL_KIND = "syntax_error" if sys.version_info >= (3, 11, 4) else "load_failed"
"""Python calls it a ValueError before 3.11.4."""


def sample(name: str, kind: str | None, says: str = "") -> Bad:
    """A candidate of the zoo; its first line says the required outcome."""
    case = zoo.case(zoo.ROOT / f"{name}.py")
    return Bad(
        candidate=case.candidate,
        reference=case.reference,
        backend=case.backend,
        status=case.status,
        kind=kind,
        says=says,
    )


BAD = {
    "no entry point": sample(
        "broken/no_entry_point", "no_entry_point", "expected a class ModelNew, found FastModel"
    ),
    "an empty file": Bad(
        candidate=b"", status="compile_error", kind="no_entry_point", says="ModelNew"
    ),
    "a syntax error": sample("broken/syntax_error", "syntax_error", "line 4"),
    "an absent import": sample(
        "broken/absent_import", "import_failed", "a_kernel_library_that_does_not_exist"
    ),
    "a lone surrogate": sample("broken/lone_surrogate", "syntax_error"),
    "a NUL byte": sample("broken/nul_byte", NUL_KIND),
    "5 MB": Bad(
        candidate=HONEST.candidate + b"#" * (5 << 20),
        status="compile_error",
        kind="too_large",
        says="5,24",
    ),
    "too few outputs": sample(
        "wrong/missing_output", "wrong_structure", "expected 2 outputs, got 1"
    ),
    "another shape": sample("wrong/extra_dimension", "wrong_shape", "expected"),
    "NaN": sample("wrong/not_a_number", "wrong_output", "NaN"),
    "an endless loop": sample("broken/endless_loop", "timeout", "3 s a call"),
    "an exit": sample("broken/exits_at_once", "crashed", "exited with code 0"),
    "a segfault": sample("broken/segfault", "crashed", "SIGSEGV"),
    "10 GB": sample("broken/ten_gigabytes", "out_of_memory"),
    "a fork bomb": sample("broken/fork_bomb", "timeout"),
    "100 MB printed": sample("broken/noisy", None),
    "a failing reference": sample(
        "honest/no_fault_of_mine", "reference_failed", "the reference failed"
    ),
    "an empty reference": Bad(
        candidate=HONEST.candidate,
        reference=b"",
        status="invalid",
        kind="reference_failed",
        says="defines no",
    ),
    "a reference with a NUL byte": Bad(
        candidate=HONEST.candidate, reference=b"\0", status="invalid", kind="reference_failed"
    ),
    "cuda without a GPU": Bad(
        candidate=HONEST.candidate, backend="cuda", status="invalid", kind="needs_gpu"
    ),
}


@pytest.fixture(scope="module")
def module_settings(services: Services) -> Iterator[Settings]:
    with fresh(services) as settings:
        yield settings


@pytest.fixture(scope="module")
def worker(module_settings: Settings) -> Iterator[Popen[bytes]]:
    started = embedded.start_worker(module_settings)
    yield started
    started.terminate()
    started.wait(WAIT_S)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Results of one of BAD, and of an honest candidate right after it."""

    result: dict[str, Any]
    next: dict[str, Any]


@pytest.fixture(scope="module")
def outcomes(module_settings: Settings, worker: Popen[bytes]) -> dict[str, Outcome]:
    """All of BAD in one go through one worker, an honest candidate after each."""
    bad = [Submission(**fields(each)) for each in BAD.values()]
    honest = Submission(
        reference=HONEST.reference, candidate=HONEST.candidate, backend="torch", options=OPTIONS
    )
    submissions = [each for one in bad for each in (one, replace(honest, fresh=True))]
    with Client(module_settings) as client:
        results: Any = client.evaluate_many(submissions, timeout_s=WAIT_S)
    return {
        name: Outcome(result=result, next=follower)
        for name, result, follower in zip(BAD, results[::2], results[1::2], strict=True)
    }


def fields(bad: Bad) -> dict[str, Any]:
    return {
        "reference": bad.reference,
        "candidate": bad.candidate,
        "backend": bad.backend,
        "options": OPTIONS,
    }


@pytest.mark.parametrize("name", BAD)
def test_bad_input_ends_in_its_own_status(name: str, outcomes: dict[str, Outcome]) -> None:
    expected, came = BAD[name], outcomes[name].result
    error = came["error"]
    assert (came["state"], came["status"]) == (JobState.FINISHED, expected.status), error
    assert (error and error["kind"]) == expected.kind, error
    assert expected.says in (error["message"] if error else "")
    assert came["valid"] == (expected.status != "invalid")
    assert came["verdict"] == "clean"
    assert all(came[key] is None for key in HIDDEN_KEYS)
    assert outcomes[name].next["status"] == "passed", outcomes[name].next["error"]


def test_nothing_of_it_is_left_running(outcomes: dict[str, Outcome], worker: Popen[bytes]) -> None:
    """An idle worker has its pool process, a referee and a few warm processes below
    it; a fork bomb has a hundred.
    """
    until(lambda: sum(1 + len(descendants(pool)) for pool in pool_processes(worker.pid)) < 15)
    assert worker.poll() is None


def test_a_worker_that_is_killed_takes_the_candidate_with_it_and_loses_nothing(
    settings: Settings,
) -> None:
    first = embedded.start_worker(settings)
    with Client(settings) as client:
        endless = sample("broken/endless_loop", "timeout")
        job = client.submit(
            reference=endless.reference,
            candidate=endless.candidate,
            backend="torch",
            **{**OPTIONS, "call_timeout_s": 5.0},
        )
        until(lambda: job.result()["state"] == JobState.RUNNING)
        until(lambda: len(descendants(first.pid)) >= 4)  # pool process, referee, zygote, candidate
        time.sleep(1.0)
        below = descendants(first.pid)
        first.kill()
        first.wait()
        until(lambda: not any(is_running(pid) for pid in below))
        second = embedded.start_worker(settings)
        try:
            result = job.wait(timeout_s=WAIT_S)
            honest = client.submit(
                reference=HONEST.reference, candidate=HONEST.candidate, backend="torch", **OPTIONS
            )
            assert (result["state"], result["status"]) == (JobState.FINISHED, "timeout")
            assert honest.wait(timeout_s=WAIT_S)["status"] == "passed"
        finally:
            second.terminate()
            second.wait(WAIT_S)
