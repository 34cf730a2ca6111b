"""Drawing on a GPU: the device's work for drawing input sets, recorded as a CUDA
graph and replayed.

Drawing an input set of a small problem is mostly Python, which launches a few dozen tiny
kernels: 230 µs a set, and a benchmark takes a thousand (H200).  Replaying several sets side by
side takes a small part of that.

A recording repeats the device's work, not Python's: values from other random generators than the
device's, and other work on the host, would be the same in each replay.  So a recording is used only
if its results equal those of Python bit for bit under another seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch

from workers.protocol import layout, problem_spec
from workers.protocol.shared_memory import Memory
from workers.shims.graph_capture import refusing_to_wait, without_collection
from workers.shims.problem.observers import write_tracking

Views = tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]
"""Views of one slot: inputs, the reference's outputs, the fp64 outputs."""

Fill = Callable[[Views], None]
"""Function that draws an input set from the device's generator and writes it and its
expected outputs into views.
"""

LARGEST_BYTES = 16 << 20
"""Size limit of a slot.  A larger one keeps the device busy for longer than Python takes, and a
recording keeps the memory of its temporaries.
"""

SETS = 4
"""Input sets in a recording, each on a stream of its own: a small problem's kernels
leave most of the device free.
"""


class Playback:
    """Maker of a process's recordings.  Their temporaries share one memory pool,
    because one is replayed at a time.
    """

    def __init__(self, device: torch.device) -> None:
        """Allocates no memory at first."""
        self._device = device
        self._streams: list[torch.cuda.Stream] = []
        """Streams of the capture; the first one forks into the others."""
        self._pool = torch.cuda.graph_pool_handle()
        self._anchor: torch.cuda.CUDAGraph | None = None
        """Graph that keeps the pool alive, which would be freed with its last graph."""
        self.given_up = False
        """True if this problem cannot be recorded.  Earlier recordings are not replayed either,
        because a failed capture may have damaged the generator's state.
        """

    def record(
        self, arena: problem_spec.Arena, memory: Memory, fill: Fill, models: Iterable[object]
    ) -> Recording | None:
        """A recording of `fill`; None if it cannot be recorded or would give other results.  The
        state of the random generators is undefined afterwards.

        `models`: the models that `fill` calls.  If one of them writes into an existing tensor,
        input sets are made one after the other, because side by side they would overwrite each
        other.  Raises the errors of `fill`.
        """
        if (
            arena.inputs.slot_bytes + arena.baseline.slot_bytes + arena.expected.slot_bytes
            > LARGEST_BYTES
        ):
            return None
        scratch = Scratch(arena, self._device)
        # The first call creates everything that is created once; writes are watched from then on.
        fill(scratch.views[0])
        before = _versions(models)
        shared = (
            write_tracking.writes_elsewhere(lambda: fill(scratch.views[0]), scratch.whole)
            or _versions(models) != before
        )
        graph = self._captured(scratch, fill, 1 if shared else SETS)
        recording = Recording(graph, scratch, arena, memory) if graph is not None else None
        self.given_up = recording is None or not _agree(recording, scratch, fill)
        return None if self.given_up else recording

    def _captured(self, scratch: Scratch, fill: Fill, lanes: int) -> torch.cuda.CUDAGraph | None:
        """The graph of filling all scratch slots; None if the host waits for the device meanwhile,
        or if memory stays allocated afterwards.
        """
        streams = self._opened(scratch)[:lanes]
        generator = torch.cuda.default_generators[self._device.index or 0]
        state = generator.clone_state()
        streams[0].wait_stream(torch.cuda.current_stream())
        try:
            return self._capture_on(streams, scratch, fill)
        except Exception:  # noqa: BLE001 (any error of the driver, torch or the problem: it cannot be recorded)
            generator.graphsafe_set_state(state)  # otherwise it remains in capture mode
            return None
        finally:
            # A failed attempt leaves work behind that writes into the scratch
            # memory, which is free from here on.
            for stream in streams:
                torch.cuda.current_stream().wait_stream(stream)

    def _capture_on(
        self, streams: list[torch.cuda.Stream], scratch: Scratch, fill: Fill
    ) -> torch.cuda.CUDAGraph | None:
        """See `_captured`.  The work is done once on the same streams before, to
        create handles and workspaces.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(streams[0]), without_collection():
            with refusing_to_wait():
                _fill_all(scratch, fill, streams)
            before = torch.cuda.memory_allocated()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                _fill_all(scratch, fill, streams)
            finally:
                graph.capture_end()
            # Read before garbage is collected again: that of earlier calls would be missing.
            after = torch.cuda.memory_allocated()
        # Tensors that stay allocated lie in the pool, where another recording would overwrite them.
        return graph if after == before else None

    def _opened(self, scratch: Scratch) -> list[torch.cuda.Stream]:
        """The streams for capturing; the first call creates them and the graph that
        keeps the pool alive.
        """
        if not self._streams:
            self._streams = [torch.cuda.Stream(self._device) for _ in range(SETS)]  # type: ignore[no-untyped-call]
            self._anchor = torch.cuda.CUDAGraph()
            with torch.cuda.stream(self._streams[0]):
                self._anchor.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                scratch.whole.zero_()
                self._anchor.capture_end()
        return self._streams


def _fill_all(scratch: Scratch, fill: Fill, streams: list[torch.cuda.Stream]) -> None:
    """Fill all slots, in turn on these streams.  The first stream, which is current,
    precedes and awaits the others.
    """
    first, *others = streams
    for stream in others:
        stream.wait_stream(first)
    for slot, views in enumerate(scratch.views):
        with torch.cuda.stream(streams[slot % len(streams)]):
            fill(views)
    for stream in others:
        first.wait_stream(stream)


def _versions(models: Iterable[object]) -> list[int | object]:
    """Version counter of every tensor that the models keep; a tensor without a
    counter never compares equal.
    """
    found: list[int | object] = []
    for model in models:
        for part in model.modules() if isinstance(model, torch.nn.Module) else (model,):
            own = getattr(part, "__dict__", {})
            for table in (own, own.get("_parameters") or {}, own.get("_buffers") or {}):
                tensors = [value for value in table.values() if isinstance(value, torch.Tensor)]
                found += [
                    object() if tensor.is_inference() else tensor._version for tensor in tensors
                ]
    return found


class Scratch:
    """Memory with slots into which a recording writes."""

    def __init__(self, arena: problem_spec.Arena, device: torch.device) -> None:
        """The slots have the layout of the arena's."""
        inputs = replace(arena.inputs, start=0, slots=SETS)
        baseline = replace(arena.baseline, start=inputs.stop, slots=SETS)
        expected = replace(arena.expected, start=baseline.stop, slots=SETS)
        self.whole = torch.zeros(expected.stop, dtype=torch.uint8, device=device)
        self.regions = (inputs, baseline, expected)
        self.views: list[Views] = [
            (inputs.views(self, slot), baseline.views(self, slot), expected.views(self, slot))
            for slot in range(SETS)
        ]

    def view(self, offset: int, dtype: torch.dtype, count: int) -> torch.Tensor:
        """See Memory."""
        return self.whole[offset : offset + count * dtype.itemsize].view(dtype)


