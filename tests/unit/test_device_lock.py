import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from tests.processes import processor_s
from workers.referee.host.core_waker import FRESH_NS, CoreClaim, CoreWaker
from workers.referee.host.device_lock import DeviceLock
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.session.deadline import Deadline


def test_checkers_share_and_a_timer_is_alone(tmp_path: Path) -> None:
    inside: list[str] = []
    problems: list[str] = []
    watch = threading.Lock()

    def use(kind: str) -> None:
        device_lock = DeviceLock(tmp_path, "gpu-0")
        with device_lock.exclusive() if kind == "timer" else device_lock.shared():
            with watch:
                inside.append(kind)
                if "timer" in inside and len(inside) > 1:
                    problems.append(f"{inside}")
            time.sleep(0.02)
            with watch:
                inside.remove(kind)

    threads = [
        threading.Thread(target=use, args=("timer" if n % 3 == 0 else "checker",))
        for n in range(15)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in threads)
    assert not problems


def test_time_in_which_others_have_the_device_is_not_the_candidates(tmp_path: Path) -> None:
    device_lock, other = DeviceLock(tmp_path, "gpu-0"), DeviceLock(tmp_path, "gpu-0")
    deadline = Deadline(10.0, 10.0, uncharged=device_lock.uncharged)
    wall_s = time.monotonic() + 10.0
    taken = threading.Event()

    def occupy() -> None:
        with other.exclusive():
            taken.set()
            time.sleep(0.3)

    occupant = threading.Thread(target=occupy)
    occupant.start()
    taken.wait(10)
    with device_lock.shared():
        pass
    occupant.join()
    waited_s = device_lock.uncharged.waited_s()
    assert waited_s > 0.2
    assert deadline.left_s == pytest.approx(wall_s + waited_s - time.monotonic(), abs=0.05)
    assert Deadline(10.0, 10.0, uncharged=device_lock.uncharged).left_s == pytest.approx(
        10.0, abs=0.05
    )  # evaluations before it are not


def test_a_wait_is_known_while_it_lasts() -> None:
    uncharged, inside, over = UnchargedTime(), threading.Event(), threading.Event()

    def wait() -> None:
        with uncharged.waiting():
            inside.set()
            over.wait(10)

    waiter = threading.Thread(target=wait)
    waiter.start()
    inside.wait(10)
    assert waiter.ident is not None
    first = uncharged.waited_s(waiter.ident)
    time.sleep(0.01)
    assert uncharged.waited_s(waiter.ident) > first
    assert uncharged.waited_s() == 0.0
    over.set()
    waiter.join()
    assert uncharged.waited_s(waiter.ident) == uncharged.waited_s(waiter.ident) > 0.01


def test_a_wait_within_another_counts_once() -> None:
    uncharged = UnchargedTime()
    began = time.monotonic()
    with uncharged.waiting():
        with uncharged.waiting():
            time.sleep(0.02)
        time.sleep(0.01)
    assert uncharged.waited_s() <= time.monotonic() - began
    total = uncharged.waited_s()
    assert total >= 0.03
    assert uncharged.waited_s() == total  # it is over


def test_a_waiting_timer_is_not_starved_by_checkers(tmp_path: Path) -> None:
    first, late, timer = (DeviceLock(tmp_path, "gpu-0") for _ in range(3))
    order: list[str] = []

    def time_it() -> None:
        with timer.exclusive():
            order.append("timer")

    def check_late() -> None:
        with late.shared():
            order.append("late checker")

    with first.shared():
        threads = [threading.Thread(target=time_it)]
        threads[0].start()
        time.sleep(0.1)  # it stands in the turnstile now
        threads.append(threading.Thread(target=check_late))
        threads[1].start()
        time.sleep(0.1)
        assert order == []
    for thread in threads:
        thread.join(timeout=10)
    assert order == ["timer", "late checker"]


def test_a_long_check_steps_aside_for_a_timer_of_another_thread(tmp_path: Path) -> None:
    device_lock = DeviceLock(tmp_path, "gpu-0")
    order: list[str] = []

    def time_it() -> None:
        with device_lock.exclusive():
            order.append("timed")

    with device_lock.shared():
        assert not device_lock.obstructed
        device_lock.yield_to_timers()  # no timer waits
        timer = threading.Thread(target=time_it)
        timer.start()
        while not device_lock.obstructed:
            time.sleep(0.001)
        order.append("first half")
        device_lock.yield_to_timers()
        order.append("second half")
        assert not device_lock.obstructed
    timer.join(timeout=10)
    assert order == ["first half", "timed", "second half"]
    with device_lock.exclusive():
        device_lock.yield_to_timers()  # without effect: a timer lets no other go first


