"""Reference processes: their sharing and their end.  The processes are fakes."""

import threading
from contextlib import AbstractContextManager
from typing import Any

import pytest

from workers.protocol.control_channel import Command, ReplyCode
from workers.referee.host.device_lock import DeviceLock, GoApart
from workers.referee.processes import process_handle as handles
from workers.referee.processes import reference_pool as reference_processes
from workers.referee.processes.process_handle import FailedError, ProcessHandle
from workers.referee.processes.process_session import Session
from workers.referee.processes.reference_pool import SESSIONS, ReferencePool
from workers.sandbox.process_errors import Ended, TimedOut, ZygoteError

LIMIT_S = 5.0


class FakeProcessHandle:
    """A process that loads every source, unless it is told to fail."""

    def __init__(
        self,
        *,
        loads: bool = True,
        forgets: bool = True,
        gives_back: bool = False,
        answers: bool = True,
    ) -> None:
        self.process = self
        self.struck = False
        self.sessions = 0
        self.device_lock: DeviceLock | None = None
        self._answers = answers
        self.lock = threading.RLock()
        self.loaded: list[tuple[bytes, str]] = []
        self.forgotten: list[int] = []
        self.closed = False
        self.let_go: threading.Event | None = None
        """Loading waits for this, if there is one."""
        self._loads = loads
        self._forgets = forgets
        self._gives_back = gives_back
        self.windows = 3

    def reserved(self, slow: GoApart | None) -> AbstractContextManager[None]:
        return ProcessHandle.reserved(self, slow)  # type: ignore[arg-type]

    def start_kill(self) -> None:
        self.struck = True

    def load_reference(self, source: bytes, entry_point: str, timeout_s: float, **_: Any) -> None:
        if not self._answers:
            raise TimedOut
        if not self._loads:
            raise FailedError(ReplyCode.NO_ENTRY_POINT, "the reference defines no Model\nlog")
        if self.let_go is not None:
            assert self.let_go.wait(timeout_s)
        self.loaded.append((source, entry_point))

    def ask(
        self, command: Command, timeout_s: float, *, session: int = 0, **_: Any
    ) -> tuple[int, int]:
        assert command == Command.RELEASE
        if self.struck or not self._forgets:
            raise Ended(status=9)
        self.forgotten.append(session)
        return int(self._gives_back), 0

    def unmap_segments(self) -> None:
        self.windows = 0

    def rest(self) -> None:
        """No session is here."""

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class Spawn:
    """Gives out the processes that were prepared, then ordinary ones."""

    def __init__(self, *prepared: FakeProcessHandle) -> None:
        self.given: list[FakeProcessHandle] = []
        self._prepared = list(prepared)

    def __call__(self) -> Any:
        self.given.append(self._prepared.pop(0) if self._prepared else FakeProcessHandle())
        return self.given[-1]


def _sit(references: ReferencePool, source: bytes = b"a", entry_point: str = "Model") -> Session:
    return references.open_session(source, entry_point, LIMIT_S)


def test_evaluations_of_a_problem_share_a_process_and_each_has_its_session() -> None:
    spawn = Spawn()
    references = ReferencePool(spawn, kept=2)
    first, second = _sit(references), _sit(references)
    assert first.handle is second.handle
    assert spawn.given[0].loaded == [(b"a", "Model")]  # once
    references.close_session(first)
    references.close_session(second)
    assert len(set(spawn.given[0].forgotten)) == 2
    assert _sit(references).handle is first.handle  # it stays warm


@pytest.mark.parametrize(("gives_back", "windows"), [(True, 0), (False, 3)])
def test_memory_that_a_process_gives_back_is_not_held_by_the_referee(
    gives_back: bool, windows: int
) -> None:
    spawn = Spawn(FakeProcessHandle(gives_back=gives_back))
    references = ReferencePool(spawn, kept=2)
    references.close_session(_sit(references))
    assert spawn.given[0].windows == windows


def test_where_many_sit_another_process_is_begun() -> None:
    spawn = Spawn()
    references = ReferencePool(spawn, kept=2)
    first = [_sit(references) for _ in range(SESSIONS)]
    second = [_sit(references) for _ in range(SESSIONS)]
    assert [len({id(session.handle) for session in sessions}) for sessions in (first, second)] == [
        1,
        1,
    ]
    assert len(spawn.given) == 2
    references.close_session(first[0])
    assert _sit(references).handle is first[1].handle  # once there is a session again
    assert len(spawn.given) == 2


def test_another_entry_point_is_another_problem() -> None:
    spawn = Spawn()
    references = ReferencePool(spawn, kept=2)
    assert _sit(references).handle is not _sit(references, entry_point="Other").handle


