"""Spares: how they are raised, given out and buried.  The processes are fakes."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from app.domain.evidence import Ablation
from app.domain.job import Job
from workers.protocol.control_channel import Command, ReplyCode
from workers.referee.cancellation import Cancellation
from workers.referee.host.device_lock import DeviceLock
from workers.referee.probes import ablation
from workers.referee.processes import warm_pool as nurseries
from workers.referee.processes.candidate_processes import WarmCandidates
from workers.referee.processes.process_handle import FailedError, ProcessHandle
from workers.referee.processes.warm_pool import WarmPool
from workers.referee.session import setup
from workers.referee.session.context import EvaluationContext
from workers.sandbox.process_errors import BrokenProtocolError, TimedOut, ZygoteError

LIMIT_S = 5.0


class FakeProcess:
    """Confined at once."""

    def __init__(self) -> None:
        self.killed = False
        self.struck = False
        self.is_running = True
        self.paused_s = 0.0
        self.pauses = 0

    def wait_ready(self) -> None:
        pass

    def pause(self) -> None:
        self.pauses += 1

    def resume(self) -> None:
        pass

    def start_kill(self) -> None:
        self.struck = True

    def kill(self, *, wait_s: float = 0.0) -> None:
        self.killed = True


class Ward:
    """Maker of fakes; knows the fate of all of them."""

    def __init__(self) -> None:
        self.raised: list[FakeProcessHandle] = []
        self.fails: list[Exception | None] = []
        """Errors of the next processes while they are warmed; None: it succeeds."""
        self.barren = 0
        """So many times no process can be made."""
        self.warming = 0
        self.most_warming = 0
        self.open = threading.Event()
        """Before that no process is made."""
        self.open.set()
        self._lock = threading.Lock()

    def spawn(self) -> ProcessHandle:
        assert self.open.wait(LIMIT_S)
        with self._lock:
            if self.barren:
                self.barren -= 1
                raise ZygoteError("no fork")
            self.raised.append(FakeProcessHandle(self, self.fails.pop(0) if self.fails else None))
            return self.raised[-1]

    def warm(self) -> None:
        with self._lock:
            self.warming += 1
            self.most_warming = max(self.most_warming, self.warming)
        time.sleep(0.01)
        with self._lock:
            self.warming -= 1


class FakeProcessHandle(ProcessHandle):
    """A candidate's process that is none."""

    def __init__(self, ward: Ward, failure: Exception | None) -> None:
        self.process = FakeProcess()  # type: ignore[assignment]
        self.asked: list[Command] = []
        self.closed = False
        self._ward = ward
        self._failure = failure

    def ask(self, command: Command, timeout_s: float, **_: Any) -> tuple[int, int]:
        self.asked.append(command)
        if self._failure is not None:
            raise self._failure
        if command == Command.WARM:
            self._ward.warm()
        return 0, 0

    def close(self, *, wait_s: float = 0.0) -> None:
        self.closed = True


@pytest.fixture
def ward() -> Ward:
    return Ward()


Open = Callable[[int], WarmPool]


@pytest.fixture
def opened(ward: Ward, tmp_path: Path) -> Iterator[Open]:
    """Opens a warm pool with so many spares."""
    nurseries_open: list[WarmPool] = []

    def start(spares: int) -> WarmPool:
        nurseries_open.append(WarmPool(ward.spawn, DeviceLock(tmp_path, "test"), spares))
        return nurseries_open[-1]

    yield start
    for each in nurseries_open:
        each.close()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_spare_is_warm_when_it_is_taken_and_another_is_begun(ward: Ward, opened: Open) -> None:
    warm_pool = opened(2)
    _until(lambda: sum(len(handle.asked) == 2 for handle in ward.raised) == 2)
    time.sleep(0.02)
    assert len(ward.raised) == 2  # and no more
    taken = warm_pool.take()
    assert isinstance(taken, FakeProcessHandle)
    assert taken.asked == [Command.WARM, Command.COMPILE_FIRST]
    _until(lambda: len(ward.raised) == 3)
    assert warm_pool.take() is not taken  # one candidate each


def test_a_spare_that_has_ended_is_not_handed_out(ward: Ward, opened: Open) -> None:
    warm_pool = opened(1)
    _until(lambda: len(ward.raised) == 1 and Command.COMPILE_FIRST in ward.raised[0].asked)
    ward.raised[0].process.is_running = False  # type: ignore[misc]
    assert warm_pool.take() is ward.raised[1]
    _until(lambda: ward.raised[0].closed)


