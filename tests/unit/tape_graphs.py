"""A benchmark by device time in this process: a tape of operations stands for a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from app.domain.evaluation import Timing
from app.domain.job import Job
from app.domain.other_timings import DeviceTiming
from tests.timings import timing
from tests.unit.shims_here import Process
from workers.protocol import problem_spec
from workers.referee.host.device_lock import DeviceLock
from workers.referee.host.health import Clocks
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.process_session import Session
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.context import EvaluationContext
from workers.referee.session.deadline import Deadline
from workers.referee.session.setup import init_seed, load
from workers.referee.timing import device_time, sizing
from workers.shims import candidate, reference

SEED = bytes(32)

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, *more):
        GUARD
        return torch.tanh(x) * 2

def get_inputs():
    return [torch.randn(16, 8)MORE]
"""

SOURCE = """
import torch
from torch import nn

KEPT, CALLS = {}, []
CAPTURING = torch.cuda.is_current_stream_capturing

class ModelNew(nn.Module):
    def forward(self, x, *more):
        CALLS.append(CAPTURING())
        BODY
"""


class Tape(TorchDispatchMode):
    """Tensor operations and their results, which are computed again in place."""

    recording = False

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing")
        found = func(*args, **(kwargs or {}))
        self.steps.append((func, args, kwargs or {}, found))
        return found

    def replay(self) -> None:
        for func, args, kwargs, found in self.steps:
            again = func(*args, **kwargs)
            if isinstance(found, torch.Tensor) and found.data_ptr() != again.data_ptr():
                found.copy_(again)


class Recorder:
    """In place of the one that records CUDA graphs."""

    def __init__(self, device: torch.device) -> None: ...

    def record(self, warm_up: Callable[[], object], body: Callable[[], object]) -> Tape:
        warm_up()
        tape = Tape()
        Tape.recording = True
        try:
            with tape:
                body()
        finally:
            Tape.recording = False
        return tape


class Benchmark:
    """Two sides, as after the last credited call."""

    def __init__(
        self,
        folder: Path,
        body: str,
        *,
        guard: str = "pass",
        more: str = "",
        slots: tuple[int, int] = (24, 24),
        seconds: float = 60.0,
    ) -> None:
        self.processes = {
            side: Process(shim(folder / side))
            for side, shim in (("r", reference.Shim), ("c", candidate.Shim))
        }
        handles: dict[str, Any] = {}
        for side, process in self.processes.items():
            (folder / side).mkdir()
            handles[side] = ProcessHandle(process, torch.device("cpu"))  # type: ignore[arg-type]
        handles["r"].load_reference(
            PROBLEM.replace("GUARD", guard).replace("MORE", more).encode(), "Model", 1
        )
        session, own = Session(handles["r"], 1), Session(handles["c"])
        spec = session.describe(init_seed(SEED), 1)
        arena = problem_spec.arena(spec, problem_spec.Slots(*slots))
        session.share_arena(arena, arena.reference_bytes, 1)
        lock, self.deadline = DeviceLock(folder, "test"), Deadline(seconds, 60)
        source = SOURCE.replace("BODY", body).encode()
        job = Job(job_id=uuid4(), reference=b"", candidate=source, backend="torch")
        load(own, job, session, spec, SEED, self.deadline, lock)
        self.runner = CallRunner(session, own, spec, SEED, self.deadline, lock)
        self.runner.surveys = True
        self.runner.try_calls(self.runner.draw(1))
        self.discarded: list[Any] = []
        cancellation: Any = SimpleNamespace(requested=False)
        host: Any = SimpleNamespace(references=SimpleNamespace(discard=self.discarded.append))
        self.context = EvaluationContext(
            job=job,
            resources=host,
            runner=self.runner,
            spec=spec,
            seed=SEED,
            cancellation=cancellation,
        )

    def take(self, budget_s: float = 0.05) -> DeviceTiming:
        """The device-time speedup beside one by the wall clock."""
        canary: dict[str, Any] = {
            "canary_us": lambda: 0.0,
            "is_undisturbed": lambda us: True,
            "expected_us": 0.0,
        }
        health = SimpleNamespace(require_sound=lambda: None, clocks=Clocks, **canary)
        quiet_host: Any = SimpleNamespace(
            health=health, stopwatch=object(), prepared_for=lambda runner: nullcontext()
        )
        terms = sizing.TimingBudget(
            budget_s=budget_s, block_us=500.0, round_bytes=1 << 20, floor_us=0.0
        )
        timing = device_time.added(wall_clock(), self.context, quiet_host, terms)
        assert (timing.speedup, timing.reference_us) == (1.0, 100.0)
        assert timing.device is not None
        return timing.device


def wall_clock() -> Timing:
    return timing(
        reference_us=100.0,
        candidate_us=100.0,
        speedup=1.0,
        ci_low=0.9,
        ci_high=1.1,
        handover_us=1.0,
        candidate_handover_us=1.0,
        floor_us=0.0,
        stop_reason="budget",
    )
