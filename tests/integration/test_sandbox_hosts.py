"""The sandbox here and on hosts that allow less: actions it stops, its reports, and
when a worker does not serve.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from workers.sandbox import escape_attempts, selftest

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="other hosts are imitated by giving up what root may do"
)

LAYERS = {
    "here": {
        "own uid",
        "process namespace",
        "private root",
        "network namespace",
        "own mounts",
        "own /proc",
    },
    "docker": {"own uid"},
    "nobody": {
        "user namespace",
        "process namespace",
        "private root",
        "own mounts",
        "no capabilities",
    },
    "rootless": set(),
}
"""In force beside those that need nothing."""
EVERYWHERE = {"no new privileges", "resource limits", "system-call filter"}


def on(
    host: str, *command: str, timeout_s: float = 240.0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of this Python's on that host, with these variables beside the usual ones."""
    imitated = [] if host == "here" else [sys.executable, "-m", "tests.hosts", host]
    usual = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path.cwd()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment = usual | variables
    return subprocess.run(
        [*imitated, sys.executable, *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def tried(host: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of the self-test there."""
    done = on(host, "-m", "workers.sandbox.selftest", "--json")
    return done.returncode, json.loads(done.stdout or f'{{"failed": {json.dumps(done.stderr)}}}')


@pytest.mark.parametrize("host", LAYERS)
def test_nothing_forbidden_succeeds(host: str) -> None:
    code, report = tried(host)
    assert [act["name"] for act in report["acts"]] == list(escape_attempts.ACTS)
    assert [act for act in report["acts"] if act["succeeded"]] == []
    assert code == 0
    assert set(report["active"]) >= LAYERS[host] | EVERYWHERE
    assert not set(report["active"]) & set(report["missing"])


def test_a_default_container_is_told_what_it_lacks() -> None:
    _, report = tried("docker")
    missing = {layer.partition(" (")[0] for layer in report["missing"]}
    assert missing >= {
        "mount namespace",
        "network namespace",
        "process namespace",
        "bounded scratch folder",
    }


NEED_LANDLOCK = {
    "read a file of the worker's",
    "read the worker's command line",
    "write outside the scratch folder",
    "write to shared memory of the host's",
}


def test_a_container_on_a_kernel_without_landlock_does_not_serve() -> None:
    code, report = tried("old")
    assert {act["name"] for act in report["acts"] if act["succeeded"]} == NEED_LANDLOCK
    assert code == 1


REFUSAL = """
from tests.integration.isolated import HONEST, job
from workers.worker import referee_client
import json
try:
    referee_client.require_sandbox(allow_weak=False)
except referee_client.InfrastructureError as error:
    said = str(error)
with referee_client.RefereeClient("cpu", allow_weak_sandbox=True) as weak:
    evaluation = weak.run(job(HONEST)).evaluation
print(json.dumps([said, evaluation.status, evaluation.environment.sandbox_missing]))
"""


def test_an_accepted_weak_sandbox_is_recorded_in_every_evaluation() -> None:
    done = on("old", "-c", REFUSAL)
    assert done.returncode == 0, done.stderr
    said, status, missing = json.loads(done.stdout)
    assert "could read a file of the worker's" in said
    assert "--allow-weak-sandbox" in said
    assert status == "passed"
    assert {f"act:{name}" for name in NEED_LANDLOCK} <= set(missing)


ISOLATION = {
    "docker": "hidden or successor or signal or descriptors",
    "rootless": "hidden",
    "nobody": "successor",
}
"""Tests of candidates, by host: actions that the layers missing there would have prevented."""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder as /tmp is, where no other process leaves anything."""
    folder = Path(tempfile.mkdtemp(prefix="assay-test-", dir="/var/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("host", ISOLATION)
def test_candidates_are_kept_apart_on_other_hosts(host: str, temporary: Path) -> None:
    done = on(
        host,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/integration/test_isolation_attacks.py",
        "-k",
        ISOLATION[host],
        TMPDIR=str(temporary),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: not list(temporary.glob("assay-scratch-*")))


HARMLESS = [
    name
    for name in escape_attempts.ACTS
    if name not in ("mount", "start more processes than allowed")
]
"""The folder belongs to the user of these tests; no limit was set on memory either."""


@pytest.fixture(scope="module")
def outer() -> Iterator[tuple[selftest._Outer, escape_attempts.Targets]]:
    neighbours = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    with selftest._Outer() as opened:
        yield opened, opened.targets([each.pid for each in neighbours])
    for each in neighbours:
        each.kill()
        each.wait()


@pytest.mark.parametrize("name", HARMLESS)
def test_every_act_succeeds_where_nothing_forbids_it(
    outer: tuple[selftest._Outer, escape_attempts.Targets], name: str
) -> None:
    opened, targets = outer
    assert escape_attempts._attempt(escape_attempts.ACTS[name], targets) == 0
    until(lambda: opened.saw(name, targets))  # a killed process takes a moment to die
