"""Work done before a candidate or a problem arrives."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import torch

from tests.unit.shims_here import Process
from tests.unit.two_sides import here
from workers.protocol.control_channel import Command
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.process_session import Session
from workers.sandbox import zygote
from workers.shims import calls, reference

DRAWS = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3))
    def forward(self, x): return x * self.weight
def get_inputs(): return [torch.rand(2, 3)]
def get_init_inputs(): return []
"""


def _described(folder: Path, *commands: Command) -> tuple[object, list[int]]:
    """The spec of a problem in a process that has answered these commands, and the state of the
    generator after one more draw under a seed.
    """
    folder.mkdir()
    with here():
        process = Process(reference.Shim(folder))
        handle = ProcessHandle(process, torch.device("cpu"))  # type: ignore[arg-type]
        for command in commands:
            handle.ask(command, 1)
        handle.load_reference(DRAWS.encode(), "Model", 1)
        spec = Session(handle, 1).describe(bytes(32), 1)
        calls.seed_everything(bytes(32), 1)
        return spec, torch.get_rng_state().tolist()


def test_operations_run_beforehand_leave_no_trace_in_a_description(tmp_path: Path) -> None:
    cold, cold_state = _described(tmp_path / "cold")
    warm, warm_state = _described(tmp_path / "warm", Command.WARM, Command.LOAD_OPERATIONS)
    for spec in (cold, warm):
        spec.__dict__.pop("call_us")
    assert warm == cold
    assert warm_state == cold_state


def test_a_fork_of_the_zygote_collects_its_own_garbage_alone() -> None:
    before = len(gc.get_objects())
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        zygote._forget_garbage()
        os.write(write, len(gc.get_objects()).to_bytes(8, "little"))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        left = int.from_bytes(answer.read(), "little")
    os.waitpid(pid, 0)
    assert left < before / 100
