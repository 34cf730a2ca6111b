"""Resources that live as long as the device: zygotes, warm processes, references of
recent problems, lock, clock.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

from app.domain.evaluation import Environment
from workers.protocol.control_channel import Command
from workers.protocol.paths import LOCK_FOLDER
from workers.referee.host import cpu_affinity
from workers.referee.host.core_waker import CoreClaim, CoreWaker
from workers.referee.host.device import CONTEXT_BYTES, Device, open_device
from workers.referee.host.device_lock import DeviceLock
from workers.referee.host.health import Health
from workers.referee.host.memory_budget import MemoryBudget
from workers.referee.host.reference_history import ReferenceHistory
from workers.referee.host.stopwatch import Stopwatch
from workers.referee.processes.candidate_processes import (
    CandidateProcesses,
    SpareCandidates,
    WarmCandidates,
)
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.reference_pool import ReferencePool
from workers.referee.processes.warm_pool import WarmPool
from workers.referee.timing.compiled_baselines import Baselines
from workers.sandbox.process_errors import ZygoteError
from workers.sandbox.zygote_client import Zygote

REFERENCE_MEMORY_BYTES = 8 << 30
"""Address space of a reference's process on the CPU device: it computes in fp64 as well."""
SPARE_MEMORY_BYTES = 4 << 30
"""Address space of the first warm process: the default of a job."""

SMALL_EVALUATIONS = 16
"""Evaluations that together may use Device.cache_bytes, for one of them to count as small: more
than a device has in flight.
"""

CPU_LIMIT_S = 3600
"""Processor seconds after which the kernel ends a process, independently of the referee."""

_log = logging.getLogger(__name__)

_CANDIDATE, _REFERENCE, _BUILDER = (
    "workers.shims.candidate",
    "workers.shims.reference",
    "workers.shims.builder",
)


class LostZygoteError(RuntimeError):
    """The zygote of candidates and references has ended, with all its processes: the
    referee has to end as well.
    """


Helper = TypeVar("Helper")
"""A handle of a process that serves all evaluations."""


