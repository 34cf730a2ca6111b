"""`assay eval --pending` runs the jobs that have a worker and names the device
classes that have none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.cli import pending_jobs, services, submit_options
from app.settings import Settings


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> dict[UUID, str]:
    """Two jobs for the CPU, three for a class without a worker."""
    found = {uuid4(): name for name in ("cpu", "h200", "cpu", "h200", "h200")}

    class Worker:
        def __init__(self, _settings: Settings, _client: Any, device_class: str) -> None:
            self._device_class = device_class

        def __enter__(self) -> Worker:
            if self._device_class != "cpu":
                raise services.NoWorkerError(f"no worker for {self._device_class!r}")
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def check(self) -> None:
            pass

    @contextmanager
    def client(_settings: Settings) -> Iterator[Any]:
        @contextmanager
        def begin() -> Iterator[None]:
            yield

        yield SimpleNamespace(
            database=SimpleNamespace(begin=begin),
            results=lambda ids: [{"status": "passed", "state": "finished"}],
        )

    monkeypatch.setattr(services, "client", client)
    monkeypatch.setattr(services, "Worker", Worker)
    monkeypatch.setattr("app.cli.pending_jobs.jobs.open_jobs", lambda _: found)
    monkeypatch.setattr(submit_options, "over", lambda _client, ids, _check: iter(ids))
    return found


def test_one_class_without_a_worker_does_not_stop_the_others(
    queued: dict[UUID, str], capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = pending_jobs.run(Settings.from_env({}))
    assert (outcome.ended, outcome.waiting) == (Counter(passed=2), {"h200": 3})
    assert pending_jobs.exit_code(outcome) == 0
    pending_jobs.report(outcome, as_json=False)
    shown = capsys.readouterr()
    assert "2 jobs: 2 passed" in shown.out
    assert "no worker for 'h200' is online; 3 jobs wait for one" in shown.err


def test_a_class_may_be_asked_for_alone(queued: dict[UUID, str]) -> None:
    assert pending_jobs.run(Settings.from_env({}), "cpu").waiting == {}
    outcome = pending_jobs.run(Settings.from_env({}), "h200")
    assert (outcome.ended, outcome.waiting) == (Counter(), {"h200": 3})
    assert pending_jobs.exit_code(outcome) == 3