def test_beyond_those_that_are_kept_the_one_not_used_for_longest_ends() -> None:
    spawn = Spawn()
    references = ReferencePool(spawn, kept=2)
    for source in (b"a", b"b", b"a", b"c"):
        references.close_session(_sit(references, source))
    assert [handle.closed for handle in spawn.given] == [False, True, False]


def test_no_session_is_ended_for_a_new_one() -> None:
    spawn = Spawn()
    references = ReferencePool(spawn, kept=1)
    sessions = [_sit(references, source) for source in (b"a", b"b", b"c")]
    assert not any(handle.closed for handle in spawn.given)
    for session in sessions:
        references.close_session(session)
    _sit(references, b"c")
    assert [handle.closed for handle in spawn.given] == [True, True, False]


def test_a_problem_that_does_not_load_leaves_nothing_behind() -> None:
    spawn = Spawn(FakeProcessHandle(loads=False))
    references = ReferencePool(spawn, kept=2)
    with pytest.raises(FailedError, match="defines no Model"):
        _sit(references)
    assert spawn.given[0].closed
    assert _sit(references).handle is spawn.given[1]  # the next one tries afresh


def test_without_a_process_there_is_no_session() -> None:
    def fail() -> Any:
        raise ZygoteError("the zygote is gone")

    references = ReferencePool(fail, kept=2)
    for _ in range(2):
        with pytest.raises(ZygoteError):
            _sit(references)


def test_a_failed_process_serves_its_sessions_and_no_others() -> None:
    spawn = Spawn()
    references = ReferencePool(spawn, kept=2)
    first, second = _sit(references), _sit(references)
    references.discard(first.handle)
    assert _sit(references).handle is not first.handle
    references.close_session(first)
    assert not spawn.given[0].closed
    references.close_session(second)
    assert spawn.given[0].closed


def test_one_that_cannot_forget_ends() -> None:
    spawn = Spawn(FakeProcessHandle(forgets=False))
    references = ReferencePool(spawn, kept=2)
    references.close_session(_sit(references))
    assert spawn.given[0].closed
    assert _sit(references).handle is spawn.given[1]


def test_a_second_session_waits_until_the_problem_is_loaded() -> None:
    slow = FakeProcessHandle()
    slow.let_go = threading.Event()
    spawn = Spawn(slow)
    references = ReferencePool(spawn, kept=2)
    sessions: list[Session] = []
    threads = [threading.Thread(target=lambda: sessions.append(_sit(references))) for _ in range(2)]
    for thread in threads:
        thread.start()
    threads[1].join(0.05)
    assert not sessions
    slow.let_go.set()
    for thread in threads:
        thread.join(LIMIT_S)
    assert [session.handle for session in sessions] == [slow, slow]
    assert len(spawn.given) == len(slow.loaded) == 1


def test_closing_ends_all() -> None:
    spawn = Spawn()
    references = ReferencePool(spawn, kept=2)
    references.close_session(_sit(references))
    _sit(references, b"b")
    references.close()
    assert all(handle.closed for handle in spawn.given)


def test_a_problem_that_gave_no_answer_is_refused_at_once_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spawn = Spawn(FakeProcessHandle(answers=False))
    references = ReferencePool(spawn, kept=2)
    with pytest.raises(TimedOut):
        _sit(references)
    assert spawn.given[0].struck
    assert spawn.given[0].closed
    with pytest.raises(
        FailedError, match=r"no answer in time 0 s ago, and is asked again in 120 s"
    ):
        _sit(references)
    assert len(spawn.given) == 1
    assert _sit(references, b"another").handle is spawn.given[1]
    monkeypatch.setattr(reference_processes, "STUCK_S", 0.0)
    assert _sit(references).handle is spawn.given[2]


def test_a_stuck_reference_refuses_those_that_wait_and_is_left_without_a_question() -> None:
    spawn = Spawn()
    references = ReferencePool(spawn, kept=2)
    first = _sit(references)
    refused: list[str] = []

    def wait() -> None:
        try:
            _sit(references)
        except FailedError as error:
            refused.append(error.message)

    with first.handle.lock:  # it is being asked something
        waiting = threading.Thread(target=wait)
        waiting.start()
        while len(spawn.given) == 1 and first.handle.sessions == 1:
            pass
        references.end_stuck(first.handle)
    waiting.join(LIMIT_S)
    assert refused
    assert "no answer in time" in refused[0]
    references.close_session(first)
    assert spawn.given[0].closed
    assert not spawn.given[0].forgotten


def test_a_long_wait_for_another_request_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "SLOW_S", 0.01)
    held, said = FakeProcessHandle(), threading.Event()
    with held.lock:
        waiting = threading.Thread(
            target=lambda: held.reserved(lambda _: said.set()).__enter__(), daemon=True
        )
        waiting.start()
        assert said.wait(LIMIT_S)
    with FakeProcessHandle().reserved(lambda _: pytest.fail("no session had to wait")):
        pass
