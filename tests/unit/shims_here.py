"""Shims in this process, in place of confined ones."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from workers.protocol import control_channel
from workers.sandbox.process_errors import Ended


class Process:
    """A process with a shim that answers at once."""

    paused_s = 0.0

    def __init__(self, shim: Any) -> None:
        self.shim = shim
        self.replies: list[bytes] = []
        self.asked: list[int] = []

    def send(self, message: bytes, fds: Sequence[int] = ()) -> None:
        command, sequence, session, a, b, c, seed = control_channel.REQUEST.unpack(message)
        self.asked.append(command)
        try:
            fd = os.dup(fds[0]) if fds else None
            reply = self.shim.answer(control_channel.Request(command, session, a, b, c, seed, fd))
            self.replies.append(
                control_channel.REPLY.pack(reply.outcome, sequence, reply.number, reply.text)
            )
        except EOFError:
            pass

    def receive(self, size: int, timeout_s: float, *, spin_s: float = 0.0) -> bytes:
        if not self.replies:
            raise Ended(status=256)
        return self.replies.pop(0)

    def receive_with_fd(self, size: int, timeout_s: float) -> tuple[bytes, int | None]:
        return self.receive(size, timeout_s), None

    def timed(
        self, stopwatch: object, message: bytes, size: int, timeout_s: float, spin_s: float
    ) -> tuple[int, bytes]:
        began = time.perf_counter_ns()
        self.send(message)
        return time.perf_counter_ns() - began, self.receive(size, timeout_s)

    def freeze(self) -> bool:
        return False

    def thaw(self) -> None: ...

    def require_frozen(self) -> None: ...
