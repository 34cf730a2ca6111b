"""The device of a referee: torch device, environment of its processes, sizes, name
and bandwidth.
"""

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

_SINGLE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TRITON_DEFAULT_FP_FUSION": "1",
}

_KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""Limits in bytes up to which glibc keeps the memory of a freed tensor, and the free end of the
heap (mallopt(3); 32 MiB is the most for a tensor).  By default they follow the sizes that a process
has freed so far: a candidate gave tensors of 4 MB back after every call, with a thousand page
faults, and a reference, after computing in fp64, kept them and took a fifth of the time for the
same code.  See also workers/shims/heap.py.
"""

_ON_GPU = {
    "EVALUATION_DEVICE": "cuda:0",
    # With 2 in place of the default of 8 the driver makes a context in 71 ms in place of 178 (H200,
    # six at once) and tears it down in half the time.  Two streams of a process still overlap.
    "CUDA_DEVICE_MAX_CONNECTIONS": "2",
}

TOGETHER_BYTES = 16 << 20
"""Small problems have input sets made from recordings, a hundred at a time
(workers/shims/problem/graph_replay.py); for larger ones memory decides how many calls a block has.
"""

MEMORY_SHARE = 0.53
"""Share of a GPU's memory for the arenas of all its referees; contexts and
candidates need the rest.
"""

ROUND_ARENAS = 2
ARENAS = 2 + ROUND_ARENAS
"""Arenas that a referee holds at a time: the reference's, the candidate's and the
copies of a round.
"""

ROOM_SHARE = 0.85
"""Share of a GPU's memory that evaluations in flight may reserve (memory_budget.py), if contexts
leave so much.
"""

CONTEXTS_SHARE = 0.2
"""Share of a GPU's memory for the contexts of warm processes."""

CONTEXT_BYTES = 680 << 20
"""Memory that a process takes on a GPU before it has computed anything (H200: 640 MiB, references
750 to 970).
"""

REFERENCE_SPARES_SHARE, REFERENCE_SPARES = 0.02, 4
"""Share of a GPU's memory for the contexts of references' processes that wait for a new problem,
and their most number: a sweep of eight problems at a time takes one in 1.5 s, and it takes two to
prepare one (KernelBench, H200).
"""

REFERENCES_SHARE, REFERENCES = 0.07, 16
"""Share of a GPU's memory for the contexts of references that are kept, and their most number."""

CACHE_SHARE, CACHE_BYTES = 0.06, 8 << 30
"""Memory of a GPU that the referee caches for its next tensors, which no other process can take: as
a share of the GPU's, and at most in bytes.
"""


@dataclass(frozen=True, kw_only=True)
class Device:
    """Properties of the device.  CPU and GPU differ in these alone; the protocol is the same."""

    device_class: str
    torch_device: torch.device
    environment: dict[str, str]
    """Environment variables of processes that use it."""
    binds_to_core: bool
    """True if measured processes run on one core.  Not with CUDA, whose waiting thread would keep
    the core from the threads that it waits for.
    """
    limits_memory: bool
    """True if address space may be limited: CUDA reserves far more than it uses."""
    together_bytes: int
    """Largest inputs, outputs and expected outputs of a call together, for which expected
    outputs are drawn with the inputs.
    """
    arena_bytes: int
    """Size of an arena, which holds as many input sets as fit."""
    round_bytes: int
    """Memory for copies of a round's input sets and their outputs."""
    max_slots: int
    """Most input sets at a time, even if more fit, for blocks of the least duration
    (sizing.most_slots).
    """
    cache_bytes: int
    """Memory of a GPU that this process caches between evaluations."""
    room_bytes: int | None
    """Memory for all evaluations in flight; None if a referee has one evaluation at a time."""
    share_bytes: int | None
    """Part of them for one of as many evaluations as are in flight."""
    block_us: tuple[float, float]
    """Least and greatest duration of a timed block (sizing.block_us)."""
    precompiles: bool
    """True if kernels that ran are also compiled for a GPU."""
    references_kept: int
    """Problems for which a reference process is kept; each is five descriptors of this process."""
    spares: int
    """Candidate processes that are kept ready or being prepared."""
    reference_spares: int
    """The same of references' processes, for problems that are new to the device."""

    def describe(
        self, node: str, index: int, sandbox: list[str], missing: list[str], bytes_per_s: float
    ) -> Environment:
        """Environment that is stored with every evaluation."""
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
        """GPU memory that any process could allocate, so without the memory that this one caches;
        unlimited on the CPU.
        """
        if self.torch_device.type != "cuda":
            return UNLIMITED
        return int(torch.cuda.mem_get_info(self.torch_device)[0])

    def bytes_per_s(self) -> float:
        """Peak bandwidth that this process can reach."""
        gpu = self.torch_device.type == "cuda"
        return bandwidth.gpu_bandwidth(self.torch_device) if gpu else bandwidth.cpu_bandwidth()


