"""Pool of reference processes of a device: one for each recent problem, shared by
the evaluations of that problem.

Making a context costs the driver more, the more contexts there are, so a process for each
evaluation would be its slowest part.  Each evaluation has its own session in the process
(parameters and arena).  The process's lock admits one request at a time, and the device's lock
keeps requests away during timing.  If many evaluations of one problem are in flight, the
problem gets a second process.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from app.domain.ids import sha256
from workers.protocol.control_channel import ReplyCode
from workers.referee.host.device_lock import DeviceLock, GoApart
from workers.referee.processes.process_handle import PROCESS_ERRORS, FailedError, ProcessHandle
from workers.referee.processes.process_session import Session
from workers.sandbox.process_errors import TimedOut, ZygoteError

RELEASE_TIMEOUT_S = 10.0
"""Seconds for a process to release an evaluation's memory; then it is ended."""

STUCK_S = 120.0
"""Seconds for which a problem is refused after its reference gave no answer in time: otherwise each
of its candidates would occupy an evaluation slot for a minute to no effect.
"""

END_S = 2.0
"""Seconds to wait for a process to end, after which its memory is free."""

SESSIONS = 4
"""Evaluations in one process before another is started for the same problem.  With
eight in one process, a device did 176 evaluations of one problem a minute, against
217 of eight problems (H200).
"""


class ReferencePool:
    """Reference processes by problem.  Thread-safe."""

    def __init__(
        self, spawn: Callable[[], ProcessHandle], kept: int, device_lock: DeviceLock | None = None
    ) -> None:
        """`spawn` starts a process that serves references; `kept`: processes that
        stay for their problem's next evaluation; `device_lock`: lock that long
        requests do not keep from timers.
        """
        self._spawn = spawn
        self._kept = kept
        self._device_lock = device_lock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, ProcessHandle] = OrderedDict()
        self._numbers = itertools.count(1)
        self._stuck: dict[str, float] = {}
        """Problem → time (time.monotonic) at which its reference gave no answer."""

    def open_session(
        self,
        source: bytes,
        entry_point: str,
        timeout_s: float,
        *,
        by_cases: bool = False,
        slow: GoApart | None = None,
    ) -> Session:
        """A session in the process of a problem, which has been loaded.  Errors of loading pass
        through, and the process is dropped.

        `slow` is called if loading takes long.  Raises FailedError at once for a
        problem that was recently stuck.
        """
        problem = sha256(source + b"\0" + entry_point.encode() + b"\0cases" * by_cases)
        with self._lock:
            self._refuse_stuck(problem)
            key = self._key_with_room(problem)
            handle = self._known.pop(key, None)
            fresh = handle is None
            if handle is None:
                handle = self._spawn()
                handle.device_lock = self._device_lock
                handle.lock.acquire()  # a second thread waits until it is loaded
            self._known[key] = handle
            handle.sessions += 1
            surplus = self._surplus()
        for old in surplus:
            old.close()
        try:
            if fresh:
                try:
                    handle.load_reference(
                        source, entry_point, timeout_s, by_cases=by_cases, slow=slow
                    )
                except TimedOut:
                    self.end_stuck(handle)
                    raise
                except BaseException:
                    self.discard(handle)
                    raise
                finally:
                    handle.lock.release()
            with handle.reserved(slow):
                with self._lock:
                    self._refuse_stuck(problem)
                return Session(handle, next(self._numbers))
        except BaseException:
            self._release(handle)
            raise

    def _refuse_stuck(self, problem: str) -> None:
        """Raise FailedError for a problem that was recently stuck.  The lock is held."""
        now = time.monotonic()
        self._stuck = {each: since for each, since in self._stuck.items() if now - since < STUCK_S}
        since = self._stuck.get(problem)
        if since is not None:
            ago, left = now - since, STUCK_S - (now - since)
            raise FailedError(
                ReplyCode.CALL_FAILED,
                f"it gave no answer in time {ago:.0f} s ago, and is asked again in {left:.0f} s",
            )

    def _key_with_room(self, problem: str) -> str:
        """Key of the problem's first process with a free session, or of a process to
        be started.  The lock is held.
        """
        keys = (f"{problem}/{number}" for number in itertools.count())
        return next(key for key in keys if self._has_room(self._known.get(key)))

    def _has_room(self, handle: ProcessHandle | None) -> bool:
        return handle is None or handle.sessions < SESSIONS

    def _surplus(self) -> list[ProcessHandle]:
        """Idle processes beyond the number to keep, oldest first, removed from the
        pool.  The lock is held.
        """
        idle = [key for key, handle in self._known.items() if not handle.sessions]
        return [self._known.pop(key) for key in idle[: max(0, len(self._known) - self._kept)]]

    def end_idle(self) -> None:
        """End the processes without sessions."""
        with self._lock:
            idle = [key for key, handle in self._known.items() if not handle.sessions]
            idle_handles = [self._known.pop(key) for key in idle]
        for handle in idle_handles:
            handle.process.start_kill()  # all at once: they die side by side
        for handle in idle_handles:
            handle.close(wait_s=END_S)

    def close_session(self, session: Session) -> None:
        """Close a session."""
        try:
            session.close(RELEASE_TIMEOUT_S)
        except (*PROCESS_ERRORS, ZygoteError):
            self.discard(session.handle)  # it may have ended
        self._release(session.handle)

    def _release(self, handle: ProcessHandle) -> None:
        with self._lock:
            handle.sessions -= 1
            last = not handle.sessions
            if last:
                handle.rest()
            known = any(each is handle for each in self._known.values())
        if last and not known:
            handle.close()

    def discard(self, handle: ProcessHandle) -> None:
        """Give a failed process no further sessions; it ends when its last session is closed."""
        with self._lock:
            for key, known in list(self._known.items()):
                if known is handle:
                    del self._known[key]

    def end_stuck(self, handle: ProcessHandle) -> None:
        """Kill a process that gave no answer in time; threads that wait for it see its end.  Its
        problem is refused for a while.
        """
        with self._lock:
            for key, known in self._known.items():
                if known is handle:
                    self._stuck[key.rpartition("/")[0]] = time.monotonic()
        self.discard(handle)
        handle.process.start_kill()

    def discard_ended(self) -> None:
        """Remove processes that have ended between requests."""
        with self._lock:
            known = list(self._known.values())
        for handle in known:
            if not handle.lock.acquire(blocking=False):
                continue  # the thread that is asking it sees its end
            try:
                is_running = handle.process.is_running
            finally:
                handle.lock.release()
            if not is_running:
                self._drop(handle)

    def _drop(self, handle: ProcessHandle) -> None:
        self.discard(handle)
        with self._lock:
            taken = bool(handle.sessions)
        if not taken:  # else the last session to leave closes it
            handle.close()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            for handle in self._known.values():
                handle.close()
            self._known.clear()
