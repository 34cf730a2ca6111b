"""GENERATE on a GPU: what the device does for one input set, recorded as a CUDA graph and played again for each.

Of a small problem nearly all of drawing is Python, which launches a few dozen tiny kernels: 230 µs an input set, of
which a contest takes a thousand (H200).  Played, it is 40.

A recording repeats what the device did, not what Python did.  So it is used only where it agrees, bit for bit, with
what Python makes under another seed: numbers that a problem draws from other generators than the device's, and whatever
else it does on the host, would stand still in it."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from workers import spec
from workers.memory import Memory

Views = tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]
"""Of one slot: inputs, the reference's outputs, the fp64 outputs."""

Fill = Callable[[Views], None]
"""Draw an input set from the device's generator, and write it and what is expected into these."""

LARGEST_BYTES = 16 << 20
"""Of a slot: what is larger keeps the device busy for longer than Python takes, and its temporaries would be kept."""

AGREEING = 2
"""Input sets in a row that must be alike, played and made."""


class Playback:
    """Makes the recordings of a process, whose temporaries share one pool of memory: they are played one at a time."""

    def __init__(self, device: torch.device) -> None:
        """Takes no memory as yet."""
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        self._pool = torch.cuda.graph_pool_handle()
        self._anchor: torch.cuda.CUDAGraph | None = None
        """Keeps the pool, which would go with the last graph in it."""
        self.given_up = False
        """Whether this problem cannot be recorded.  Then nothing that was is played any more: a capture that fails
        leaves the generator in disorder."""

    def record(self, place: spec.Arena, arena: Memory, fill: Fill) -> Recording | None:
        """None where it cannot be recorded, or would not be the same.  Leaves the generators in some state or other.

        Raises what `fill` raises."""
        if place.inputs.slot_bytes + place.baseline.slot_bytes + place.expected.slot_bytes > LARGEST_BYTES:
            return None
        scratch = Scratch(place, self._device)
        fill(scratch.views)
        graph = self._captured(scratch, fill)
        recording = Recording(graph, scratch, place, arena) if graph is not None else None
        self.given_up = recording is None or not _agree(recording, scratch, fill)
        return None if self.given_up else recording

    def _captured(self, scratch: Scratch, fill: Fill) -> torch.cuda.CUDAGraph | None:
        """None where the host waits for the device in the middle of it, or where something is kept.

        It is done once before, where it is captured: what is made only once (handles, workspaces) is there then."""
        stream = self._opened(scratch)
        generator = torch.cuda.default_generators[self._device.index or 0]
        state = generator.clone_state()
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream), _without_collection():
            try:
                with _refusing_to_wait():
                    fill(scratch.views)
                before = torch.cuda.memory_allocated()
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    fill(scratch.views)
                finally:
                    graph.capture_end()
            except Exception:  # noqa: BLE001 (whatever the driver, torch or the problem say: it is not for this)
                generator.graphsafe_set_state(state)  # it would go on believing that it is captured
                return None
        torch.cuda.current_stream().wait_stream(stream)
        # What is kept lies in the pool, where another recording would write over it.
        return graph if torch.cuda.memory_allocated() == before else None

    def _opened(self, scratch: Scratch) -> torch.cuda.Stream:
        """The stream on which is captured, with a first graph in the pool, which stays."""
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            self._anchor = torch.cuda.CUDAGraph()
            with torch.cuda.stream(self._stream):
                self._anchor.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                scratch.whole.zero_()
                self._anchor.capture_end()
        return self._stream


class Scratch:
    """A slot of its own, in which a recording writes."""

    def __init__(self, place: spec.Arena, device: torch.device) -> None:
        """As the slots of an arena are laid out."""
        inputs = replace(place.inputs, start=0, slots=1)
        baseline = replace(place.baseline, start=inputs.stop, slots=1)
        expected = replace(place.expected, start=baseline.stop, slots=1)
        self.whole = torch.zeros(expected.stop, dtype=torch.uint8, device=device)
        regions = (inputs, baseline, expected)
        self.views: Views = (inputs.views(self, 0), baseline.views(self, 0), expected.views(self, 0))
        self.parts = [self.whole[region.start : region.stop] for region in regions]

    def view(self, offset: int, dtype: torch.dtype, count: int) -> torch.Tensor:
        """See Memory."""
        return self.whole[offset : offset + count * dtype.itemsize].view(dtype)


class Recording:
    """What makes an input set of one session, over and over."""

    def __init__(self, graph: torch.cuda.CUDAGraph, scratch: Scratch, place: spec.Arena, arena: Memory) -> None:
        """`graph` writes into `scratch`."""
        self._graph = graph
        self._scratch = scratch
        whole = arena.whole
        regions = (place.inputs, place.baseline, place.expected)
        self._slots = [[_part(whole, region, slot) for region in regions] for slot in range(place.inputs.slots)]

    def replay(self) -> None:
        """The next input set, in the scratch."""
        self._graph.replay()

    def play(self, slot: int) -> None:
        """The next input set, in a slot of the arena."""
        self._graph.replay()
        torch._foreach_copy_(self._slots[slot], self._scratch.parts)


def _part(whole: torch.Tensor, region: spec.Region, slot: int) -> torch.Tensor:
    start = region.start + slot * region.slot_bytes
    return whole[start : start + region.slot_bytes]


def _agree(recording: Recording, scratch: Scratch, fill: Fill) -> bool:
    """Whether what is played is what is made, one input set after the other."""

    def shown(make: Callable[[], None]) -> list[torch.Tensor]:
        torch.manual_seed(0xA55A)
        found = []
        for _ in range(AGREEING):
            scratch.whole.zero_()
            make()
            found.append(scratch.whole.clone())
        return found

    played, made = shown(recording.replay), shown(lambda: fill(scratch.views))
    return all(torch.equal(one, other) for one, other in zip(played, made, strict=True))


@contextmanager
def _without_collection() -> Iterator[None]:
    """The collector could end another session's graph in the middle of a capture, which that does not survive."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _refusing_to_wait() -> Iterator[None]:
    """Whatever waits for the device raises RuntimeError: it could not be captured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this is new
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
