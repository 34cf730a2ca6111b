"""Errors of confined processes: their end, silence, a broken protocol, and the
failure to make one.
"""

from __future__ import annotations

import os
import signal

KILLED = f"killed by signal {int(signal.SIGKILL)} (SIGKILL)"
"""Text in the message of a process that was killed.  No process can do that to itself: in a process
namespace of its own the signal does not affect its first process, so it comes from the host's
kernel, out of memory, or from an operator.
"""


class ZygoteError(RuntimeError):
    """The zygote did not start, or died: Assay's fault, never the candidate's."""


class Ended(Exception):  # noqa: N818 (an event, not an error)
    """The process has ended."""

    def __init__(self, *, status: int, out_of_memory: bool = False) -> None:
        """`status`: as from waitpid; `out_of_memory`: the kernel ended it, or a process that it
        had started, for lack of memory.
        """
        self.status = status
        self.out_of_memory = out_of_memory

    def __str__(self) -> str:
        if self.out_of_memory:
            return (
                "the process was killed by the kernel: it and its children had taken all memory"
                " allowed"
            )
        code = os.waitstatus_to_exitcode(self.status)
        if code >= 0:
            return f"the process exited with code {code} in the middle of its work"
        return f"the process was killed by signal {-code}{_named(-code)}"


def _named(number: int) -> str:
    """Name of a signal in parentheses; empty for one without a name, as most
    real-time signals are.
    """
    known = {int(each): each.name for each in signal.Signals}
    return f" ({known[number]})" if number in known else ""


class TimedOut(Exception):  # noqa: N818 (named like the status)
    """No answer within the time allowed."""


class BrokenProtocolError(Exception):
    """Error: an answer that no working shim gives, or a process that runs while it must not; the
    fault of the process.  No built-in exception is used for it, so that an error in the caller's
    code is never taken for it.
    """
