"""Pool of warm processes: processes that are ready before their candidate or their problem arrives.

On a GPU each has a context.  A candidate's has compiled a first kernel, a reference's has loaded
the operations that describe a problem; either takes most of a second, largely on one core.  Several
threads prepare one process each; a few of them may make a context at a time.  Killed processes are
also torn down here, outside the evaluations.

Timers pause the making of contexts: of the blocks that meet one, a tenth took twice their time
(eight evaluations in flight, H200).  Compiling goes on, since it changes no other block's time.

A thread that takes a process must not hold the device's lock: it may wait for seconds.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable

from workers.protocol.control_channel import Command
from workers.referee.host.device_lock import DeviceLock
from workers.referee.processes.process_handle import PROCESS_ERRORS, ProcessHandle
from workers.sandbox.process_errors import ZygoteError

WARM_TIMEOUT_S = 60.0
"""Seconds for a request that warms a process; it takes a few while others are warmed."""
END_TIMEOUT_S = 5.0
"""Seconds for killed processes to end."""
CONTEXTS = 3
"""Contexts that are made at a time.  One by one, an H200 host prepared 313 processes
a minute; four at a time, 465.
"""

ATTEMPTS = 3
TAKE_TIMEOUT_S = ATTEMPTS * WARM_TIMEOUT_S
"""Processes that are tried, and seconds that an evaluation waits for one that is ready."""


class WarmPool:
    """Keeps `spares` processes ready.  `close` ends it."""

    def __init__(
        self,
        spawn: Callable[[], ProcessHandle],
        device_lock: DeviceLock,
        spares: int,
        *,
        last: Command = Command.COMPILE_FIRST,
    ) -> None:
        """Starts preparing at once.

        `last`: request after the one for a context.
        """
        self._last = last
        self._spawn = spawn
        self._device_lock = device_lock
        self._ready: queue.Queue[ProcessHandle | Exception] = queue.Queue()
        self._wanted = threading.Semaphore(spares)
        self._context = threading.Semaphore(CONTEXTS)
        self._killed: queue.Queue[ProcessHandle | None] = queue.Queue()
        self._unreaped = 0
        self._over = threading.Event()
        self._changing = threading.Lock()
        """Held while a process is put into a queue, so that none is added after the
        queue was emptied at the end.
        """
        self._threads = [
            threading.Thread(target=self._prepare_forever, daemon=True) for _ in range(spares)
        ]
        self._threads.append(threading.Thread(target=self._reap, daemon=True))
        for thread in self._threads:
            thread.start()

    def take(self) -> ProcessHandle:
        """The next warm process; another is started.  Raises ZygoteError if none can be
        prepared, or none is ready in time.
        """
        until = time.monotonic() + TAKE_TIMEOUT_S
        while True:
            try:
                handle = self._ready.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise ZygoteError(
                    f"expected a candidate's process within {TAKE_TIMEOUT_S:g} s, got none"
                ) from None
            self._wanted.release()
            if isinstance(handle, Exception):
                raise ZygoteError(f"no candidate's process could be prepared: {handle}") from handle
            if handle.process.is_running:
                return handle
            self.reap(handle)  # it ended in the queue

    def take_ready(self) -> ProcessHandle | None:
        """The next warm process, as `take`; None if there is none now.  The caller may hold the
        device's lock.
        """
        while True:
            try:
                handle = self._ready.get_nowait()
            except queue.Empty:
                return None
            self._wanted.release()
            if isinstance(handle, Exception):
                continue  # another one is being prepared
            if handle.process.is_running:
                return handle
            self.reap(handle)

    @property
    def unreaped(self) -> int:
        """Killed processes that still hold device memory, which no evaluation has reserved."""
        with self._changing:
            return self._unreaped

    def reap(self, handle: ProcessHandle) -> None:
        """Tear down a killed process soon."""
        with self._changing:
            over = self._over.is_set()
            if not over:
                self._unreaped += 1
                self._killed.put(handle)
        if over:  # the reaping thread has ended
            handle.close()

    def _prepare_forever(self) -> None:
        """Prepare a process whenever one is wanted, until the pool is closed; the
        loop of one thread.
        """
        while True:
            self._wanted.acquire()
            if self._over.is_set():
                return
            prepared = self._prepare()
            with self._changing:
                over = self._over.is_set()
                if not over:
                    self._ready.put(prepared)
            if over and isinstance(prepared, ProcessHandle):  # no evaluation will take it
                prepared.close()

    def _prepare(self) -> ProcessHandle | Exception:
        """A warm process, or the error of the last attempt to make one."""
        reason: Exception = ZygoteError("not tried")
        for _ in range(ATTEMPTS):
            if self._over.is_set():
                break
            try:
                handle = self._spawn()
            except (ZygoteError, OSError) as error:
                reason = error  # this thread goes on: the pool keeps as many processes as threads
                continue
            try:
                handle.process.wait_ready()
                with self._context, self._device_lock.apart(handle.process, paused_after_s=0.0):
                    handle.ask(Command.WARM, WARM_TIMEOUT_S)
                with self._device_lock.apart(handle.process, paused_after_s=math.inf):
                    handle.ask(self._last, WARM_TIMEOUT_S)
                return handle
            except (*PROCESS_ERRORS, ZygoteError, OSError) as error:
                handle.close()
                reason = error
        return reason

    def _reap(self) -> None:
        """Tear down all killed processes together: they die side by side, and wait
        for the device once.
        """
        while killed := self._next_killed():
            until = time.monotonic() + END_TIMEOUT_S
            for handle in killed:
                handle.process.kill(wait_s=max(0.0, until - time.monotonic()))
            with self._device_lock.shared():  # unmapping memory stops the device for a moment
                for handle in killed:
                    self._device_lock.yield_to_timers()
                    handle.close()
            with self._changing:
                self._unreaped -= len(killed)

    def _next_killed(self) -> list[ProcessHandle]:
        """Killed processes, at least one; none after the end."""
        killed: list[ProcessHandle] = []
        while not killed or not self._killed.empty():
            handle = self._killed.get()
            if handle is None:
                self._killed.put(None)  # ends the next call, after those before it are torn down
                break
            killed.append(handle)
        return killed

    def close(self) -> None:
        """End all warm processes.  One that is being prepared dies with the zygote."""
        with self._changing:
            self._over.set()
            self._killed.put(None)
        for _ in self._threads:
            self._wanted.release()
        while not self._ready.empty():
            spare = self._ready.get()
            if isinstance(spare, ProcessHandle):
                spare.close()