def test_only_a_ready_one_is_taken_without_a_wait(ward: Ward, opened: Open) -> None:
    ward.open.clear()
    warm_pool = opened(1)
    assert warm_pool.take_ready() is None
    ward.open.set()
    _until(lambda: warm_pool._ready.qsize() == 1)
    ward.open.clear()
    assert warm_pool.take_ready() is ward.raised[0]
    assert warm_pool.take_ready() is None
    ward.open.set()
    _until(lambda: warm_pool._ready.qsize() == 1)  # another one has been prepared
    ward.raised[1].process.is_running = False  # type: ignore[misc]
    assert warm_pool.take_ready() is None
    _until(lambda: ward.raised[1].closed)


def test_the_last_request_of_preparing_can_be_chosen(ward: Ward, tmp_path: Path) -> None:
    lock = DeviceLock(tmp_path, "test")
    warm_pool = WarmPool(ward.spawn, lock, 1, last=Command.LOAD_OPERATIONS)
    taken = warm_pool.take()
    warm_pool.close()
    assert isinstance(taken, FakeProcessHandle)
    assert taken.asked == [Command.WARM, Command.LOAD_OPERATIONS]


def test_a_few_contexts_are_made_at_a_time(ward: Ward, opened: Open) -> None:
    warm_pool = opened(8)
    for _ in range(8):
        warm_pool.take()
    assert 1 <= ward.most_warming <= nurseries.CONTEXTS


@pytest.mark.parametrize(
    "failure",
    [FailedError(ReplyCode.OUT_OF_MEMORY, "no memory"), TimedOut(), BrokenProtocolError("what?")],
)
def test_one_that_fails_is_ended_and_another_is_tried(
    ward: Ward, opened: Open, failure: Exception
) -> None:
    ward.fails = [failure] * (nurseries.ATTEMPTS - 1)
    taken = opened(1).take()
    assert taken is ward.raised[nurseries.ATTEMPTS - 1]
    assert all(handle.closed for handle in ward.raised[: nurseries.ATTEMPTS - 1])


def test_after_some_attempts_the_waiting_caller_gets_the_error(ward: Ward, opened: Open) -> None:
    ward.barren = 1
    ward.fails = [TimedOut("no context")] * (nurseries.ATTEMPTS - 1)
    warm_pool = opened(1)
    with pytest.raises(ZygoteError, match="no candidate's process could be prepared: no context"):
        warm_pool.take()
    assert isinstance(warm_pool.take(), FakeProcessHandle)


def test_what_is_buried_is_killed_and_closed(ward: Ward, opened: Open) -> None:
    warm_pool = opened(1)
    taken = warm_pool.take()
    warm_pool.reap(taken)
    assert isinstance(taken, FakeProcessHandle)
    _until(lambda: taken.closed)
    assert taken.process.killed  # type: ignore[attr-defined]


def test_closing_ends_those_that_wait(ward: Ward, tmp_path: Path) -> None:
    warm_pool = WarmPool(ward.spawn, DeviceLock(tmp_path, "test"), 2)
    taken = warm_pool.take()
    _until(lambda: warm_pool._ready.qsize() == 2)
    warm_pool.close()
    assert [handle for handle in ward.raised if not handle.closed] == [taken]
    _until(lambda: not any(thread.is_alive() for thread in warm_pool._threads))


def test_a_wait_without_a_spare_ends_with_an_error(
    ward: Ward, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nurseries, "TAKE_TIMEOUT_S", 0.05)
    ward.open.clear()
    warm_pool = opened(1)
    with pytest.raises(ZygoteError, match=r"expected a candidate's process within 0.05 s"):
        warm_pool.take()
    ward.open.set()
    assert isinstance(warm_pool.take(), FakeProcessHandle)


def test_what_is_ready_after_the_end_is_ended(ward: Ward, tmp_path: Path) -> None:
    ward.open.clear()
    warm_pool = WarmPool(ward.spawn, DeviceLock(tmp_path, "test"), 1)
    warm_pool.close()
    ward.open.set()
    _until(lambda: not any(thread.is_alive() for thread in warm_pool._threads))
    assert all(handle.closed for handle in ward.raised)
    late = FakeProcessHandle(ward, None)
    warm_pool.reap(late)
    assert late.closed


