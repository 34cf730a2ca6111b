"""Rows of the benchmarks on a GPU."""

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.evaluation import Evaluation
from tests import zoo
from tests.bench import gpu_figures, gpu_fleet
from tests.unit.measurements import PASSED, kernels
from workers.referee.cancellation import Cancellation

CASES = {case.name: case for case in zoo.cases()}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("hacks/changes_its_environment", "reaches_process"),
        ("hacks/docstring_that_runs", "reaches_process"),
        ("hacks/kernel_by_a_word_put_together", "unread_source"),
    ],
)
def test_a_row_is_judged_with_the_source(name: str, found: str) -> None:
    spec = gpu_fleet.spec_of(CASES[name])
    evaluation = replace(PASSED, profile=kernels(90, 0).profile)
    row = gpu_fleet._row(spec, gpu_fleet.job(spec), evaluation, 1.0)
    assert found in row["accused_by"]


class _Host:
    environment = PASSED.environment
    closed = False

    def __init__(self, *_: Any, **__: Any) -> None:
        self.ended = threading.Event()
        self.candidates = SimpleNamespace(recycle=lambda memory_bytes: None)

    def wait_ready(self) -> Any:
        return self.environment

    def close(self) -> None:
        self.ended.set()


def _measure(job: Any, host: _Host, cancellation: Cancellation) -> tuple[Evaluation, None]:
    """Candidates whose source names a number of seconds take so long, or until their end is asked
    for; those that `hang` take until the host is closed.
    """
    until = time.monotonic() + float(job.candidate.partition(b"takes ")[2] or 0)
    while time.monotonic() < until and not cancellation.requested:
        time.sleep(0.005)
    if b"hang" in job.candidate:
        host.ended.wait(10)
    return PASSED, None


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[gpu_fleet.Fleet]:
    monkeypatch.setattr(gpu_fleet, "Resources", _Host)
    monkeypatch.setattr(gpu_fleet, "measure", _measure)
    fleet = gpu_fleet.Fleet("h200", 2)
    yield fleet
    fleet.close()


def _specs(*candidates: str) -> list[dict[str, Any]]:
    return [
        {"name": each, "reference": "", "candidate": f"# {each}", "backend": "torch"}
        for each in candidates
    ]


def test_a_figure_is_of_the_evaluations_that_ended_in_time(fleet: gpu_fleet.Fleet) -> None:
    specs = _specs("takes 0", "takes 60", "takes 0.01", "takes 60", "takes 0")
    with fleet.within(0.3):
        found = gpu_figures._rate(fleet, specs)
    assert [row["index"] for row in found["rows"]] == [0, 2]
    assert (found["evaluations"], found["asked"]) == (2, 5)
    assert found["seconds"] < 0.3  # until the last of them ended
    with fleet.within(60):
        assert len(fleet.run(specs[:1])[0]) == 1


def test_a_figure_without_an_evaluation_says_so(fleet: gpu_fleet.Fleet) -> None:
    with fleet.within(0):
        time.sleep(0.05)
        found = gpu_figures._rate(fleet, _specs("takes 0"))
    assert (found["evaluations"], found["per_minute"]) == (0, None)


@pytest.mark.parametrize("slow", ["takes 60", "hang"])
def test_an_interrupted_bench_has_the_rows_so_far(
    fleet: gpu_fleet.Fleet, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    """Also if an evaluation waits for a process that does not answer: it is ended then."""
    monkeypatch.setattr(gpu_fleet, "STOPPING_S", 0.1)
    exits: list[int] = []
    monkeypatch.setattr(gpu_fleet.os, "_exit", exits.append)
    interrupt = threading.Timer(0.1, fleet._on_signal, (signal.SIGTERM, None))
    interrupt.start()
    rows, _ = fleet.run(_specs("takes 0", slow, "takes 60", "takes 0"))
    assert [row["index"] for row in rows] == [0]
    assert fleet.interrupted
    fleet._on_signal(signal.SIGTERM, None)  # the same one again
    assert not exits
    monkeypatch.setattr(gpu_fleet, "AGAIN_S", 0.0)
    fleet._on_signal(signal.SIGINT, None)
    assert exits == [128 + signal.SIGINT]