class Recording:
    """Recording that draws input sets of one session."""

    def __init__(
        self,
        graph: torch.cuda.CUDAGraph,
        scratch: Scratch,
        arena: problem_spec.Arena,
        memory: Memory,
    ) -> None:
        """`graph` writes into `scratch`."""
        self._graph = graph
        self._scratch = scratch
        self._whole = memory.whole
        self._regions = (arena.inputs, arena.baseline, arena.expected)

    def replay(self) -> None:
        """Draw the next `SETS` input sets into the scratch memory."""
        self._graph.replay()

    def play(self, first: int, count: int) -> None:
        """Draw the next `count` input sets into slots of the arena; surplus sets are discarded."""
        for slot in range(first, first + count, SETS):
            some = min(SETS, first + count - slot)
            self._graph.replay()
            torch._foreach_copy_(
                [_slots(self._whole, region, slot, some) for region in self._regions],
                [_slots(self._scratch.whole, region, 0, some) for region in self._scratch.regions],
            )


def _slots(whole: torch.Tensor, region: layout.Region, first: int, count: int) -> torch.Tensor:
    """The memory of some slots of a region."""
    start = region.start + first * region.slot_bytes
    return whole[start : start + count * region.slot_bytes]


def _agree(recording: Recording, scratch: Scratch, fill: Fill) -> bool:
    """Test whether replayed input sets equal those made directly, one after the other."""

    def make() -> None:
        for views in scratch.views:
            fill(views)

    def shown(once: Callable[[], None]) -> torch.Tensor:
        torch.manual_seed(0xA55A)
        scratch.whole.zero_()
        once()
        return scratch.whole.clone()

    return torch.equal(shown(recording.replay), shown(make))
