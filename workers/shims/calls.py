"""Calling a model on slots and delivering its outputs: the same code in the reference's and in the
candidate's process, so that both pay the same overhead on the clock.
"""

from __future__ import annotations

import bisect
import functools
import mmap
import random
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch

from workers.backends.recording.recorder import Clock, synchronise
from workers.protocol import layout, problem_spec
from workers.protocol.control_channel import POINTERS_AT, QUEUED_AT, Delivering, Reply, ReplyCode
from workers.protocol.shared_memory import (
    Memory,
    Segment,
    allocation_number,
    releases,
    share_segment,
)
from workers.shims import graph_capture
from workers.shims.heap import lengthen
from workers.shims.hidden_inputs import InputVisibility
from workers.shims.returned_outputs import deliver, paired, write
from workers.shims.stack_depth import at_random_depth


def seed_everything(seed: bytes, purpose: int) -> None:
    """Seed every generator that a problem or a constructor may draw from.  Each
    `purpose` has a stream of its own.
    """
    number = int.from_bytes(seed[:8], "little") ^ (purpose * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    torch.manual_seed(number & (1 << 63) - 1)
    random.seed(number)
    numpy.random.seed(number & (1 << 32) - 1)


def set_mode(model: torch.nn.Module, *, training: bool) -> None:
    """Put the model into train or eval mode.  A model that is in train mode already
    is left alone: parts that its constructor has put into eval mode, as
    `from_pretrained` does, have no dropout.
    """
    if not training:
        model.eval()
    elif not model.training:
        model.train()


CONSTRUCTING = 2
"""Purpose of the seed while a model is constructed: the same for reference and candidate."""

DRAWING = 3
"""Purpose of the seed while inputs are drawn."""


class Shared:
    """Parts of this process's device memory that the referee has mapped."""

    def __init__(self) -> None:
        """Without segments at first."""
        self._segments: list[tuple[Segment, int]] = []
        """Each with the number of its allocation."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._releases = releases()

    def add(self, segment: Segment) -> None:
        """Add a segment that the referee has mapped."""
        self._segments.append((segment, allocation_number(segment.base)))
        self._join()

    def _join(self) -> None:
        """Join segments that touch each other."""
        spans = sorted((each.base, each.base + each.size) for each, _ in self._segments)
        self._starts, self._ends = [], []
        for start, end in spans:
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def _drop_released(self) -> None:
        """Remove segments whose memory torch's allocator has given back by itself, which it does
        when memory runs out, before it tries again.
        """
        if releases() != self._releases:
            self._releases = releases()
            self._segments = [
                (each, number)
                for each, number in self._segments
                if allocation_number(each.base) == number
            ]
            self._join()

    def forget(self) -> None:
        """Remove all segments."""
        self._segments.clear()
        self._join()

    def forget_after_release(self) -> None:
        """Remove all segments whenever torch releases memory to the driver: later the same address
        holds other memory, while the referee's mapping shows the old one.  Candidates empty torch's
        cache between calls, and torch itself does before it records a graph.
        """
        for name in ("_cuda_emptyCache", "_accelerator_emptyCache"):
            if hasattr(torch._C, name):
                setattr(torch._C, name, functools.partial(self._release, getattr(torch._C, name)))

    def _release(self, give_back: Callable[[], None]) -> None:
        give_back()
        self.forget()

    def covers(self, address: int, size: int) -> bool:
        """Return whether all of the memory is shared."""
        self._drop_released()
        index = bisect.bisect_right(self._starts, address) - 1
        return index >= 0 and address + size <= self._ends[index]


def share(shared: Shared, address: int) -> Reply:
    """Answer Command.SEGMENT: a descriptor, and base and size of the piece of device
    memory around `address`.
    """
    fd, segment = share_segment(address)
    shared.add(segment)
    return Reply(ReplyCode.DONE, segment.base, segment.size, fd)


class KeywordModel:
    """Wrapper of a model that is called with keyword arguments."""

    def __init__(self, model: Any, names: tuple[str, ...]) -> None:
        """`names`: keywords of the inputs, in their order."""
        self._model = model
        self._names = names

    def __call__(self, *inputs: Any) -> Any:
        """Call the model with the inputs as keyword arguments."""
        return self._model(**dict(zip(self._names, inputs, strict=True)))


class Slots:
    """Input and output tensors that view the arena, made once so that a timed call
    includes no set-up.
    """

    def __init__(
        self,
        spec: problem_spec.ProblemSpec,
        arena: problem_spec.Arena,
        memory: Memory,
        shared: Shared,
        mailbox: mmap.mmap,
    ) -> None:
        """`arena`: layout of `memory`; `mailbox`: receives the addresses of outputs."""
        self._shared = shared
        self._mailbox = mailbox
        self._held: list[Any] = []
        self._graphs = graph_capture.Graphs()
        self._device = memory.whole.device
        self._touched = torch.zeros(1, device=memory.whole.device) if memory.whole.is_cuda else None
        self._on_gpu = memory.whole.is_cuda
        self._node = spec.inputs
        self._outputs_node = spec.outputs
        self._in_place = [0] * len(spec.compared_inputs)
        """In place of addresses, for inputs that belong to the answer: they are read in slots."""
        returned = len(arena.outputs.leaves) - len(spec.compared_inputs)
        self._has_numbers = any(leaf["kind"] != "tensor" for leaf in arena.inputs.leaves)
        self._inputs = [arena.inputs.views(memory, slot) for slot in range(arena.inputs.slots)]
        self._arguments = [layout.rebuild(self._node, iter(views)) for views in self._inputs]
        self._outputs = [
            arena.outputs.views(memory, slot)[:returned] for slot in range(arena.outputs.slots)
        ]
        self._visibility = None if self._on_gpu else InputVisibility(memory, arena.inputs)
        views = self._outputs[0] if self._outputs else []
        self._lone = (
            (views[0].shape, views[0].dtype, views[0].numel() * views[0].element_size())
            if spec.outputs["kind"] == "tensor" and views and not self._in_place
            else None
        )
        """Shape, type and bytes of the only output, if it is a tensor."""

    def arguments(self, slot: int) -> list[Any]:
        """Positional arguments of the call on `slot`."""
        if self._has_numbers:  # not views as tensors are: they are read when the call is made
            return layout.rebuild(self._node, iter(self._inputs[slot]))  # type: ignore[no-any-return]
        return self._arguments[slot]  # type: ignore[no-any-return]

    def run(self, model: Any, first: int, count: int, delivering: int) -> int:
        """Call `model` on `count` slots from `first` on; returns nanoseconds by this
        process's clock (claimed time).
        """
        began = time.perf_counter_ns()
        self._held = []  # outputs of the previous block have been read
        replays = delivering == Delivering.REPLAY
        call = functools.partial(self._call, model, first, count, delivering)
        pointers = self._graphs.play(first, count) if replays else at_random_depth(call)
        if count == 0 and not self._on_gpu:
            lengthen()  # before each block, whatever the process has computed since the last one
        if count == 0 and self._touched is not None and not replays:
            # the device switches to this process's context, as it does for a call
            self._touched.zero_()
        if delivering == Delivering.COPY:
            self._mailbox[QUEUED_AT] = 1
        if self._on_gpu:
            # if a candidate replaces this function, Block.settled_us shows the remaining work
            synchronise()
        self._point(pointers)
        return time.perf_counter_ns() - began

    def _call(self, model: Any, first: int, count: int, delivering: int) -> list[int]:
        """Make the calls in order; returns the addresses of their outputs, or an
        empty list if they are copied.
        """
        pointers: list[int] = []
        with torch.no_grad(), self._one_after_the_other(first, count) as turn:
            for slot in turn:
                value = model(*self.arguments(slot))
                if delivering == Delivering.COPY:
                    deliver(value, self._outputs_node, self._outputs[slot])
                else:
                    pointers += self._hold(value, self._outputs[slot], delivering)
        return pointers

    def capture(self, model: Any, first: int, count: int, delivering: int) -> None:
        """Record the calls on `count` slots from `first` on as a graph, and write the addresses of
        their outputs into the mailbox; see Graphs.  `delivering`: COPY, or CAPTURE, which leaves
        contiguous outputs where they are.
        """

        def call(at: int, number: int) -> graph_capture.Outputs:
            self._held = []
            pointers = self._call(model, at, number, delivering)
            held, self._held = self._held, []
            leaves = len(self._outputs[at]) + len(self._in_place)
            return pointers or [0] * number * leaves, held

        self._held = []
        self._point(self._graphs.capture(first, count, call, self._device))

    def _point(self, pointers: list[int]) -> None:
        struct.pack_into(f"<{len(pointers)}Q", self._mailbox, POINTERS_AT, *pointers)

    @contextmanager
    def _one_after_the_other(self, first: int, count: int) -> Iterator[Iterable[int]]:
        """Slots of a block in order.  On the CPU device the inputs of a slot become
        readable when its call begins.
        """
        slots = range(first, first + count)
        if self._visibility is None or count < 2:
            yield slots
            return
        try:
            self._visibility.hide(first + 1, count - 1)
            yield map(self._shown_slot, slots)
        finally:
            self._visibility.show(first, count)

    def _shown_slot(self, slot: int) -> int:
        assert self._visibility is not None
        self._visibility.show(slot)
        return slot

    def launch(self, model: Any, slot: int) -> list[tuple[Any, torch.Tensor]]:
        """Outputs of one call, with their views in the slot, whose work is queued on the
        device and not waited for.  To look at them is part of the call: a container with code
        of its own could compute then.
        """
        self._held = []
        with torch.no_grad():
            return list(
                paired(model(*self.arguments(slot)), self._outputs_node, self._outputs[slot])
            )

    def deliver(self, outputs: list[tuple[Any, torch.Tensor]]) -> None:
        """Copy the result of `launch` into its slot, and wait for it."""
        with torch.no_grad():
            write(outputs)
        if self._on_gpu:
            synchronise()

    def event_mean(self, model: Any, slot: int, warmups: int, trials: int) -> int:
        """Mean nanoseconds of a call as KernelGYM measures them: the same inputs in each trial,
        gradients on, caches not flushed, and an idle device at the start of a trial.
        """
        device = self._inputs[slot][0].device if self._inputs[slot] else torch.device("cpu")
        times = []
        for trial in range(warmups + trials):
            clock = Clock(device)
            clock.mark()
            model(*self.arguments(slot))
            clock.mark()
            taken = clock.nanoseconds()
            if self._on_gpu:
                synchronise()
            times += [taken] if trial >= warmups else []
        return sum(times) // max(1, len(times))

    def drop_held(self) -> None:
        """Release the outputs of the last block."""
        self._held = []

    def _hold(self, value: object, views: list[torch.Tensor], delivering: int) -> list[int]:
        """Keep the outputs of a call; return the address of each output, or 0 for one
        that was copied into its slot.
        """
        if delivering == Delivering.HOLD and (address := self._lone_address(value)):
            self._held.append(value)
            return [address]
        pointers = []
        for item, view in paired(value, self._outputs_node, views):
            if not isinstance(item, torch.Tensor):
                view.fill_(item)
                pointers.append(0)
                continue
            self._held.append(item)
            address = item.data_ptr() if _lies_as_it_is(item) else 0
            if self._must_copy(address, view, delivering):
                view.copy_(item)
                address = address if delivering == Delivering.SURVEY else 0
            pointers.append(address)
        return pointers + self._in_place

    def _lone_address(self, value: object) -> int:
        """Address of the only output, if it lies in shared memory as it should; else 0, and all
        cases are told apart.  1.5 µs less a call, which are a tenth of a launch.
        """
        if self._lone is None or type(value) is not torch.Tensor:
            return 0
        shape, dtype, size = self._lone
        if value.shape != shape or value.dtype != dtype or not _lies_as_it_is(value):
            return 0
        address = value.data_ptr()
        return address if self._shared.covers(address, size) else 0

    def _must_copy(self, address: int, view: torch.Tensor, delivering: int) -> bool:
        """Return whether an output has to be copied into its slot, although it lies
        at `address`.
        """
        if delivering == Delivering.CAPTURE:
            return not address
        return delivering == Delivering.SURVEY or not self._shared.covers(
            address, view.numel() * view.element_size()
        )


def _lies_as_it_is(item: torch.Tensor) -> bool:
    """Test whether a tensor's memory holds its values contiguously.  The memory of a lazy conjugate
    or negative holds the original's values.
    """
    return item.is_contiguous() and not item.is_conj() and not item.is_neg()
