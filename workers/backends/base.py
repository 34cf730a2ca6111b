"""The interface of a backend, and the recorder of a candidate's launches."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch

from workers.backends.recording import library_work, scaled_copies, written_values
from workers.protocol.control_channel import AblationMode
from workers.protocol.launch_records import MOST, Launch

MAX_KERNELS = 64
"""Distinct ways of launching a kernel that are recorded."""

KEPT_BYTES = 1 << 30
"""Most bytes of launches' writes that are kept for replays."""

LEAD_NS = 5_000_000
"""Nanoseconds for which a GPU is kept busy before a profiled call, so that the host
can launch everything meanwhile.
"""

LONGEST_LEAD_NS = 40_000_000
"""A host that takes longer than this waits for the device itself, or has filled its queue of some
thousand launches: then no lead helps.
"""

CYCLES_PER_NS = 2
"""Clock rate of a GPU: 1.98 on an H100 or H200, less elsewhere, and then the lead is longer."""

synchronise: Callable[[], None] = getattr(torch._C, "_cuda_synchronize", lambda: None)
"""Function that waits until every stream of this process is done.  Bound at import,
before a candidate could replace it.
"""


class Clock:
    """Time between two moments of the device: events on a GPU, the processor's clock otherwise."""

    def __init__(self, device: torch.device) -> None:
        """Without moments at first."""
        self._on_gpu = device.type == "cuda"
        self._moments: list[Any] = []

    def mark(self) -> None:
        """Record the moment at which all work so far in the current stream is done."""
        if not self._on_gpu:
            self._moments.append(time.perf_counter_ns())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._moments.append(event)

    def begin_again(self) -> None:
        """Set the first moment to now: earlier launches are not to be counted."""
        self._moments.clear()
        self.mark()

    def since(self, moment_ns: int) -> int:
        """Nanoseconds from the first moment to a reading of the processor's clock;
        on the CPU device.
        """
        return max(0, moment_ns - int(self._moments[0]))

    def nanoseconds(self) -> int:
        """Nanoseconds between the two moments; waits for the device."""
        return self._between(*self._moments)

    def after(self, other: Clock) -> int:
        """Nanoseconds from the other's first moment to this one's."""
        return self._between(other._moments[0], self._moments[0])

    def _between(self, began: Any, ended: Any) -> int:
        if not self._on_gpu:
            return int(ended - began)
        ended.synchronize()
        return max(0, int(began.elapsed_time(ended) * 1e6))


