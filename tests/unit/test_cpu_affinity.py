from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from workers.referee.host import cpu_affinity


@pytest.fixture
def processors(monkeypatch):
    """A host with so many cores, each of two processors: n and n + cores."""

    def make(count):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(2 * count)))
        monkeypatch.setattr(
            cpu_affinity, "_siblings", lambda cpu: frozenset({cpu % count, cpu % count + count})
        )

    return make


def test_one_gpu_has_the_last_cores_and_leaves_their_second_threads_idle(processors):
    processors(16)
    found = cpu_affinity.partition()
    assert found.stopwatch == {15}
    assert found.timed == {10, 11, 12, 13}
    assert found.others == {*range(10), *range(16, 26)}


@pytest.mark.parametrize(("count", "gpus"), [(16, 2), (32, 4), (64, 8)])
def test_gpus_of_one_host_share_no_quiet_core(processors, count, gpus):
    processors(count)
    found = [cpu_affinity.partition(index, gpus) for index in range(gpus)]
    quiet = [each.stopwatch | each.timed for each in found]
    assert all(len(each.timed) == cpu_affinity.TIMED and len(each.stopwatch) == 1 for each in found)
    assert len(frozenset().union(*quiet)) == sum(map(len, quiet))
    assert all(one.others == other.others for one, other in pairwise(found))
    assert not found[0].others & frozenset().union(*quiet)
    assert len(found[0].others) >= 2 * cpu_affinity.LEFT


def test_where_cores_are_few_all_do_everything(processors):
    processors(cpu_affinity.SET + cpu_affinity.LEFT - 1)
    found = cpu_affinity.partition()
    assert (
        found.stopwatch
        == found.timed
        == found.others
        == set(range(2 * (cpu_affinity.SET + cpu_affinity.LEFT - 1)))
    )


def test_a_gpu_beyond_those_that_can_be_seen_has_cores_of_its_own(processors):
    processors(32)
    assert not set(cpu_affinity.partition(2, 1).awake) & set(cpu_affinity.partition(0, 3).awake)


def test_where_cores_do_not_suffice_for_every_gpu_some_share(processors):
    processors(2 * cpu_affinity.SET + cpu_affinity.LEFT)
    first, second, third = (cpu_affinity.partition(index, 3) for index in range(3))
    assert first == third
    assert not set(first.awake) & set(second.awake)


def test_gpus_are_counted_by_their_nodes(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_affinity, "_NODES", tmp_path)
    assert cpu_affinity.gpus() == 1
    for name in ("nvidia0", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia-caps"):
        (tmp_path / name).touch()
    assert cpu_affinity.gpus() == 2


def test_timed_processes_are_on_quiet_cores_and_ended_ones_are_skipped():
    usable = frozenset(os.sched_getaffinity(0))
    parts = cpu_affinity.Cores(stopwatch=usable, timed=frozenset({min(usable)}), others=usable)
    with subprocess.Popen(["/bin/true"]) as gone:
        pass
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        try:
            with parts.quiet([process.pid, gone.pid]):
                assert os.sched_getaffinity(process.pid) == {min(usable)}
            assert os.sched_getaffinity(process.pid) == usable
        finally:
            process.kill()


TWO_THREADS = (
    "import threading, time; threading.Thread(target=time.sleep, args=[60]).start(); print(1,"
    " flush=True)"
)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_launching_threads_share_one_of_the_quiet_cores():
    usable = frozenset(os.sched_getaffinity(0))
    parts = cpu_affinity.Cores(stopwatch=usable, timed=usable, others=usable - {min(usable)})
    with subprocess.Popen([sys.executable, "-c", TWO_THREADS], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"1\n"
            with parts.quiet([process.pid]):
                parts.launch_from(min(usable), [process.pid])
                first, second = sorted(
                    int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()
                )
                assert os.sched_getaffinity(first) == {min(usable)}
                assert os.sched_getaffinity(second) == usable
            assert (
                os.sched_getaffinity(first)
                == os.sched_getaffinity(second)
                == usable - {min(usable)}
            )
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("listed", "expected"), [("3", {3}), ("3,11", {3, 11}), ("2-3,8", {2, 3, 8})]
)
def test_the_kernel_says_which_processors_are_one_core(tmp_path, monkeypatch, listed, expected):
    monkeypatch.setattr(cpu_affinity, "_TOPOLOGY", tmp_path)
    folder = tmp_path / "cpu3" / "topology"
    folder.mkdir(parents=True)
    (folder / "thread_siblings_list").write_text(f"{listed}\n")
    assert cpu_affinity._siblings(3) == expected
    assert cpu_affinity._siblings(4) == {4}  # where it says nothing: alone
