"""A problem and a candidate in this process, as an evaluation has loaded them, on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import torch

from app.domain.job import Job
from tests.unit.shims_here import Process
from workers.protocol import problem_spec
from workers.referee.host.device_lock import DeviceLock
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.process_session import Session
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.deadline import Deadline
from workers.referee.session.setup import init_seed, load
from workers.shims import candidate, reference

SEED = bytes(range(32))

TOGETHER = problem_spec.Slots(4, 4)
APART = problem_spec.Slots(4, 2)
STREAMED = problem_spec.Slots(1, 0)


@contextmanager
def here() -> Iterator[None]:
    """Context in which the shims of both sides run in this process."""
    with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng():
        patch.setenv("EVALUATION_DEVICE", "cpu")
        patch.setitem(sys.modules, "reference", sys)  # so that it is put back afterwards
        yield


class TwoSides:
    """Both sides, with their arenas."""

    def __init__(
        self, folder: Path, problem: str, source: str, slots: problem_spec.Slots = TOGETHER
    ) -> None:
        """`folder`: an empty one; within `here`."""
        handles: dict[str, Any] = {}
        for side, shim in (("r", reference.Shim), ("c", candidate.Shim)):
            (folder / side).mkdir()
            process: Any = Process(shim(folder / side))
            handles[side] = ProcessHandle(process, torch.device("cpu"))
        handles["r"].load_reference(problem.encode(), "Model", 1)
        self.reference, self.candidate = Session(handles["r"], 1), Session(handles["c"])
        self.spec = self.reference.describe(init_seed(SEED), 1)
        arena = problem_spec.arena(self.spec, slots)
        self.reference.share_arena(arena, arena.reference_bytes, 1)
        lock, deadline = DeviceLock(folder, "test"), Deadline(60, 60)
        job = Job(job_id=uuid4(), reference=b"", candidate=source.encode(), backend="torch")
        load(self.candidate, job, self.reference, self.spec, SEED, deadline, lock)
        self.runner = CallRunner(self.reference, self.candidate, self.spec, SEED, deadline, lock)
