"""Settings, routes, workflows and the broker's configuration, without a server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from celery.exceptions import QueueNotFound
from kombu.exceptions import BatchPublishError  # type: ignore[attr-defined]  # the stubs are of 5.6

from app import broker, routing, workflows
from app.domain.device import DeviceId
from app.domain.job import JobOptions
from app.domain.problem import Problem
from app.domain.request import Request, RequestError
from app.plugins import UnknownPluginError
from app.settings import SERVICES_FILE, ServicesNotRunningError, Settings, located
from workers.worker.maintenance import IdleDetector

PROBLEM = Problem(name="p", reference=b"r")


def test_settings_survive_the_environment() -> None:
    settings = Settings(
        database_url="postgresql+psycopg://x",
        state_dir=Path("/s"),
        lease_s=1.5,
        device_class="h200",
        device_index=3,
        slots=12,
    )
    assert Settings.from_env(settings.to_env()) == settings


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ({"ASSAY_LEASE_S": "soon"}, "expected a number, got 'soon'"),
        ({"ASSAY_CALLS": "many"}, "expected a whole number, got 'many'"),
        ({"ASSAY_SLOTS": "all"}, "ASSAY_SLOTS: expected a whole number or auto, got 'all'"),
        ({"ASSAY_TRUSTED_PROXIES": "-1"}, "ASSAY_TRUSTED_PROXIES: expected at least 0, got -1"),
        ({"ASSAY_MAX_ATTEMPTS": "0"}, "ASSAY_MAX_ATTEMPTS: expected at least 1, got 0"),
        ({"ASSAY_LEAS_S": "1"}, "unknown setting"),
        ({"ASSAY_SLOTS": "0"}, "expected at least 1, got 0"),
        ({"ASSAY_LEASE_S": "0"}, "expected more than 0, at most 3600, got 0"),
        ({"ASSAY_LEASE_S": "7200"}, "expected more than 0, at most 3600, got 7200"),
        ({"ASSAY_SWEEP_S": "nan"}, "expected more than 0, at most 3600, got nan"),
    ],
)
def test_bad_settings_are_refused(variable: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings.from_env(variable)


def test_running_services_are_found_and_given_urls_win(tmp_path: Path) -> None:
    with pytest.raises(ServicesNotRunningError, match=str(tmp_path)):
        located(Settings(state_dir=tmp_path))
    (tmp_path / SERVICES_FILE).write_text(json.dumps({"database_url": "d", "broker_url": "b"}))
    found = located(Settings(state_dir=tmp_path, broker_url="mine"))
    assert (found.database_url, found.broker_url) == ("d", "mine")


def test_queues_of_workers() -> None:
    cpu = DeviceId(device_class="cpu", node="node", index=0)
    gpu = DeviceId(device_class="h200", node="node", index=3)
    assert routing.served(cpu) == {"cpu": None, "cpu.node.any": "node", "cpu.node.0": "node.0"}
    assert routing.served(gpu) == {"gpu.h200": None, "gpu.node.any": "node", "gpu.node.3": "node.3"}


@pytest.mark.parametrize(
    "device", ["NODE", "node.", "node.any", "node.0.1", ".0", "a b", "node.123"]
)
def test_a_pin_is_a_node_or_a_device(device: str) -> None:
    with pytest.raises(routing.UnknownQueueError, match=r"expected '<node>' or '<node>\.<index>'"):
        routing.queue_for("h200", device)


@pytest.mark.parametrize(
    ("hostname", "name"),
    [("GPU_Box-1.example.org", "gpu-box-1"), ("---", "node"), ("x" * 80, "x" * 63), ("ä1", "1")],
)
def test_node_names_fit_into_queue_names(hostname: str, name: str) -> None:
    assert routing.node_name(hostname) == name
    assert routing.queue_for("gpu", f"{name}.0")


def test_every_queue_is_declared_and_a_misspelt_one_is_an_error() -> None:
    app = broker.make_app("redis://127.0.0.1:1/0", queues=["gpu.node.0"])
    assert set(app.amqp.queues) == {*routing.class_queues(), "gpu.node.0"}
    with pytest.raises(QueueNotFound, match=r"gpu\.h20"):
        app.send_task(routing.EVALUATE, queue="gpu.h20")


def test_an_uncertain_delivery_is_a_broker_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis that is killed in the middle of a pipeline: how much has arrived is
    unknown; all may be sent again.
    """

    def broken(*_: object) -> None:
        raise BatchPublishError("delivery is uncertain")

    monkeypatch.setattr(broker, "_publish", broken)
    messages = [broker.Message(queue="cpu")]
    with pytest.raises(broker.BrokerUnavailableError, match="uncertain"):
        broker.publish(broker.make_app("redis://127.0.0.1:1/0"), messages)


