"""Users, control groups and self-tests of the sandbox, as far as they need no sandbox."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workers.sandbox import (
    cgroup,
    escape_attempts,
    landlock,
    layers,
    selftest,
    zygote_client,
)


def test_landlock_says_what_an_older_kernel_lacks() -> None:
    assert landlock.describe(7) == ("Landlock ABI 7: files, TCP, signals and abstract sockets", [])
    name, lacking = landlock.describe(3)
    assert name == "Landlock ABI 3: files"
    assert lacking == [
        "Landlock for TCP (ABI 3, needs 4)",
        "Landlock for signals and abstract sockets (ABI 3, needs 6)",
    ]


WHOLE = "         0          0 4294967295\n"


ROOTLESS = "         0       1000          1\n         1     100000      65536\n"


SINGLE = "         0       1000          1\n"


def test_no_two_referees_share_a_uid() -> None:
    blocks = [zygote_client.candidate_uids(pid, WHOLE) for pid in (1, 2, 4_194_304)]
    assert not set(blocks[0]) & set(blocks[1])
    assert blocks[0].start > 65535
    assert blocks[-1].stop < 2**32 - 2


def test_no_two_zygotes_of_a_process_share_a_uid() -> None:
    """Two that tried the sandbox at once did, and the one that starts all it may
    left the other unable to fork.
    """
    with ThreadPoolExecutor(4) as pool:
        uids = list(pool.map(lambda _: zygote_client.next_uid(), range(400)))
    assert len(set(uids)) == len(uids)


def test_where_uids_are_few_they_are_taken_from_the_middle() -> None:
    uids = zygote_client.candidate_uids(4711, ROOTLESS)
    assert uids.start > 1000
    assert uids.stop < 65534
    assert list(zygote_client.candidate_uids(4711, SINGLE)) == [0]


@pytest.fixture
def delegated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a control group, with the files that the kernel would
    make in new ones.
    """

    ordinary = os.mkdir

    def mkdir(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        ordinary(name, mode, dir_fd=dir_fd)
        made = tmp_path / name
        for file in (
            "memory.max",
            "memory.oom.group",
            "memory.events",
            "pids.max",
            "cgroup.procs",
            "cgroup.kill",
        ):
            (made / file).touch()

    monkeypatch.setattr(os, "mkdir", mkdir)
    return tmp_path


def test_a_control_group_limits_the_tree_and_says_what_was_killed(delegated: Path) -> None:
    parent = os.open(delegated, os.O_RDONLY)
    group = cgroup.Group(parent, memory_bytes=1 << 30, processes=128)
    group.enter()
    group.kill()
    folder = delegated / f"candidate-{os.getpid()}"
    said = {path.name: path.read_text() for path in folder.iterdir() if path.read_text()}
    assert said == {
        "memory.max": "1073741824",
        "memory.oom.group": "1",
        "pids.max": "128",
        "cgroup.procs": "0",
        "cgroup.kill": "1",
    }
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    assert group.out_of_memory()
    (folder / "memory.events").write_text("low 0\noom 0\noom_kill 0\n")
    assert not group.out_of_memory()
    os.close(parent)


def test_its_own_group_is_found_below_the_mount(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(
        "35 31 0:32 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
    )
    (tmp_path / "cgroup").write_text("4:memory:/x\n0::/docker/1/worker\n")
    assert cgroup.own_folder(tmp_path) == Path("/sys/fs/cgroup/worker")
    (tmp_path / "mountinfo").write_text(
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    )
    with pytest.raises(OSError, match="no control groups of version 2"):
        cgroup.own_folder(tmp_path)


def test_a_report_names_what_succeeded_and_insists() -> None:
    succeeded = [
        selftest.Act(name=name, succeeded=name == "mount", outcome="")
        for name in escape_attempts.ACTS
    ]
    report = selftest.Report(acts=tuple(succeeded), active=(), missing=("mount namespace (no)",))
    assert report.marks == ("act:mount",)
    report.require(allow_weak=True)
    with pytest.raises(
        layers.WeakSandboxError, match=r"could mount\. Layers missing here: mount namespace"
    ):
        report.require(allow_weak=False)


OUTCOMES = [
    (0, True, True),
    (0, False, False),
    (errno.EPERM, True, False),
    (escape_attempts.UNSEEN, True, False),
    (escape_attempts.UNFINISHED, False, True),
    (-31, True, False),
    (-9, True, False),
    (-11, True, True),
]


@pytest.mark.parametrize(("code", "seen", "succeeded"), OUTCOMES)
def test_an_act_passes_only_where_it_was_refused(code: int, seen: bool, succeeded: bool) -> None:
    assert selftest._act("mount", code, seen).succeeded is succeeded