def test_the_dead_are_taken_apart_together(
    ward: Ward, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other they would wait six times for the device."""
    uncharged: list[bool] = []
    shared = DeviceLock.shared
    monkeypatch.setattr(
        DeviceLock, "shared", lambda device_lock: (uncharged.append(True), shared(device_lock))[1]
    )
    warm_pool, dead = opened(1), [FakeProcessHandle(ward, None) for _ in range(6)]
    with DeviceLock(tmp_path, "test").exclusive():  # an evaluation is timed in another referee
        for handle in dead:
            warm_pool.reap(handle)
        _until(lambda: dead[0].process.killed)  # type: ignore[attr-defined]
        assert warm_pool.unreaped == 6
        assert not any(handle.closed for handle in dead)
    _until(lambda: not warm_pool.unreaped)
    assert all(handle.closed for handle in dead)
    assert len(uncharged) <= 2  # the first may have been alone


def test_on_a_gpu_retired_processes_are_killed_at_once(ward: Ward, tmp_path: Path) -> None:
    """Long before the lock is free to take it apart: in a process that is merely
    stopped a kernel may run on.
    """
    device_lock = DeviceLock(tmp_path, "test")
    warm_pool = WarmPool(ward.spawn, device_lock, 1)
    handle: Any = warm_pool.take()
    with device_lock.exclusive():
        WarmCandidates(warm_pool).retire(handle)
        assert handle.process.struck
        assert not handle.closed
    _until(lambda: handle.closed)
    warm_pool.close()


def test_timers_pause_the_making_of_a_context(
    ward: Ward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = threading.Event()
    monkeypatch.setattr(ward, "warm", lambda: made.wait(LIMIT_S))
    device_lock = DeviceLock(tmp_path, "test")
    warm_pool = WarmPool(ward.spawn, device_lock, 1)
    _until(lambda: bool(ward.raised) and Command.WARM in ward.raised[0].asked)
    process: Any = ward.raised[0].process
    with device_lock.exclusive():
        assert process.pauses == 1
    made.set()
    _until(lambda: warm_pool._ready.qsize() == 1)
    with device_lock.exclusive():
        assert process.pauses == 1
    warm_pool.close()


def test_waiting_for_a_spare_delays_no_timing(
    ward: Ward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ablation needs a second process while an evaluation waits to be timed."""
    device_lock = DeviceLock(tmp_path, "test")
    warm_pool = WarmPool(ward.spawn, device_lock, 1)
    _until(lambda: warm_pool._ready.qsize() == 1)
    ward.open.clear()
    warm_pool.take()  # the candidate's; the next cannot be made yet

    def time_somebody() -> None:
        with device_lock.exclusive():
            pass

    def asked(*_: object, **__: object) -> tuple[Ablation, bool]:
        threading.Thread(target=time_somebody, daemon=True).start()
        _until(lambda: len(device_lock._waiting_timers) == 1)
        ward.open.set()
        return Ablation(attempted=True, reason="", launches_skipped=0, still_correct=True), False

    retired: list[ProcessHandle] = []
    host: Any = SimpleNamespace(
        device_lock=device_lock,
        candidates=SimpleNamespace(take=lambda _: warm_pool.take(), retire=retired.append),
    )
    trials: Any = SimpleNamespace(reference=None, candidate=SimpleNamespace(process=None))
    monkeypatch.setattr(ablation, "_ablate_in_process", asked)
    monkeypatch.setattr(setup, "load", lambda *_: None)
    monkeypatch.setattr(EvaluationContext, "further_calls", lambda *_: None)
    monkeypatch.setattr(ablation, "_is_right_at_last", lambda *_: False)
    job = Job(job_id=uuid4(), reference=b"", candidate=b"@jit\ndef kernel(): ...", backend="triton")
    found: list[Ablation] = []
    spec: Any = None

    def look() -> None:
        seen = ablation.ablate(
            EvaluationContext(
                job=job,
                resources=host,
                runner=trials,
                spec=spec,
                seed=b"",
                cancellation=Cancellation(),
            ),
            names=frozenset(),
            at_stake=True,
        )
        found.append(seen)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert [each.still_correct for each in found] == [False]
    assert retired == ward.raised[1:2]
    warm_pool.close()