def test_kernelbench_is_one_job() -> None:
    options = JobOptions(timing_budget_s=0)
    (job,) = workflows.plan(
        Request(problem=PROBLEM, candidate=b"", backend="cuda", options=options)
    )
    assert (job.candidate, job.backend, job.options) == (b"", "cuda", options)
    with pytest.raises(RequestError, match="expected source, got None"):
        workflows.plan(Request(problem=PROBLEM, candidate=None))
    with pytest.raises(
        UnknownPluginError,
        match="unknown workflow 'magic'; expected one of kernel_simple, kernelbench",
    ):
        workflows.plan(Request(problem=PROBLEM, candidate=b"", workflow="magic"))


CASES = b"def get_cases():\n    return []\n"


@pytest.mark.parametrize(
    ("reference", "by_cases"),
    [
        (CASES, True),
        (b"get_cases = make\n", True),
        (b"class Model: ...\n" + CASES, False),
        (b"Model = torch.nn.ReLU\n" + CASES, False),
        (b"class Models: ...\n" + CASES, True),
        (b"class Model:\n    def get_cases(self): ...\n", False),
        (b"# def get_cases():\n", False),
    ],
)
def test_a_problem_that_gives_cases_and_no_model_is_planned_as_one(
    reference: bytes, by_cases: bool
) -> None:
    """Workflow of a request that names none: labels of trainers and rows of datasets cannot."""
    problem = Problem(name="p", reference=reference)
    (job,) = workflows.plan(Request(problem=problem, candidate=b""))
    assert job.options.cases is by_cases


def test_a_worker_is_stuck_when_it_never_works_although_it_could() -> None:
    detector = IdleDetector(60)
    looks = [
        (0, 1, False),
        (50, 1, True),
        (55, 1, False),
        (100, 0, False),
        (110, 1, False),
        (169, 9, False),
    ]
    assert not any(detector.stuck(now, waiting=waiting, busy=busy) for now, waiting, busy in looks)
    assert detector.stuck(170, waiting=1, busy=False)


def test_urls_may_lie_in_files(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql+psycopg://u:p@h/d\n")
    assert (
        Settings.from_env({"ASSAY_DATABASE_URL_FILE": str(secret)}).database_url
        == "postgresql+psycopg://u:p@h/d"
    )
    with pytest.raises(
        ValueError, match=r"ASSAY_BROKER_URL_FILE: expected a file with a URL: .*No such file"
    ):
        Settings.from_env({"ASSAY_BROKER_URL_FILE": str(tmp_path / "absent")})
    with pytest.raises(ValueError, match="ASSAY_SLOTS_FILE: unknown setting"):
        Settings.from_env({"ASSAY_SLOTS_FILE": str(secret)})


def test_a_redis_that_hangs_is_an_error_for_a_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "SENDER_SILENCE_S", 0.1)
    messages = [broker.Message(queue="cpu")]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        app = broker.make_app(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        with pytest.raises(broker.BrokerUnavailableError):
            broker.publish(app, messages)
        app.close()


def test_a_worker_waits_longer_for_redis_than_a_sender() -> None:
    worker, sender = (
        broker.make_app("redis://127.0.0.1:1/0", queues=each) for each in (["gpu.node.0"], [])
    )
    waits = [app.conf.broker_transport_options["socket_timeout"] for app in (worker, sender)]
    assert waits == [broker.CONSUMER_SILENCE_S, broker.SENDER_SILENCE_S]


ENDS = {
    "worker": (
        """
from types import SimpleNamespace
from workers.worker.maintenance import Maintenance
maintenance = object.__new__(Maintenance)
maintenance._iterations = SimpleNamespace(request=lambda: None)
maintenance._kill_silent = lambda: None
maintenance._heartbeat = lambda: {}["unexpected"]
maintenance._run()
"""
    ),
    "generator": (
        """
from types import SimpleNamespace
from workers.generator.maintenance import Maintenance
Maintenance(SimpleNamespace(), "endpoint", None, None)._repeat(lambda: {}["unexpected"], 1.0)
"""
    ),
}


@pytest.mark.parametrize("program", ENDS.values(), ids=list(ENDS))
def test_a_worker_ends_with_an_error_of_its_maintenance_that_was_not_expected(program: str) -> None:
    """Its supervisor starts another, which signs its device on and sends lost messages."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == os.EX_TEMPFAIL, done.stderr
    assert "KeyError: 'unexpected'" in done.stderr
