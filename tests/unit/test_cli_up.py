"""`assay up` and the processes that it keeps: devices, addresses, restarts and their pauses."""

from __future__ import annotations

import itertools
import socket
import subprocess
from pathlib import Path

import pytest

from app.cli import child_processes, errors, supervisor, up
from app.settings import Settings


def nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_devices_are_those_that_are_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi(
        tmp_path, monkeypatch, "echo '0, GPU-aa, NVIDIA H200'; echo '1, GPU-bb, NVIDIA H200'"
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [(found.device_class, found.index, found.slots) for found in up.devices(Settings())] == [
        ("h200", 0, None),
        ("h200", 1, None),
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [(found.index, found.slots) for found in up.devices(Settings(slots=1))] == [(1, 1)]
    assert [found.slots for found in up.devices(Settings(slots=3))] == [3]


def test_a_driver_that_does_not_answer_is_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi(tmp_path, monkeypatch, "echo 'Failed to initialize NVML'; exit 9")
    assert up.devices(Settings()) == []


def test_an_address_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(
            errors.InfrastructureError, match=rf"127\.0\.0\.1:{port}: expected a free port"
        ):
            child_processes.Web(Settings(), host="127.0.0.1", port=port)


class Brief(child_processes.Child):
    """A child that ends at once."""

    log = Path("/var/log/brief.log")

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["false"])


def test_a_child_that_ends_is_started_again_until_it_has_ended_too_often(
    capsys: pytest.CaptureFixture[str],
) -> None:
    child = Brief("brief", Settings())
    for _ in range(child_processes.RESTARTS):
        child.process.wait()
        child.watch()
    child.process.wait()
    said = capsys.readouterr().err.splitlines()
    assert (
        said[0]
        == "brief ended with exit code 1; starting it again (1 of 5; its log is /var/log/brief.log)"
    )
    assert len(said) == child_processes.RESTARTS
    with pytest.raises(errors.InfrastructureError, match="for the 6th time; its log is "):
        child.watch()


def test_what_up_keeps_is_started_again_for_ever_with_growing_pauses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    starts: list[float] = []
    now_s, alive = 0.0, False
    kept = supervisor.Kept(
        name="brief",
        log=Path("/log"),
        ended=lambda: None if alive else "ended",
        start=lambda: starts.append(now_s),
    )
    while now_s < 1000:
        kept.keep(now_s)
        now_s += 1.0
    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert pauses[:7] == [
        3,
        5,
        9,
        17,
        33,
        61,
        61,
    ]  # each pause, and the second until it is looked at again
    assert set(pauses[5:]) == {61}
    assert capsys.readouterr().err.startswith(
        "brief ended; starting it again in 1 s (its log is /log)\n"
    )

    now_s += supervisor.LONGEST_PAUSE_S
    kept.keep(now_s)
    alive, now_s = True, now_s + supervisor.QUIET_S
    kept.keep(now_s)
    alive = False
    kept.keep(now_s)
    assert capsys.readouterr().err.endswith(
        "starting it again in 1 s (its log is /log)\n"
    )  # after quiet minutes


def test_a_start_that_fails_is_tried_again_and_ends_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def start() -> None:
        raise OSError("no memory")

    kept = supervisor.Kept(
        name="web", log=Path("/log"), ended=lambda: "ended with signal 9", start=start
    )
    for now_s in range(10):
        kept.keep(float(now_s))
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in said] == ["web ended with signal 9"] + [
        "web could not be started: no memory"
    ] * 3


def test_a_child_says_how_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_text("first\nthe sandbox of this host is not enough\n")
    child = Brief("brief", Settings())
    monkeypatch.setattr(Brief, "log", log)
    child.process.wait()
    assert child.how_it_ended() == "ended with exit code 1"
    child.process.returncode = errors.INFRASTRUCTURE
    assert child.how_it_ended() == "does not serve: the sandbox of this host is not enough"
    child.start_again()
    child.process.wait()


class Hurried:
    """A child that is still running when Ctrl-C comes a second time."""

    def __init__(self) -> None:
        self.process = self
        self.said: list[str] = []

    def terminate(self) -> None:
        self.said.append("terminate")

    def wait(self, timeout_s: float | None = None) -> None:
        if timeout_s is not None:
            raise KeyboardInterrupt
        self.said.append("wait")

    def poll(self) -> int | None:
        return 0 if "kill" in self.said else None

    def kill(self) -> None:
        self.said.append("kill")

    def stopped(self) -> None:
        self.said.append("stopped")


def test_a_second_ctrl_c_leaves_no_child_behind() -> None:
    """A worker left behind would run on without its servers."""
    children = [Hurried(), Hurried()]
    with pytest.raises(KeyboardInterrupt):
        child_processes.stop(children)  # type: ignore[arg-type]
    assert [child.said for child in children] == [["terminate", "kill", "wait", "stopped"]] * 2