class Resources:
    """Resources of one device.  Use as a context manager.

    On a GPU any number of evaluations may use it at once, each in its own thread; on
    the CPU one at a time.
    """

    def __init__(
        self,
        device_class: str,
        node: str,
        index: int = 0,
        *,
        slots: int = 1,
        kept_bytes: int = 0,
        lock_folder: Path = LOCK_FOLDER,
    ) -> None:
        """Starts the zygotes; `wait_ready` waits until they have imported torch.

        `slots`: evaluations in flight, which share the device's memory.  `kept_bytes`: memory of a
        GPU that other programs keep.  `lock_folder`: folder of the devices' locks, shared by all
        referees of this host.
        """
        self.node = node
        self.index = index
        self.device: Device = open_device(device_class, index, slots, kept_bytes)
        self._slots = slots
        self._on_gpu = self.device.torch_device.type == "cuda"
        self.device_lock = DeviceLock(lock_folder, f"{device_class}-{index}")
        self.memory_budget = MemoryBudget(
            self.device.room_bytes,
            free_bytes=self.device.free_bytes,
            give_back=lambda: self.references.end_idle(),
            is_settled=lambda: not self.candidates.unreaped,
            release_cache=self._release_cache,
            slack_bytes=self.device.references_kept * CONTEXT_BYTES,
        )
        self._claim = CoreClaim(lock_folder)
        core = self._take_cores()
        self._zygote = Zygote((_CANDIDATE, _REFERENCE), self.device.environment, core=core)
        self._builders: Zygote | None = None
        self._restarting = threading.Lock()
        self._starter = ThreadPoolExecutor(1, "starter")
        self.candidates: CandidateProcesses = SpareCandidates(
            lambda memory_bytes: self._spawn(_CANDIDATE, memory_bytes), self.require_zygote
        )
        self._reference_spares: WarmPool | None = None
        self.references = ReferencePool(
            self._reference, self.device.references_kept, self.device_lock
        )
        self.baselines = Baselines()
        self.reference_history = ReferenceHistory(widens=self._on_gpu)
        self.bytes_per_s = 0.0
        self.health = Health(self.device.torch_device)
        self.environment: Environment | None = None

    def _take_cores(self) -> int:
        """Divide the host's cores, keep some awake and start the stopwatch; the core of measured
        processes, or −1 if they have none of their own.
        """
        bound = self.device.binds_to_core
        if bound:
            self._claim.avoid()
        self.cores = cpu_affinity.partition(self.index, cpu_affinity.gpus())
        self._kept_awake = [self._claim.core] if bound else self.cores.awake
        self.core_waker = CoreWaker(self._kept_awake)
        self.stopwatch = self._new_stopwatch()
        if self._on_gpu:
            # and with this process all that it starts from here on
            os.sched_setaffinity(0, self.cores.others)
        return self._claim.core if bound else -1

    def wait_ready(self) -> Environment:
        """Wait until candidates can be accepted.  The sandbox's layers are read from a first
        process, which on the CPU stays as the spare one.
        """
        self._zygote.wait_ready()
        spares = self.candidates
        assert isinstance(spares, SpareCandidates)
        first = spares.prepare(SPARE_MEMORY_BYTES).process
        self.bytes_per_s = self.device.bytes_per_s()
        self.health.calibrate()
        first.wait_ready()
        if self._on_gpu:
            spares.close()
            self._start_pools()
        self.environment = self.device.describe(
            self.node, self.index, first.active, first.missing, self.bytes_per_s
        )
        return self.environment

    def _start_pools(self) -> None:
        """Have warm processes prepared."""
        self.candidates = WarmCandidates(
            WarmPool(lambda: self._spawn(_CANDIDATE, 0), self.device_lock, self.device.spares)
        )
        self._reference_spares = WarmPool(
            lambda: self._spawn(_REFERENCE, 0),
            self.device_lock,
            self.device.reference_spares,
            last=Command.LOAD_OPERATIONS,
        )

    def _new_stopwatch(self) -> Stopwatch:
        has_core = self._on_gpu and self.cores.stopwatch.isdisjoint(self.cores.others)
        stopwatch = Stopwatch(spins=has_core)
        if self._on_gpu:
            stopwatch.move(self.cores.stopwatch)
        return stopwatch

    def start_builders(self) -> Zygote | None:
        """Start the zygote of the builders, on a device whose kernels are compiled ahead of time,
        unless it runs.  It imports torch and Triton for seconds, so it is started with the first
        evaluation that may need it, which does not wait for it until its kernels have run.
        """
        if not self.device.precompiles:
            return None
        with self._restarting:
            if self._builders is None:
                self._builders = self._lasting(self._new_builders)
            return self._builders

    def _lasting(self, start: Callable[[], Helper]) -> Helper:
        """A process that `start` has started in a thread that lives as long as this object.  A
        helper process ends with the thread that started it (prctl(2), PR_SET_PDEATHSIG), and
        evaluations run in threads of their own.
        """
        return self._starter.submit(start).result()

    def _new_builders(self) -> Zygote:
        return Zygote((_BUILDER,), self.device.environment | {"TRITON_INTERPRET": "0"})

    def require_zygote(self) -> None:
        """Raise LostZygoteError if the zygote has ended: messages from its processes, and
        their ends, prove nothing then.
        """
        if not self._zygote.is_alive:
            raise LostZygoteError(
                "the zygote of candidates and references has ended, with all their processes"
            )

    def restart_helpers(self) -> None:
        """Restart auxiliary processes that have ended, before an evaluation.  Raises
        LostZygoteError if the referee has to be restarted.
        """
        self.require_zygote()
        with self._restarting:
            if not self.stopwatch.is_alive:
                _log.error("the stopwatch has ended; it is started again")
                self.stopwatch.close()
                self.stopwatch = self._lasting(self._new_stopwatch)
            if self._builders is not None and not self._builders.is_alive:
                _log.error("the zygote of the builders has ended; it is started again")
                self._builders.close()
                self._builders = self._lasting(self._new_builders)
            if not self.core_waker.is_alive:
                _log.error("the process that keeps cores awake has ended; it is started again")
                self.core_waker.close()
                self.core_waker = self._lasting(lambda: CoreWaker(self._kept_awake))
        self.references.discard_ended()

    @property
    def quiet_cores(self) -> cpu_affinity.Cores | None:
        """Cores for timed processes; None on the CPU, where they have a claimed core."""
        return self.cores if self._on_gpu else None

    @property
    def lost(self) -> bool:
        """True if no further evaluation is possible: the zygote has ended, or the referee's context
        on the device has failed, which cannot be repaired.
        """
        if not self._zygote.is_alive:
            return True
        if not self._on_gpu:
            return False
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
        return False

    def _spawn(self, role: str, memory_bytes: int) -> ProcessHandle:
        zygote = self.start_builders() if role == _BUILDER else self._zygote
        if zygote is None:
            raise ZygoteError("nothing is compiled ahead of time for this device")
        memory_bytes = memory_bytes if self.device.limits_memory or role == _BUILDER else 0
        process = zygote.spawn(role, memory_bytes=memory_bytes, cpu_s=CPU_LIMIT_S)
        try:
            return ProcessHandle(process, self.device.torch_device)
        except BaseException:  # without descriptors, say
            process.kill()
            raise

    def _reference(self) -> ProcessHandle:
        """A process for a problem's reference: a warm one, if one is ready."""
        ready = self._reference_spares.take_ready() if self._reference_spares is not None else None
        return ready or self._spawn(_REFERENCE, REFERENCE_MEMORY_BYTES)

    def builder(self) -> ProcessHandle:
        """A fresh process for one ahead-of-time compilation."""
        return self._spawn(_BUILDER, REFERENCE_MEMORY_BYTES)

    def trim(self, used_bytes: int) -> None:
        """Release cached GPU memory after an evaluation that used `used_bytes` of the device if it
        is more than Device.cache_bytes: others wait for it.

        After a small evaluation the allocator is not asked: it answers when no other thread
        allocates, and until then no thread of this process runs.
        """
        if used_bytes * SMALL_EVALUATIONS < self.device.cache_bytes or not self._on_gpu:
            return
        if torch.cuda.memory_reserved() > self.device.cache_bytes:
            with self.device_lock.shared():  # giving memory back stops the device for a moment
                torch.cuda.empty_cache()

    def _release_cache(self) -> None:
        """Release this process's cached memory: another process needs it."""
        if self._on_gpu:
            torch.cuda.empty_cache()

    def close(self) -> None:
        """End all processes."""
        self.candidates.close()
        if self._reference_spares is not None:
            self._reference_spares.close()
        self.references.close()
        self._zygote.close()
        if self._builders is not None:
            self._builders.close()
        self.core_waker.close()
        self.stopwatch.close()
        self._starter.shutdown()
        self._claim.close()
        self.health.close()

    def __enter__(self) -> Resources:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
