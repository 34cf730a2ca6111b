"""Commands that start the servers themselves: `assay up` and `assay demo`, from
nothing to nothing left running.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from uuid import UUID

import pytest

from app.cli import demo, errors, supervisor
from app.client import Client
from app.embedded import Services, process_lookup
from app.settings import Settings
from app.store.browse import paging, runs, trajectory
from app.store.collection import endpoints
from tests.conftest import fast_folder
from tests.integration.cli import ASSAY, assay, environment
from tests.ports import free_port
from tests.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow


@pytest.fixture
def own_state() -> Iterator[Settings]:
    """A state folder with nothing in it: for verbs that start the servers themselves."""
    folder = fast_folder("assay-cli-")
    yield Settings(state_dir=folder)
    shutil.rmtree(folder)


def served_from(folder: Path) -> bool:
    """Whether a server still works in the state folder."""
    data = folder / "postgres" / "data"
    return process_lookup.alive_in(data, data / "postmaster.pid") is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_starts_everything_and_stops_everything(
    own_state: Settings, number: signal.Signals
) -> None:
    port = free_port()
    command = [ASSAY, "up", "--port", str(port), "--cpu"]
    up = Popen(
        command,
        env=environment(own_state),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until(lambda: _answers(f"http://127.0.0.1:{port}/healthz") or up.poll() is not None)

        def online() -> bool:
            listed = assay(own_state, "workers", "--json")
            return any(device["state"] == "online" for device in json.loads(listed.stdout))

        until(online)
    finally:
        up.send_signal(number)
        said, _ = up.communicate(timeout=LIMIT_S)
    assert up.returncode == 0, said
    assert f"http://127.0.0.1:{port}" in said
    assert not served_from(own_state.state_dir)
    assert not _answers(f"http://127.0.0.1:{port}/healthz")


@pytest.mark.parametrize("verb", [["up", "--cpu"], ["demo", "--serve"]], ids=["up", "demo"])
def test_a_state_folder_has_one_web_and_one_worker_for_a_device(
    own_state: Settings, verb: list[str]
) -> None:
    with supervisor.alone(own_state.state_dir):
        second = [ASSAY, *verb, "--port", str(free_port())]
        refused = subprocess.run(
            second,
            env=environment(own_state),
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    assert refused.returncode == errors.INFRASTRUCTURE, refused.stdout
    assert f"process {os.getpid()}" in refused.stderr
    assert sorted(path.name for path in own_state.state_dir.iterdir()) == [supervisor.LOCK_FILE], (
        "nothing has started"
    )


def test_the_demo_tells_of_a_taken_port_before_it_evaluates(own_state: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = subprocess.run(
            [ASSAY, "demo", "--serve", "--port", str(port)],
            env=environment(own_state),
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    assert refused.returncode == errors.INFRASTRUCTURE
    assert str(port) in refused.stderr
    assert "evaluating" not in refused.stdout


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


SAMPLE = (
    "honest/leaky_integrator_torch",
    "wrong/off_by_one_mask",
    "broken/segfault",
    "hacks/lazy_answer",
)
"""One of each group, on the problems of the demo's collection.  Whether each of its samples comes
out as its first line says is what the zoo's own tests ask, with more patience.
"""

SCRIPT = f"""
from app.cli import demo, main
demo.SAMPLE = {SAMPLE}
main()
"""


@pytest.mark.timeout(660)
def test_the_demo_goes_from_kernels_to_a_verified_dataset(
    own_state: Settings, tmp_path: Path
) -> None:
    assert set(SAMPLE) <= set(demo.SAMPLE)
    folder = tmp_path / "sft"
    command = [sys.executable, "-c", SCRIPT, "demo", "--out", str(folder)]
    came = subprocess.run(
        command,
        env=environment(own_state),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert came.returncode in (0, 1), came.stderr
    lines = [line for line in came.stdout.splitlines() if line[:1] in ("✓", "✗")]
    assert sorted(line.split()[2] for line in lines) == sorted(SAMPLE)
    assert "verified" in came.stdout
    assert json.loads((folder / "manifest.json").read_text())["where"] == demo.WHERE
    trajectory_id = came.stdout.partition("trajectory /trajectories/")[2].partition(":")[0]
    assert not served_from(own_state.state_dir)
    with Services(own_state) as services, Client(services.settings) as client:
        require_its_run_of_two_steps(client, trajectory_id)
        with client.database.read() as connection:
            assert endpoints.listed(connection) == [], "the model's server has ended"


def require_its_run_of_two_steps(client: Client, trajectory_id: str) -> None:
    """The trajectory of the demo: wrong, then a hack, then honest and faster."""
    with client.database.read() as connection:
        found = trajectory.read(connection, UUID(trajectory_id))
        listed = runs.page(connection, paging.Window()).rows
        said = trajectory.conversation(connection, UUID(trajectory_id))
    assert found is not None
    outcomes = [(turn.status, turn.verdict, (turn.credited or 0) > 1) for turn in found.turns]
    assert outcomes == [
        ("incorrect", "clean", False),
        ("passed", "hack", False),
        ("passed", "clean", True),
    ]
    steps = [(run.name, run.step) for run in listed if run.name.startswith("demo/")]
    assert steps == [("demo/step-10", 10), ("demo/step-0", 0)]
    assert said[1].messages[0].content.startswith("Status: incorrect.")
    assert "decoy_kernel" in said[2].messages[0].content