def test_a_favoured_timer_goes_before_others_that_wait(tmp_path: Path) -> None:
    device_lock, order = DeviceLock(tmp_path, "gpu-0"), list[str]()
    names = ("first", "second", "favoured")
    threads = [threading.Thread(target=_take, args=(device_lock, order, name)) for name in names]
    with device_lock.shared():
        for count, thread in enumerate(threads, start=1):
            thread.start()
            _until(partial(_has_waiting_timers, device_lock, count))
    for thread in threads:
        thread.join(timeout=10)
    assert order[0] == "favoured"
    assert sorted(order[1:]) == ["first", "second"]


def test_a_favoured_check_yields_to_favoured_timers_only(tmp_path: Path) -> None:
    device_lock, order = DeviceLock(tmp_path, "gpu-0"), list[str]()
    other, favoured = (
        threading.Thread(target=_take, args=(device_lock, order, name))
        for name in ("other", "favoured")
    )
    with device_lock.favoured():
        with device_lock.shared():
            other.start()
            _until(lambda: bool(device_lock._waiting_timers))
            assert not device_lock.obstructed
        with device_lock.shared():
            order.append("check")
            favoured.start()
            _until(lambda: len(device_lock._waiting_timers) + len(order) >= 3)
            assert device_lock.obstructed
            device_lock.yield_to_timers()
            assert "favoured" in order
    for thread in (other, favoured):
        thread.join(timeout=10)
    assert sorted(order) == ["check", "favoured", "other"]


def _take(device_lock: DeviceLock, order: list[str], name: str) -> None:
    favour = device_lock.favoured() if name == "favoured" else nullcontext()
    with favour, device_lock.exclusive():
        order.append(name)


def _has_waiting_timers(device_lock: DeviceLock, count: int) -> bool:
    return len(device_lock._waiting_timers) == count


def _until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_lease_ends_with_its_holder(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from workers.referee.host.device_lock import"
        " DeviceLock\nwith DeviceLock(Path(sys.argv[1]), 'gpu-0').exclusive(): print('held',"
        " flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
        holder.wait()
    with DeviceLock(tmp_path, "gpu-0").shared():
        pass


def test_cores_are_claimed_once_as_long_as_there_are_any(tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0)
    claims = [CoreClaim(tmp_path) for _ in range(len(cores))]
    assert {claim.core for claim in claims} == cores
    one_more = CoreClaim(tmp_path)
    assert one_more.core in cores
    for claim in [*claims, one_more]:
        claim.close()
    assert CoreClaim(tmp_path).core == max(cores)


def test_a_core_is_kept_awake_on_demand_only() -> None:
    core_waker = CoreWaker([min(os.sched_getaffinity(0))])
    pid = core_waker._process.pid
    before = processor_s(pid)
    time.sleep(0.2)
    assert processor_s(pid) == pytest.approx(before, abs=0.02)
    deadline = time.monotonic() + 20
    with core_waker.awake():
        while (
            processor_s(pid) < before + 0.05 and time.monotonic() < deadline
        ):  # it gives way to whatever else runs
            time.sleep(0.05)
    assert processor_s(pid) >= before + 0.05
    core_waker.close()
    assert not Path(f"/proc/{pid}").exists()


def test_a_core_that_is_awake_tells_how_fast_it_is() -> None:
    core = min(os.sched_getaffinity(0))
    core_waker = CoreWaker([core])
    try:
        time.sleep(2 * FRESH_NS / 1e9)
        assert core_waker.loop_ns() == {}  # it is stopped
        deadline = time.monotonic() + 20
        with core_waker.awake():
            while not (found := core_waker.loop_ns()) and time.monotonic() < deadline:
                time.sleep(0.0003)
        assert set(found) == {core}
        assert 500 < found[core] < 1_000_000_000
        time.sleep(2 * FRESH_NS / 1e9)
        assert core_waker.loop_ns() == {}  # its times from before it was stopped are old
    finally:
        core_waker.close()