def open_device(device_class: str, index: int, slots: int, kept_bytes: int = 0) -> Device:
    """The CPU, or the GPU of that index, with `slots` evaluations in flight.  `kept_bytes`: memory
    of a GPU that other programs keep.  Raises ValueError if there is no such device.
    """
    return _cpu() if device_class == "cpu" else _gpu(device_class, index, slots, kept_bytes)


def _cpu() -> Device:
    return Device(
        device_class="cpu",
        torch_device=torch.device("cpu"),
        environment={
            **_SINGLE,
            **_KEPT_MEMORY,
            "TRITON_INTERPRET": "1",
            "EVALUATION_DEVICE": "cpu",
        },
        binds_to_core=True,
        limits_memory=True,
        together_bytes=TOGETHER_BYTES,
        arena_bytes=128 << 20,
        round_bytes=128 << 20,
        max_slots=64,
        cache_bytes=0,
        room_bytes=None,
        share_bytes=None,
        block_us=(3000.0, 3000.0),
        precompiles=True,
        references_kept=4,
        spares=1,
        reference_spares=0,
    )


def _gpu(device_class: str, index: int, slots: int, kept_bytes: int) -> Device:
    if not torch.cuda.is_available():
        raise ValueError(
            f"device class {device_class!r}: expected a GPU, and torch {torch.__version__} sees"
            " none"
        )
    total_bytes = torch.cuda.get_device_properties(0).total_memory - kept_bytes
    slot_bytes = total_bytes / slots
    arena_bytes = int(slot_bytes * MEMORY_SHARE / ARENAS)
    spares, reference_spares = _spares(slots, total_bytes), _reference_spares(slots, total_bytes)
    room_bytes = _room_bytes(total_bytes, spares + reference_spares + 2 * slots + 1)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", str(index))
    return Device(
        device_class=device_class,
        torch_device=torch.device("cuda", 0),
        environment={
            **_SINGLE,
            **_KEPT_MEMORY,
            **_ON_GPU,
            **device_memory.environment(),
            **_library_path(),
            "CUDA_VISIBLE_DEVICES": visible,
            "EVALUATION_MEMORY_BYTES": str(total_bytes),
        },
        binds_to_core=False,
        limits_memory=False,
        together_bytes=TOGETHER_BYTES,
        arena_bytes=arena_bytes,
        round_bytes=ROUND_ARENAS * arena_bytes,
        max_slots=128,
        cache_bytes=min(CACHE_BYTES, int(total_bytes * CACHE_SHARE)),
        room_bytes=room_bytes,
        share_bytes=room_bytes // slots,
        block_us=(2000.0, 8000.0),
        precompiles=False,
        references_kept=max(
            1, min(REFERENCES, int(total_bytes * REFERENCES_SHARE / CONTEXT_BYTES))
        ),
        spares=spares,
        reference_spares=reference_spares,
    )


def _room_bytes(total_bytes: int, contexts: int) -> int:
    """Memory for all evaluations in flight, beside the contexts: those of warm processes, of both
    sides of each evaluation, and of the referee.
    """
    return int(min(ROOM_SHARE * total_bytes, total_bytes - contexts * CONTEXT_BYTES))


def _spares(slots: int, memory_bytes: float) -> int:
    """Number of warm processes: one for each evaluation in flight and some in
    preparation, as cores and memory allow.
    """
    room = int(memory_bytes * CONTEXTS_SHARE / CONTEXT_BYTES) - slots
    return max(1, min(slots + 4, len(os.sched_getaffinity(0)), room))


def _reference_spares(slots: int, memory_bytes: float) -> int:
    """Number of warm processes for new problems; none on a small device."""
    fitting = int(memory_bytes * REFERENCE_SPARES_SHARE / CONTEXT_BYTES)
    return min(slots, REFERENCE_SPARES, fitting)


def _library_path() -> dict[str, str]:
    """Search paths of the driver's libraries and the compilers, if this process has
    them; none of them is a secret.
    """
    names = ("LD_LIBRARY_PATH", "CUDA_HOME", "TRITON_LIBCUDA_PATH", "TRITON_PTXAS_PATH")
    return {name: os.environ[name] for name in names if name in os.environ}


def _cpu_name() -> str:
    """Model name of the processor (proc(5), cpuinfo), or the machine type."""
    found = re.search(
        r"^(?:model name|Model)\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE
    )
    return found[1] if found else platform.machine()


def _driver() -> str:
    """Version of the NVIDIA driver, as the kernel module reports it."""
    path = Path("/proc/driver/nvidia/version")
    found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", path.read_text()) if path.exists() else None
    return found[1] if found else "unknown"
