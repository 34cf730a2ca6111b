"""Recorder of a candidate's launches: counts, times and arguments, and substitutes for ablation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from workers.backends.recording import (
    element_locality,
    library_work,
    scaled_copies,
    written_values,
)
from workers.backends.recording.earlier_tensors import EarlierTensors
from workers.protocol.control_channel import AblationMode
from workers.protocol.launch_records import MOST, Launch

MAX_KERNELS = 64
"""Distinct ways of launching a kernel that are recorded."""

KEEPING = (AblationMode.KEEP, AblationMode.NOTE)
"""Modes in which launches' writes are kept."""

LEAD_NS = 5_000_000
"""Nanoseconds for which a GPU is kept busy before a profiled call (the lead), so that the host can
launch everything meanwhile.
"""

LONGEST_LEAD_NS = 40_000_000
"""Nanoseconds of launching from which on a longer lead does not help: the host waits for the device
in the call, or has filled its queue of some thousand launches.
"""

CYCLES_PER_NS = 2
"""Clock cycles of a GPU: 1.98 on an H100 or H200; on a GPU with fewer the lead is longer."""

synchronise: Callable[[], None] = getattr(torch._C, "_cuda_synchronize", lambda: None)
"""Function that waits until every stream of this process is done.  Bound at import,
before a candidate could replace it.
"""


