"""Work that runs apart from the device's lock: no timer waits for it, and some timers pause it."""

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from workers.referee.host import device_lock as device_lock_module
from workers.referee.host.device_lock import DeviceLock


@pytest.fixture
def nothing_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_lock_module, "COMPILING_S", 0.0)


class Process:
    """A process that notes its pauses."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.paused_s = 0.0

    def pause(self) -> None:
        self.said.append("pause")

    def resume(self) -> None:
        self.said.append("resume")
        self.paused_s += 1.5


def _beside(
    lock: DeviceLock, process: Process, going: threading.Event, over: threading.Event
) -> threading.Thread:
    """A thread that waits for a process apart, until it is over."""

    def wait_for_it() -> None:
        with lock.apart(process):
            going.set()
            over.wait(10)

    thread = threading.Thread(target=wait_for_it)
    thread.start()
    return thread


def _all_beside(
    lock: DeviceLock, processes: Sequence[Process], over: threading.Event
) -> list[threading.Thread]:
    """A thread for each process, after all of them have begun to run apart."""
    threads = []
    for process in processes:
        going = threading.Event()
        threads.append(_beside(lock, process, going, over))
        assert going.wait(10)
    return threads


@pytest.mark.usefixtures("nothing_compiles")
def test_a_timer_pauses_what_runs_apart_and_nothing_that_it_uses(tmp_path: Path) -> None:
    device_lock, over = DeviceLock(tmp_path, "gpu-0"), threading.Event()
    other, own = Process(), Process()
    threads = _all_beside(device_lock, (other, own), over)
    with device_lock.exclusive(own):
        assert (other.said, own.said) == (["pause"], [])
        assert device_lock.has_paused
    assert (other.said, own.said) == (["pause", "resume"], [])
    assert not device_lock.has_paused
    over.set()
    for thread in threads:
        thread.join(timeout=10)
    with device_lock.exclusive():
        assert other.said == ["pause", "resume"]  # it has come back


@pytest.mark.usefixtures("nothing_compiles")
def test_a_thread_whose_process_runs_apart_may_have_the_device_and_pauses_it(
    tmp_path: Path,
) -> None:
    lock, over, going = DeviceLock(tmp_path, "gpu-0"), threading.Event(), threading.Event()
    own, other = Process(), Process()
    with lock.apart(own):
        thread = _beside(lock, other, going, over)
        assert going.wait(10)
        with lock.exclusive():
            assert (own.said, other.said) == (["pause"], ["pause"])
        assert (own.said, other.said) == (["pause", "resume"], ["pause", "resume"])
        over.set()
        thread.join(timeout=10)


@pytest.mark.usefixtures("nothing_compiles")
def test_pauses_are_told_while_the_call_goes_on_and_count_once(tmp_path: Path) -> None:
    """The worker gives an evaluation up that exceeds its deadline by more than it is told, and a
    compiler that timers pause for half of the time takes twice as long.
    """
    device_lock, over, going, process = (
        DeviceLock(tmp_path, "gpu-0"),
        threading.Event(),
        threading.Event(),
        Process(),
    )
    thread = _beside(device_lock, process, going, over)
    assert going.wait(10)
    assert thread.ident is not None
    for pauses in (1, 2):
        with device_lock.exclusive():
            pass
        assert device_lock.waited_s(thread.ident) == pytest.approx(1.5 * pauses, abs=0.1)
    assert device_lock.uncharged.waited_s(thread.ident) == 0.0
    over.set()
    thread.join(timeout=10)
    assert device_lock.waited_s(thread.ident) == pytest.approx(3.0, abs=0.1)


@pytest.mark.usefixtures("nothing_compiles")
def test_work_that_begins_later_is_not_waited_for(tmp_path: Path) -> None:
    lock, first_over, later_over = (
        DeviceLock(tmp_path, "gpu-0"),
        threading.Event(),
        threading.Event(),
    )
    threads = [_beside(lock, Process(), going := threading.Event(), first_over)]
    assert going.wait(10)
    lock.wait_for_apart(0.01)  # it goes on
    waiter = threading.Thread(target=lock.wait_for_apart, args=(60.0,))
    waiter.start()
    time.sleep(0.05)
    threads.append(_beside(lock, Process(), going := threading.Event(), later_over))
    assert going.wait(10)
    assert waiter.is_alive()
    first_over.set()
    waiter.join(timeout=10)
    assert not waiter.is_alive()
    later_over.set()
    for thread in threads:
        thread.join(timeout=10)


@pytest.mark.usefixtures("nothing_compiles")
def test_a_timer_that_fails_leaves_no_process_paused(tmp_path: Path) -> None:
    device_lock, over, going, process = (
        DeviceLock(tmp_path, "gpu-0"),
        threading.Event(),
        threading.Event(),
        Process(),
    )
    thread = _beside(device_lock, process, going, over)
    assert going.wait(10)
    with pytest.raises(ValueError, match="broken"), device_lock.exclusive():
        raise ValueError("broken")
    assert process.said == ["pause", "resume"]
    over.set()
    thread.join(timeout=10)


@pytest.mark.usefixtures("nothing_compiles")
def test_a_pause_is_a_wait_and_over_before_its_thread_goes_on(tmp_path: Path) -> None:
    device_lock, process = DeviceLock(tmp_path, "gpu-0"), Process()
    going, over, seen = threading.Event(), threading.Event(), list[float | list[str]]()

    def wait_for_it() -> None:
        with device_lock.apart(process):
            going.set()
            over.wait(10)
        seen.extend([list(process.said), device_lock.uncharged.waited_s()])

    thread = threading.Thread(target=wait_for_it)
    thread.start()
    assert going.wait(10)
    with device_lock.exclusive():
        over.set()
        thread.join(timeout=0.2)
        assert seen == []
    thread.join(timeout=10)
    said, waited_s = seen
    assert said == ["pause", "resume"]
    assert isinstance(waited_s, float)
    assert waited_s >= 1.5


def test_a_first_call_that_may_be_compiling_is_not_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_lock_module, "COMPILING_S", 60.0)
    lock, going, over, process = (
        DeviceLock(tmp_path, "gpu-0"),
        threading.Event(),
        threading.Event(),
        Process(),
    )
    thread = _beside(lock, process, going, over)
    assert going.wait(10)
    with lock.exclusive():
        assert not lock.has_paused
    over.set()
    thread.join(timeout=10)


def test_a_problems_code_that_is_slow_already_is_paused(tmp_path: Path) -> None:
    lock, process = DeviceLock(tmp_path, "gpu-0"), Process()

    def time_it() -> None:
        with lock.exclusive():
            assert process.said == ["pause"]

    with lock.shared_at_first() as go_apart:
        go_apart(process)
        timer = threading.Thread(target=time_it)
        timer.start()
        timer.join(timeout=10)
        assert process.said == ["pause", "resume"]


def test_a_timer_pauses_what_seemed_to_compile_where_the_device_stays_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_lock_module, "COMPILING_S", 60.0)
    lock, over = DeviceLock(tmp_path, "gpu-0"), threading.Event()
    other, own = Process(), Process()
    threads = _all_beside(lock, (other, own), over)
    with lock.exclusive(own):
        assert lock.pause_all(own)
        assert not lock.pause_all(own)  # it stands still already
        assert (other.said, own.said) == (["pause"], [])
    assert (other.said, own.said) == (["pause", "resume"], [])
    over.set()
    for thread in threads:
        thread.join(timeout=10)


def test_work_that_runs_apart_keeps_no_timer_waiting(tmp_path: Path) -> None:
    device_lock, began = DeviceLock(tmp_path, "gpu-0"), threading.Event()
    order: list[str] = []

    def time_it() -> None:
        began.set()
        with device_lock.exclusive():
            order.append("timed")

    timer = threading.Thread(target=time_it)
    with device_lock.shared_at_first() as go_apart:
        timer.start()
        assert began.wait(10)
        assert order == []
        go_apart(None)
        go_apart(None)
        timer.join(timeout=10)
        assert order == ["timed"]
        assert len(device_lock._apart) == 1
    assert not device_lock._apart
    with device_lock.shared_at_first(), device_lock.apart(Process()):
        assert len(device_lock._apart) == 1
    with device_lock.exclusive():
        pass


def test_a_load_is_paused_only_if_the_device_does_not_come_to_rest(
    tmp_path: Path, nothing_compiles: None
) -> None:
    """Its compiler works on the host; a source that computes as it is executed does not stay so."""
    lock, process, calls = DeviceLock(tmp_path, "test"), Process(), Process()
    going, over = threading.Event(), threading.Event()
    first_call = _all_beside(lock, [calls], over)

    def load() -> None:
        with lock.apart(process, paused_after_s=math.inf):
            going.set()
            over.wait(10)

    thread = threading.Thread(target=load)
    thread.start()
    assert going.wait(10)
    with lock.exclusive():
        assert (calls.said, process.said) == (["pause"], [])
        assert lock.pause_all()
        assert process.said == ["pause"]
        assert not lock.pause_all()
    assert process.said == ["pause", "resume"]
    over.set()
    for each in (thread, *first_call):
        each.join()
    assert lock.uncharged.waited_s(thread.ident) >= 1.5, "the pause is no time of the candidate's"
