"""Sessions of a reference's process: one for each evaluation of its problem, with
its own parameters and arena.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from workers.protocol import layout, problem_spec, shared_memory
from workers.shims import calls, heap, returned_outputs
from workers.shims.problem import graph_replay
from workers.shims.problem.inputs.input_domain import Moved

KEPT_BYTES = 1 << 30
"""GPU memory kept for the next session."""

QUEUED_S = 1e-3
"""Seconds of work on the device that may be queued behind one another: no pause stops it, and a
wait for each call's own would take a turn of the device among other processes.
"""

Draw = Callable[[], Any]
"""Inputs of one call, as the problem's code gives them."""

Answers = tuple[list[torch.Tensor], list[torch.Tensor]]
"""Expected values of one slot: the reference's outputs, the fp64 outputs."""


class Session:
    """State that the process keeps for one evaluation."""

    def __init__(
        self, spec: problem_spec.ProblemSpec, draw: Draw, model: Any, twin: Any, init: list[Any]
    ) -> None:
        """`twin`: copy of the model that computes expected outputs, None if those are the model's
        own outputs; `init`: constructor arguments.
        """
        self.spec = spec
        self.draw = draw
        self.model = model
        self.twin = twin
        self.init = init
        self.slots: calls.Slots | None = None
        self.inputs: list[list[torch.Tensor]] = []
        """Views of input slots, one list a slot."""
        self.answers: list[Answers] = []
        """Views of baseline and expected outputs, one pair a slot."""
        self.own: list[list[torch.Tensor]] = []
        """Views of baseline, one list a slot; more than `answers` if expected outputs are
        made when outputs are verified.
        """
        self.arena: problem_spec.Arena | None = None
        self.memory: shared_memory.Memory | None = None
        self.recording: graph_replay.Recording | None = None
        self.moved: Moved | None = None
        """Changes of the problem's own inputs and of their answer by rounding; None until
        measured.
        """

    @property
    def returned(self) -> int:
        """Number of the outputs in a slot that a call returns: changed inputs follow them."""
        assert self.arena is not None
        return len(self.arena.outputs.leaves) - len(self.spec.compared_inputs)

    def answers_of(self, slot: int) -> Answers | None:
        """Views for the expected outputs of a slot; None if those are not made when
        its inputs are drawn.
        """
        assert self.arena is not None
        return self.answers[slot] if self.arena.slots.together else None


def seed_slot(seed: bytes, slot: int) -> None:
    """Seed the generators for the inputs drawn into a slot."""
    calls.seed_everything(hashlib.sha256(seed + slot.to_bytes(4, "little")).digest(), calls.DRAWING)


def seed_changes(seed: bytes, slot: int) -> None:
    """Seed the generators for changes to the inputs of a slot: other numbers than those that its
    inputs were drawn from, or the largest would be changed, or the least.
    """
    seed_slot(hashlib.sha256(b"changes" + seed).digest(), slot)


def write(views: list[torch.Tensor], value: object) -> None:
    """Write the values of an answer or of inputs into views, leaf by leaf."""
    returned_outputs.write(zip(layout.values(value), views, strict=True))


def call(model: Any, inputs: list[Any]) -> Any:
    """One call of a model, without gradients."""
    with torch.no_grad():
        return model(*inputs)


def settle(device: torch.device) -> None:
    """Wait until the device has done all queued work, before the referee reads the results."""
    if device.type == "cuda":
        torch.cuda.synchronize()


class WorkQueue:
    """Queue of calls that differ in their inputs alone; waits for the device where more of them
    would take longer than QUEUED_S, by the time of the last ones.
    """

    def __init__(self, device: torch.device) -> None:
        """Empty."""
        self._device = device
        self._calls, self._most = 0, 1
        self._began = perf_counter()

    def add_call(self) -> None:
        """Count a call whose work has been queued."""
        self._calls += 1
        if self._calls < self._most:
            return
        settle(self._device)
        now = perf_counter()
        self._most = max(1, int(QUEUED_S * self._calls / max(now - self._began, 1e-9)))
        self._calls, self._began = 0, now


def seconds(device: torch.device, work: Callable[[], object]) -> float:
    """Seconds that some work takes, with everything that it queues on the device."""
    settle(device)
    began = perf_counter()
    work()
    settle(device)
    return perf_counter() - began


def keep_little(device: torch.device) -> bool:
    """Release torch's cached device memory if it exceeds KEPT_BYTES; returns whether it did.  On
    the CPU device free memory of the heap is released.
    """
    if device.type == "cpu":
        heap.trim()
    much = device.type == "cuda" and torch.cuda.memory_reserved() > KEPT_BYTES
    if much:
        gc.collect()  # a model may leave cycles that hold tensors
        torch.cuda.empty_cache()
    return much