class Clock:
    """Time between two moments of the device: events on a GPU, the processor's clock otherwise;
    and, on the CPU device, the processor's time that this thread took.
    """

    def __init__(self, device: torch.device) -> None:
        """Records no moment yet."""
        self._on_gpu = device.type == "cuda"
        self._moments: list[Any] = []
        self._spent_ns: list[int] = []

    def mark(self) -> None:
        """Record the moment at which all work so far in the current stream is done."""
        if not self._on_gpu:
            self._moments.append(time.perf_counter_ns())
            self._spent_ns.append(time.thread_time_ns())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._moments.append(event)

    def begin_again(self) -> None:
        """Discard the recorded moments and record the present one."""
        self._moments.clear()
        self._spent_ns.clear()
        self.mark()

    def since(self, moment_ns: int) -> int:
        """Nanoseconds from the first moment to a reading of the processor's clock;
        on the CPU device.
        """
        return max(0, moment_ns - int(self._moments[0]))

    def nanoseconds(self) -> int:
        """Nanoseconds between the two moments; waits for the device."""
        return self._between(*self._moments)

    def spent_ns(self) -> int:
        """Nanoseconds of work between the two moments: on the CPU device without the time for which
        others had the processor.
        """
        if self._on_gpu:
            return self.nanoseconds()
        return self._spent_ns[-1] - self._spent_ns[0]

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
    """Record of the launches of a candidate's own kernels: their number in all calls, and times and
    arguments in the profiled call.
    """

    total: int = 0
    """Launches in all calls."""
    left_out: int = 0
    """Launches with no substitute, in the modes NOTHING and SILENT."""
    names: set[str] = field(default_factory=set)
    """Names of the kernels that were launched in any call."""
    ablate: AblationMode = AblationMode.HONEST
    rows: list[Launch] = field(default_factory=list)
    """Launches of the profiled call."""
    signatures: list[dict[str, Any]] = field(default_factory=list)
    """Distinct signatures of the profiled call's launches, as JSON; a builder compiles the kernels
    for another target from them.
    """
    compiled: dict[str, Any] = field(default_factory=dict)
    """Compiled kernels that the profiled call launched, by name: Triton's CompiledKernel."""
    returned: dict[Any, Any] = field(default_factory=dict)
    """Result of the last launch in the profiled call, by function.  An omitted launch returns it,
    so that a candidate does not notice.
    """
    profiled: torch.device | None = None
    """Device while a call is profiled; None otherwise."""
    failed: Callable[[str, BaseException], None] = lambda name, error: None  # noqa: ARG005
    """Function that is told the name of a kernel or extension that failed, and the error."""
    work: library_work.Work = field(default_factory=library_work.Work)
    """Work of interpreted kernels in profiled calls."""
    arena: range = range(0)
    """Addresses of the arena, which holds the inputs; empty on a GPU."""
    _account: library_work.Account | None = None
    """Account of the profiled call, on the CPU device."""
    _spans: list[tuple[Launch, Clock]] = field(default_factory=list)
    _kept: list[list[written_values.Written]] = field(default_factory=list)
    """Per launch of the call in a mode of KEEPING, the tensors that it wrote."""
    _kept_bytes: int = 0
    inputs: list[scaled_copies.Values] = field(default_factory=list)
    """Values of the inputs when the call in a mode of KEEPING began."""
    mapped: int = 0
    """Four times the work of the library in the call in mode NOTE, in modelled bytes; one more if
    the library computes with a result of a launch that follows from its tensors, and two more if
    launches prepare inputs.  0 if neither kind of launch tells that the library made the answer.
    """
    _scaled: list[tuple[scaled_copies.Scaled, ...]] = field(default_factory=list)
    """Per launch of that call, the multiples that explain it; empty if none do, and the launch is
    omitted in mode SCALE.
    """
    _mapped: list[bool] = field(default_factory=list)
    """Per launch of that call, true if it has no multiple and is made in mode MAP."""
    _given: list[Any] = field(default_factory=list)
    """Inputs of that call."""
    _earlier: EarlierTensors | None = None
    """Tensors that the library computes in a call in the modes NOTE, SCALE and MAP."""
    _replayed: int = 0
    _clock: Clock | None = None
    """Clock of the innermost launch in progress."""

    @property
    def idle(self) -> bool:
        """True if launches are only counted, as in timed calls."""
        return self.profiled is None and self.ablate == AblationMode.HONEST

    def substitute(self, mode: AblationMode) -> None:
        """Replace launches as `mode` says from here on; they are still counted."""
        self.ablate, self._replayed = mode, 0
        if mode in KEEPING:
            self._kept, self._scaled, self._mapped = [], [], []
            self._kept_bytes = self.mapped = 0

    def note_inputs(self, values: Iterable[object]) -> None:
        """Note the inputs of the call that begins, in a mode of KEEPING."""
        self._given = list(values)
        self.inputs = scaled_copies.values(self._given)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Context of one call.  In the mode NOTE the library's tensors are noted; in the modes
        SCALE and MAP those are kept that stand for a launch.
        """
        explained = [each.earlier for launch in self._scaled for each in launch]
        wanted = {number for number in explained if number is not None}
        if self.ablate == AblationMode.NOTE:
            self._earlier = EarlierTensors(inputs=self._given)
        elif self.ablate in (AblationMode.SCALE, AblationMode.MAP) and wanted:
            self._earlier = EarlierTensors(wanted)
        try:
            with self._earlier or nullcontext():
                yield
        finally:
            if self._earlier and self.ablate == AblationMode.NOTE:
                self.mapped = self._earlier.mapped
            self._earlier, self._given = None, []

    def count(self, name: str) -> None:
        """Count one launch that succeeded or was replaced."""
        self.total += 1
        self.left_out += self.ablate in (AblationMode.NOTHING, AblationMode.SILENT)
        self.names.add(name)

    def launch(
        self,
        run: Callable[[], Any],
        described: Callable[[Any], Launch],
        signature: dict[str, Any] | None,
        arguments: Iterable[object] = (),
        function: object = None,
    ) -> Any:
        """Time one launch of the profiled call, or replace it by the substitute of the mode.

        `described`: function that describes the launch, given its result; `signature`: None for a
        kernel that is compiled ahead of its launch; `function`: the kernel's Python function.
        """
        if self.ablate != AblationMode.HONEST or self.profiled is None:
            tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
            with self._earlier.paused() if self._earlier else nullcontext():
                return (
                    self._keep(run, tensors)
                    if self.ablate in KEEPING
                    else self._substituted(run, tensors, function)
                )
        if self.profiled.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return run()  # recorded into a graph: it does not run now, and its events have no time
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
        """Keep the compiled kernel of a launch; the interpreter has none."""
        if isinstance(getattr(result, "asm", None), dict) and len(self.compiled) < MAX_KERNELS:
            self.compiled.setdefault(str(result.name), result)

    def kernel_begins(self) -> None:
        """Restart the clock of the launch in progress: its hooks and its grid function, which are
        host code and may launch other kernels, have run.
        """
        if self._clock is not None:
            self._clock.begin_again()

    def _substituted(
        self, run: Callable[[], Any], tensors: list[torch.Tensor], function: object
    ) -> Any:
        if self.ablate in (AblationMode.COPY, AblationMode.COPY_BACK):
            is_forward = self.ablate == AblationMode.COPY
            scaled_copies.copy_first(tensors if is_forward else reversed(tensors))
        elif self.ablate == AblationMode.REPLAY and self._replayed < len(self._kept):
            written_values.replay(self._kept[self._replayed], tensors)
            self._replayed += 1
        elif self.ablate in (AblationMode.SCALE, AblationMode.MAP) and self._replayed < len(
            self._scaled
        ):
            at, self._replayed = self._replayed, self._replayed + 1
            if self.ablate == AblationMode.MAP and self._mapped[at]:
                return run()
            if self.ablate == AblationMode.MAP and not self._scaled[at]:
                written_values.replay(written_values.turned(self._kept[at]), tensors)
            kept = self._earlier.kept if self._earlier else scaled_copies.NONE_KEPT
            scaled_copies.apply(self._scaled[at], tensors, kept)
        return self.returned.get(function)

    def _keep(self, run: Callable[[], Any], tensors: list[torch.Tensor]) -> Any:
        """Run a launch and keep its writes, if memory allows."""
        sizes = {written_values.key(tensor): tensor.nbytes for tensor in tensors}
        whole = self._kept_bytes + sum(sizes.values())
        if whole > written_values.most_kept(tensors):
            self._note_writes([])
            return run()
        before = written_values.copies(tensors, on_host=whole <= written_values.HOST_BYTES)
        result, earlier = run(), self._earlier
        written = written_values.compared(before, tensors)
        scaled = scaled_copies.found(before, written, self.inputs, earlier)
        launch = element_locality.Launch(run, tensors, before, written)
        is_map = earlier is not None and element_locality.is_map(
            launch, earlier, is_multiple=bool(scaled)
        )
        self._note_writes(written, scaled, is_map=is_map)
        return result

    def _note_writes(
        self,
        written: list[written_values.Written],
        scaled: tuple[scaled_copies.Scaled, ...] = (),
        *,
        is_map: bool = False,
    ) -> None:
        """Note the results of a launch, none if memory does not allow it, and their reasons."""
        kept = written_values.kept(written)
        self._kept_bytes += sum(map(written_values.stored_bytes, kept))
        self._kept.append(kept)
        self._scaled.append(scaled)
        self._mapped.append(is_map)

    def profile(
        self,
        device: torch.device,
        call: Callable[[], object],
        deliver: Callable[[], object] = lambda: None,
        *,
        repeats: bool = True,
    ) -> int:
        """Make one call and time every launch of it; returns the nanoseconds of the whole call.

        `call` does not wait for the device, so that on a GPU the event after it is recorded when
        its last kernel ends; `deliver` delivers the outputs and is not timed.

        If the host was still launching when the device began with the call, the gaps between
        kernels are the host's.  If it `repeats`, the call is then made again with a lead that is
        long enough; its inputs may have changed by then, so its outputs are not delivered.

        On the CPU device the rows include the library's operators (library_work.py).
        """
        operators: list[library_work.Operator] = []
        try:
            if device.type == "cuda":
                whole, host_ns = self._queued(device, call, LEAD_NS)
                deliver()
                if repeats and LEAD_NS < host_ns < LONGEST_LEAD_NS:
                    whole, _ = self._queued(device, call, 2 * host_ns)
            else:
                with library_work.Account(beyond=bool(self.names), arena=self.arena) as account:
                    self._account = account
                    whole, _ = self._queued(device, call, LEAD_NS)
                deliver()
                operators = account.operators
        finally:
            self.profiled = self._account = None
        # Read first, because that waits for the device: on a stream of its own a kernel may end
        # before the event at the call's beginning, from which starts are counted.
        total_ns = whole.nanoseconds()
        self.rows = [
            launch._replace(start_ns=clock.after(whole), duration_ns=clock.spent_ns())
            for launch, clock in self._spans
        ]
        self.rows += [
            Launch(
                name=each.name,
                origin="torch",
                start_ns=whole.since(each.began_ns),
                duration_ns=each.taken_ns,
                work_bytes=each.work_bytes,
                product_flops=each.product_flops,
                operator=number,
            )
            for number, each in enumerate(operators[: MOST - len(self.rows)])
        ]
        return total_ns

    def _queued(
        self, device: torch.device, call: Callable[[], object], lead_ns: int
    ) -> tuple[Clock, int]:
        """Make one call whose launches queue up behind the lead, so that gaps between kernels are
        not the host's.  Returns the call's clock, and the nanoseconds that the host took to launch.
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