@dataclass(kw_only=True)
class Recorder:
    """Record of the candidate's own kernels: number of launches; for the profiled
    call also times and arguments.
    """

    total: int = 0
    """Launches in all calls."""
    names: set[str] = field(default_factory=set)
    """Names of the kernels that were launched in any call."""
    ablate: AblationMode = AblationMode.HONEST
    rows: list[Launch] = field(default_factory=list)
    """Launches of the profiled call."""
    signatures: list[dict[str, Any]] = field(default_factory=list)
    """Distinct signatures of the profiled call, as JSON: all that it takes to compile
    the kernel for another target.
    """
    compiled: dict[str, Any] = field(default_factory=dict)
    """Kernels that the compiler made and the profiled call launched, by name:
    Triton's CompiledKernel.
    """
    returned: dict[Any, Any] = field(default_factory=dict)
    """Result of the last launch of the profiled call, by function: a launch that is left out
    returns it, so that a candidate does not notice.
    """
    profiled: torch.device | None = None
    """Device, while a call is being profiled."""
    work: library_work.Work = field(default_factory=library_work.Work)
    """Work of interpreted kernels, while a call is being profiled."""
    arena: range = range(0)
    """Addresses of the memory that inputs are given in, on the CPU device."""
    _account: library_work.Account | None = None
    """Account of the profiled call, on the CPU device."""
    _spans: list[tuple[Launch, Clock]] = field(default_factory=list)
    _kept: list[list[written_values.Written]] = field(default_factory=list)
    """Tensors of each launch of the call in which they were kept."""
    _kept_bytes: int = 0
    inputs: list[torch.Tensor] = field(default_factory=list)
    """Tensors that the call was given in which launches are kept."""
    _scaled: list[tuple[scaled_copies.Scaled, ...]] = field(default_factory=list)
    """Per launch of that call: multiples by which it is explained; of none, it is left out."""
    _replayed: int = 0
    _clock: Clock | None = None
    """Clock of the launch that is being timed."""

    @property
    def idle(self) -> bool:
        """True if launches need no more than counting: the ordinary case, in which
        the clock is running.
        """
        return self.profiled is None and self.ablate == AblationMode.HONEST

    def pretend(self, what: AblationMode) -> None:
        """Do this in place of launches from here on; they are counted all the same."""
        self.ablate, self._replayed = what, 0
        if what == AblationMode.KEEP:
            self._kept, self._scaled, self._kept_bytes = [], [], 0

    def count(self, name: str) -> None:
        """A kernel was launched; a launch that failed is none."""
        self.total += 1
        self.names.add(name)

    def launch(
        self,
        run: Callable[[], Any],
        described: Callable[[Any], Launch],
        signature: dict[str, Any] | None,
        arguments: Iterable[object] = (),
        function: object = None,
    ) -> Any:
        """Run one launch with its time taken, or pretend to.  `described`: the
        description taken from its result; `signature`: None of one that is compiled
        already; `function`: the kernel's.
        """
        if self.ablate != AblationMode.HONEST or self.profiled is None:
            tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
            return (
                self._keep(run, tensors)
                if self.ablate == AblationMode.KEEP
                else self._pretended(tensors, function)
            )
        if self.profiled.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return run()  # into a graph: it does not run now, and its events would have no time
        with self._account.launching(arguments) if self._account else nullcontext():
            before = self.work
            result, clock = self._timed(run, self.profiled)
        if function is not None:
            self.returned[function] = result
        if len(self._spans) < MOST:
            self._spans.append(
                (described(result)._replace(work_bytes=self.work.since(before)), clock)
            )
            self._note_code(result)
        if (
            signature is not None
            and len(self.signatures) < MAX_KERNELS
            and signature not in self.signatures
        ):
            self.signatures.append(signature)
        return result

    def _timed(self, run: Callable[[], Any], device: torch.device) -> tuple[Any, Clock]:
        outer, clock = self._clock, Clock(device)
        self._clock = clock
        clock.mark()
        try:
            result = run()
        finally:
            self._clock = outer
        clock.mark()
        return result, clock

    def _note_code(self, result: Any) -> None:
        """Keep the compiled kernel of a launch of Triton's; the interpreter has none."""
        if isinstance(getattr(result, "asm", None), dict) and len(self.compiled) < MAX_KERNELS:
            self.compiled.setdefault(str(result.name), result)

    def kernel_begins(self) -> None:
        """The launch that is being timed has run its hooks and its grid's function, which are the
        host's code and may launch anything: the call below is the kernel.
        """
        if self._clock is not None:
            self._clock.begin_again()

    def _pretended(self, tensors: list[torch.Tensor], function: object) -> Any:
        if self.ablate in (AblationMode.COPY, AblationMode.COPY_BACK):
            copied(tensors if self.ablate == AblationMode.COPY else reversed(tensors))
        elif self.ablate == AblationMode.REPLAY and self._replayed < len(self._kept):
            written_values.replay(self._kept[self._replayed], tensors)
            self._replayed += 1
        elif self.ablate == AblationMode.SCALE and self._replayed < len(self._scaled):
            scaled_copies.apply(self._scaled[self._replayed], tensors)
            self._replayed += 1
        return self.returned.get(function)

    def _keep(self, run: Callable[[], Any], tensors: list[torch.Tensor]) -> Any:
        """Run a launch and remember its writes; none at all of a call that writes too much."""
        kept_bytes = self._kept_bytes + sum(tensor.nbytes for tensor in tensors)
        if kept_bytes > KEPT_BYTES:
            return run()
        self._kept_bytes = kept_bytes
        on_host = kept_bytes <= written_values.HOST_BYTES
        before = written_values.copies(tensors, on_host=on_host)
        result = run()
        written = written_values.compared(before, written_values.copies(tensors, on_host=on_host))
        self._kept.append(written)
        after, changed = [each.values for each in written], [each.changed for each in written]
        self._scaled.append(scaled_copies.found(before, after, changed, self.inputs))
        return result

    def profile(
        self,
        device: torch.device,
        call: Callable[[], object],
        deliver: Callable[[], object] = lambda: None,
    ) -> int:
        """One call with every launch timed; returns nanoseconds of the whole.  `call` waits for
        nothing, so that on a GPU the moment after it is when its last kernel ends; `deliver` hands
        over its outputs, and is not timed.

        Where the host was still launching when the device turned to the call, there are gaps
        between kernels that are the host's: then it is called once more, with a lead that is long
        enough; inputs may be another's by then, and its outputs are not delivered.

        On the CPU device the library's operators are rows, too, by the account of a dispatch mode
        (workers.backends.recording.library_work).
        """
        operators: list[library_work.Operator] = []
        try:
            if device.type == "cuda":
                whole, host_ns = self._queued(device, call, LEAD_NS)
                deliver()
                if LEAD_NS < host_ns < LONGEST_LEAD_NS:
                    whole, _ = self._queued(device, call, 2 * host_ns)
            else:
                with library_work.Account(beyond=bool(self.names), arena=self.arena) as account:
                    self._account = account
                    whole, _ = self._queued(device, call, LEAD_NS)
                deliver()
                operators = account.operators
        finally:
            self.profiled = self._account = None
        # First of all, because it waits for the device: on a stream that waits for no other a
        # kernel can be done before the call's own beginning, from which its start is counted.
        total_ns = whole.nanoseconds()
        self.rows = [
            launch._replace(start_ns=clock.after(whole), duration_ns=clock.nanoseconds())
            for launch, clock in self._spans
        ]
        self.rows += [
            Launch(
                name=each.name,
                origin="torch",
                start_ns=whole.since(each.began_ns),
                duration_ns=each.taken_ns,
                work_bytes=each.work_bytes,
            )
            for each in operators[: MOST - len(self.rows)]
        ]
        return total_ns

    def _queued(
        self, device: torch.device, call: Callable[[], object], lead_ns: int
    ) -> tuple[Clock, int]:
        """One call, all of it launched while the device is still busy with something
        else, so that the gaps between kernels are not the host's; and nanoseconds
        that the host took to launch it.
        """
        self.profiled, self._spans = device, []
        if device.type == "cuda":
            torch.cuda._sleep(CYCLES_PER_NS * lead_ns)
        whole = Clock(device)
        whole.mark()
        began = time.perf_counter_ns()
        call()
        host_ns = time.perf_counter_ns() - began
        whole.mark()
        return whole, host_ns


def copied(arguments: Iterable[object]) -> None:
    """The least that a kernel can do: the first tensor's bytes copied into every later one of its
    size, or to the beginning of one that is up to twice as large.
    """
    sources: list[torch.Tensor] = []
    for tensor in arguments:
        if not isinstance(tensor, torch.Tensor) or not tensor.is_contiguous():
            continue
        source = next((each for each in sources if _fits(each, tensor)), None)
        if source is None:
            sources.append(tensor)
        else:
            tensor.flatten()[: source.numel()].copy_(source.flatten().view(tensor.dtype))


def _fits(source: torch.Tensor, into: torch.Tensor) -> bool:
    return source.itemsize == into.itemsize and source.numel() <= into.numel() < 2 * source.numel()


class Backend(Protocol):
    """Loader that turns a source into a module."""

    def build(self, path: Path, recorder: Recorder) -> ModuleType:
        """Execute the source at `path` as a module, with its kernels reporting to `recorder`.

        Raises the source's own errors."""
        ...


def execute(path: Path) -> ModuleType:
    """Import the file at `path` as the module `candidate`: a real file, because
    compilers read their source back.
    """
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    return module
