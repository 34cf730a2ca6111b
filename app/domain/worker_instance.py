"""Identity of a worker's main process, by which two workers that claim the same
device are told apart.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class WorkerInstance:
    """One run of a worker's main process."""

    machine: str
    """Boot id of its kernel: the same in all containers of a host."""
    namespace: str
    """Its process namespace, outside of which its process id means nothing."""
    pid: int
    started: str
    """Its start time in clock ticks: a process id may be given again."""

    def __str__(self) -> str:
        return f"{self.machine}/{self.namespace}/{self.pid}/{self.started}"

    @classmethod
    def parse(cls, text: str) -> WorkerInstance:
        """The instance that is written so.  Raises ValueError."""
        machine, namespace, pid, started = text.split("/")
        return cls(machine=machine, namespace=namespace, pid=int(pid), started=started)
