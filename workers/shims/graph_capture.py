"""Calls of a model recorded as CUDA graphs and replayed, so that a block excludes the host's launch
overhead.  The same code runs in the reference's and in the candidate's process.

A graph holds the calls on some input slots, so a replay reads the inputs that the referee has
written there.  Its outputs stay where the recorded calls put them.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol

import torch


class Graph(Protocol):
    """A recording of work for the device."""

    def replay(self) -> None:
        """Queue all of it on the current stream."""
        ...


Outputs = tuple[list[int], list[Any]]
"""Addresses of the outputs of some calls, call by call, 0 for one that is copied
into its slot; and the outputs.
"""


class Captured(NamedTuple):
    """Some calls as one graph."""

    graph: Graph
    calls: int
    pointers: list[int]
    held: list[Any]
    """The outputs: without a reference to them, another recording would take their memory."""


class Graphs:
    """Graphs of one session, by the first of their input slots."""

    def __init__(self) -> None:
        """Allocates no memory at first."""
        self._captured: dict[int, Captured] = {}
        self._recorder: Recorder | None = None
        self._hand_over: Graph | None = None
        self._touched: torch.Tensor | None = None
        """Memory that the hand-over's graph writes."""

    def capture(
        self, first: int, count: int, call: Callable[[int, int], Outputs], device: torch.device
    ) -> list[int]:
        """Record `count` calls from slot `first` on and keep their graph; returns the addresses of
        the outputs.  With `count` = 0 delete all graphs.

        `call(first, count)` makes the calls.  Raises UncapturableError, and the errors of `call`.
        """
        if not count:
            self._captured.clear()
            self._recorder = self._hand_over = None
            return []
        if self._recorder is None:
            self._recorder, self._touched = Recorder(device), torch.zeros(1, device=device)
            self._hand_over = self._recorder.record(self._touched.zero_, self._touched.zero_)
        found: list[Outputs] = []
        graph = self._recorder.record(
            lambda: call(first, 1), lambda: found.append(call(first, count))
        )
        [(pointers, held)] = found
        self._captured[first] = Captured(graph, count, pointers, held)
        return pointers

    def play(self, first: int, count: int) -> list[int]:
        """Replay the graphs of `count` slots from `first` on, each once; returns the addresses of
        their outputs.  With `count` = 0 replay a graph of a tiny launch, so that the device
        switches to this process's context.

        Raises UncapturableError where there are no graphs that end there.
        """
        at, pointers = first, list[int]()
        if not count and self._hand_over is not None:
            self._hand_over.replay()
        while at < first + count:
            found = self._captured.get(at)
            if found is None or at + found.calls > first + count:
                raise UncapturableError(f"no graph of {first + count - at} calls from slot {at} on")
            found.graph.replay()
            pointers += found.pointers
            at += found.calls
        return pointers


class UncapturableError(Exception):
    """Error: calls that cannot be recorded."""


class Recorder:
    """Recorder of graphs, on a stream of its own.  Graphs share one memory pool, because they
    are replayed one after the other.
    """

    def __init__(self, device: torch.device) -> None:
        """Raises UncapturableError on the CPU device."""
        if device.type != "cuda":
            raise UncapturableError("the CPU device has no CUDA graphs")
        self._generator = torch.cuda.default_generators[device.index or 0]
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, warm_up: Callable[[], object], body: Callable[[], object]) -> Graph:
        """Record the work of `body`, after `warm_up` has created everything that is created once:
        handles, workspaces, kernels.  If recording fails, the state of the random generator is
        restored; otherwise it would remain in capture mode.

        `torch.cuda.graph` is not used because it releases cached memory.  The referee has mapped
        that memory, and other sessions would have to copy their outputs.
        """
        state = self._generator.clone_state()
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream())
        try:
            self._capture_on_stream(graph, warm_up, body)
        except BaseException:
            self._generator.graphsafe_set_state(state)
            raise
        finally:
            # A failed attempt leaves work behind that writes into memory which is
            # free from here on.
            torch.cuda.current_stream().wait_stream(self._stream)
        return graph

    def _capture_on_stream(
        self, graph: torch.cuda.CUDAGraph, warm_up: Callable[[], object], body: Callable[[], object]
    ) -> None:
        with torch.cuda.stream(self._stream), without_collection():
            with refusing_to_wait():
                warm_up()
            self._stream.synchronize()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                body()
            except BaseException:
                with suppress(RuntimeError):
                    graph.capture_end()
                raise
            graph.capture_end()


@contextmanager
def without_collection() -> Iterator[None]:
    """Disable garbage collection meanwhile: the collector could destroy another session's graph
    during a capture, which invalidates the capture.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def refusing_to_wait() -> Iterator[None]:
    """Have operations that wait for the device raise RuntimeError, because they
    cannot be captured.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that this mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
