"""The device of a referee: place of its tensors, environment of its processes, name and bandwidth."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

from app.domain.evaluation import Environment
from workers.referee.host import bandwidth, device_memory
from workers.referee.host.memory_budget import UNLIMITED

_SINGLE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TRITON_DEFAULT_FP_FUSION": "1"}


_ON_GPU = {
    "EVALUATION_DEVICE": "cuda:0",
    # Making a context takes the driver a third of the time that it takes with the default of 8 (H200: 71 ms instead of
    # 178, six at once), and tearing it down a half.  Two streams of a process still overlap.
    "CUDA_DEVICE_MAX_CONNECTIONS": "2",
}


@dataclass(frozen=True, kw_only=True)
class Device:
    """Differences between a CPU and a GPU; the protocol has none."""

    device_class: str
    torch_device: torch.device
    environment: dict[str, str]
    """Environment of processes that run on it."""
    binds_to_core: bool
    """True where measured processes run on one core.  Not with CUDA: its waiting thread keeps the core from the threads
    that it waits for."""
    limits_memory: bool
    """True where address space may be limited: CUDA reserves far more than it uses."""
    together_bytes: int
    """Limit on inputs, outputs and expected outputs of a call together: up to this, expected outputs are drawn together
    with inputs."""
    arena_bytes: int
    """Input sets at a time: as many as fit in an arena of this size."""
    round_bytes: int
    """Copies of the input sets of a round, with their answers: as many as fit into that."""
    max_slots: int
    """Most input sets at a time, even where more fit, where blocks are as short as they may be (plan.most_slots)."""
    room_bytes: int | None
    """Memory that evaluations in flight may take together; None where one referee has one evaluation at a time."""
    block_us: tuple[float, float]
    """Duration of a timed block, at the least and at the most (plan.block_us)."""
    precompiles: bool
    """True where kernels that ran are also compiled for a GPU."""
    references_kept: int
    """Number of problems with a process kept warm."""
    spares: int
    """Candidates' processes that are kept ready, or are being made so."""

    def describe(
        self, node: str, index: int, sandbox: list[str], missing: list[str], bytes_per_s: float
    ) -> Environment:
        """Description that is stored with every evaluation."""
        gpu = self.torch_device.type == "cuda"
        name = torch.cuda.get_device_name(self.torch_device) if gpu else _cpu_name()
        return Environment(
            device_class=self.device_class,
            device_name=name,
            device_id=f"{node}.{index if gpu else 'cpu'}",
            node=node,
            python=platform.python_version(),
            torch=torch.__version__,
            triton=metadata.version("triton"),
            driver=_driver() if gpu else "",
            cuda=(torch.version.cuda or "") if gpu else "",
            bandwidth_gb_s=bytes_per_s / 1e9,
            sandbox=tuple(sandbox),
            sandbox_missing=tuple(missing),
        )

    def free_bytes(self) -> int:
        """Memory that this process could have now, of a GPU; without a limit on the CPU."""
        if self.torch_device.type != "cuda":
            return UNLIMITED
        kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return int(torch.cuda.mem_get_info(self.torch_device)[0]) + kept

    def bytes_per_s(self) -> float:
        """Peak bandwidth that this process can reach."""
        gpu = self.torch_device.type == "cuda"
        return bandwidth.gpu_bandwidth(self.torch_device) if gpu else bandwidth.cpu_bandwidth()


TOGETHER_BYTES = 16 << 20
"""Input sets of small problems are made from recordings, a hundred at a time (workers/shims/graph_replay.py); of larger
ones memory decides how many calls a block has."""

MEMORY_SHARE = 0.53
"""Share of a GPU's memory that the arenas of all its referees may take together; contexts and candidates need the
rest."""

ROUND_ARENAS = 2
ARENAS = 2 + ROUND_ARENAS
"""Number of arenas that a referee holds at a time: the reference's, the candidate's and the copies of a round."""

ROOM_SHARE = 0.85
"""Share of a GPU's memory that evaluations in flight may take together, by their own reckoning (memory_budget.py)."""

CONTEXTS_SHARE = 0.2
"""Share of a GPU's memory that the contexts of spares may take together."""

CONTEXT_BYTES = 600 << 20
"""Memory that a process takes on a GPU before it has computed anything."""


def open_device(device_class: str, index: int, slots: int) -> Device:
    """The CPU, or the GPU of that index, shared by `slots` referees.  Raises ValueError where there is none."""
    if device_class == "cpu":
        return Device(
            device_class="cpu",
            torch_device=torch.device("cpu"),
            environment={**_SINGLE, "TRITON_INTERPRET": "1", "EVALUATION_DEVICE": "cpu"},
            binds_to_core=True,
            limits_memory=True,
            together_bytes=TOGETHER_BYTES,
            arena_bytes=128 << 20,
            round_bytes=128 << 20,
            max_slots=64,
            block_us=(3000.0, 3000.0),
            precompiles=True,
            references_kept=4,
            spares=1,
            room_bytes=None,
        )
    if not torch.cuda.is_available():
        raise ValueError(f"device class {device_class!r}: expected a GPU, and torch {torch.__version__} sees none")
    memory = torch.cuda.get_device_properties(0).total_memory / slots
    arena_bytes = int(memory * MEMORY_SHARE / ARENAS)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", str(index))
    return Device(
        device_class=device_class,
        torch_device=torch.device("cuda", 0),
        environment={
            **_SINGLE,
            **_ON_GPU,
            **device_memory.environment(),
            **_library_path(),
            "CUDA_VISIBLE_DEVICES": visible,
        },
        binds_to_core=False,
        limits_memory=False,
        max_slots=128,
        block_us=(2000.0, 8000.0),
        together_bytes=TOGETHER_BYTES,
        arena_bytes=arena_bytes,
        round_bytes=ROUND_ARENAS * arena_bytes,
        precompiles=False,
        references_kept=16,
        spares=_spares(slots, memory * slots),
        room_bytes=int(memory * slots * ROOM_SHARE),
    )


def _spares(slots: int, memory: float) -> int:
    """Number of spares: one for each evaluation in flight and some that are being raised, as cores and memory allow."""
    room = int(memory * CONTEXTS_SHARE / CONTEXT_BYTES) - slots
    return max(1, min(slots + 4, len(os.sched_getaffinity(0)), room))


def _library_path() -> dict[str, str]:
    """Search path of the driver's libraries and the compilers, if this process was told: none of these is a secret."""
    names = ("LD_LIBRARY_PATH", "CUDA_HOME", "TRITON_LIBCUDA_PATH", "TRITON_PTXAS_PATH")
    return {name: os.environ[name] for name in names if name in os.environ}


def _cpu_name() -> str:
    """Model name of the processor (proc(5), cpuinfo), or the machine type where it does not say."""
    found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _driver() -> str:
    """Version of the NVIDIA driver, as the kernel module says it."""
    path = Path("/proc/driver/nvidia/version")
    found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", path.read_text()) if path.exists() else None
    return found[1] if found else "unknown"
