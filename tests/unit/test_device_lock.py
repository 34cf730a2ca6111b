import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from workers.referee.host import device_lock as device_lock_module
from workers.referee.host.cpu_idle import CoreClaim, CoreWaker
from workers.referee.host.device_lock import DeviceLock
from workers.referee.host.waiting_time import Waits
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

    threads = [threading.Thread(target=use, args=("timer" if n % 3 == 0 else "checker",)) for n in range(15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in threads)
    assert not problems


def test_time_in_which_others_have_the_device_is_not_the_candidates(tmp_path: Path) -> None:
    device_lock, other = DeviceLock(tmp_path, "gpu-0"), DeviceLock(tmp_path, "gpu-0")
    deadline = Deadline(10.0, 10.0, waits=device_lock.waits)
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
    waited_s = device_lock.waits.seconds()
    assert waited_s > 0.2
    assert deadline.left_s == pytest.approx(wall_s + waited_s - time.monotonic(), abs=0.05)
    assert Deadline(10.0, 10.0, waits=device_lock.waits).left_s == pytest.approx(
        10.0, abs=0.05
    )  # what was before is not


def test_a_wait_is_known_while_it_lasts() -> None:
    waits, inside, over = Waits(), threading.Event(), threading.Event()

    def wait() -> None:
        with waits.waiting():
            inside.set()
            over.wait(10)

    waiter = threading.Thread(target=wait)
    waiter.start()
    inside.wait(10)
    assert waiter.ident is not None
    first = waits.seconds(waiter.ident)
    time.sleep(0.01)
    assert waits.seconds(waiter.ident) > first
    assert waits.seconds() == 0.0
    over.set()
    waiter.join()
    assert waits.seconds(waiter.ident) == waits.seconds(waiter.ident) > 0.01


def test_a_wait_within_another_counts_once() -> None:
    waits = Waits()
    began = time.monotonic()
    with waits.waiting():
        with waits.waiting():
            time.sleep(0.02)
        time.sleep(0.01)
    assert waits.seconds() <= time.monotonic() - began
    total = waits.seconds()
    assert total >= 0.03
    assert waits.seconds() == total  # it is over


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
        device_lock.step_aside()  # nobody waits
        timer = threading.Thread(target=time_it)
        timer.start()
        while not device_lock.obstructed:
            time.sleep(0.001)
        order.append("first half")
        device_lock.step_aside()
        order.append("second half")
        assert not device_lock.obstructed
    timer.join(timeout=10)
    assert order == ["first half", "timed", "second half"]
    with device_lock.exclusive():
        device_lock.step_aside()  # not meant: a timer has nobody to let go first


def test_a_lease_ends_with_its_holder(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from workers.referee.host.device_lock import DeviceLock\n"
        "with DeviceLock(Path(sys.argv[1]), 'gpu-0').exclusive(): print('held', flush=True); time.sleep(60)"
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


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_core_is_kept_awake_on_demand_only() -> None:
    core_waker = CoreWaker([min(os.sched_getaffinity(0))])
    pid = core_waker._process.pid
    before = _processor_s(pid)
    time.sleep(0.2)
    assert _processor_s(pid) == pytest.approx(before, abs=0.02)
    deadline = time.monotonic() + 20
    with core_waker.awake():
        while _processor_s(pid) < before + 0.05 and time.monotonic() < deadline:  # it gives way to whatever else runs
            time.sleep(0.05)
    assert _processor_s(pid) >= before + 0.05
    core_waker.close()
    assert not Path(f"/proc/{pid}").exists()


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


def _beside(lock: DeviceLock, process: Process, going: threading.Event, over: threading.Event) -> threading.Thread:
    """A thread that waits for a process apart, until it is over."""

    def wait_for_it() -> None:
        with lock.apart(process):
            going.set()
            over.wait(10)

    thread = threading.Thread(target=wait_for_it)
    thread.start()
    return thread


@pytest.mark.usefixtures("nothing_compiles")
def test_a_timer_pauses_what_runs_apart_and_nothing_that_it_uses(tmp_path: Path) -> None:
    device_lock, over = DeviceLock(tmp_path, "gpu-0"), threading.Event()
    other, own = Process(), Process()
    threads = []
    for process in (other, own):
        going = threading.Event()
        threads.append(_beside(device_lock, process, going, over))
        assert going.wait(10)
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
def test_a_thread_whose_process_runs_apart_may_have_the_device_and_pauses_it(tmp_path: Path) -> None:
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
    """The worker gives an evaluation up that exceeds its deadline by more than it is told, and a compiler that timers
    pause for half of the time takes twice as long."""
    device_lock, over, going, process = DeviceLock(tmp_path, "gpu-0"), threading.Event(), threading.Event(), Process()
    thread = _beside(device_lock, process, going, over)
    assert going.wait(10)
    assert thread.ident is not None
    for pauses in (1, 2):
        with device_lock.exclusive():
            pass
        assert device_lock.waited_s(thread.ident) == pytest.approx(1.5 * pauses, abs=0.1)
    assert device_lock.waits.seconds(thread.ident) == 0.0
    over.set()
    thread.join(timeout=10)
    assert device_lock.waited_s(thread.ident) == pytest.approx(3.0, abs=0.1)


@pytest.mark.usefixtures("nothing_compiles")
def test_work_that_begins_later_is_not_waited_for(tmp_path: Path) -> None:
    lock, first_over, later_over = DeviceLock(tmp_path, "gpu-0"), threading.Event(), threading.Event()
    threads = [_beside(lock, Process(), going := threading.Event(), first_over)]
    assert going.wait(10)
    lock.wait_for_those_apart(0.01)  # it goes on
    waiter = threading.Thread(target=lock.wait_for_those_apart, args=(60.0,))
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
    device_lock, over, going, process = DeviceLock(tmp_path, "gpu-0"), threading.Event(), threading.Event(), Process()
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
        seen.extend([list(process.said), device_lock.waits.seconds()])

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


def test_a_first_call_that_may_be_compiling_is_not_paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_lock_module, "COMPILING_S", 60.0)
    lock, going, over, process = DeviceLock(tmp_path, "gpu-0"), threading.Event(), threading.Event(), Process()
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
    threads = []
    for process in (other, own):
        going = threading.Event()
        threads.append(_beside(lock, process, going, over))
        assert going.wait(10)
    with lock.exclusive(own):
        assert lock.pause_all(own)
        assert not lock.pause_all(own)  # it stands still already
        assert (other.said, own.said) == (["pause"], [])
    assert (other.said, own.said) == (["pause", "resume"], [])
    over.set()
    for thread in threads:
        thread.join(timeout=10)
