"""Expected outputs of streamed calls: memory holds one call, and these have memory of their own."""

from __future__ import annotations

import torch

from workers.protocol import problem_spec, shared_memory
from workers.protocol.control_channel import Command, Delivering
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.processes.process_session import Session
from workers.referee.session import memory_needs
from workers.referee.session.batches import Truth, leaf_views
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S
from workers.referee.session.reference_side import give_back, make_room, reference_side


class StreamedTruth:
    """Expected outputs of the inputs in the reference's only slot."""

    def __init__(
        self, reference: Session, spec: problem_spec.ProblemSpec, uncharged: UnchargedTime
    ) -> None:
        """`reference`: has its arena; `uncharged`: counts the time of its requests."""
        self._reference = reference
        self._uncharged = uncharged
        self._device = reference.handle.device
        self._call_bytes = spec.peaks.call_bytes
        self._truth_bytes = max(spec.peaks.call_bytes, spec.peaks.truth_bytes)
        self._memory: shared_memory.Kept | None = None

    def compute(self) -> tuple[Truth, bool]:
        """Expected outputs, valid until the next request, and whether they are those in fp64: for
        lack of memory they may be the reference's own.

        Drawing leaves memory in the reference's process that was not reserved together with the
        expected outputs (memory_needs.py).  From the survey of its outputs on the process keeps
        that memory: they have to stay where they are mapped.
        """
        reference, arena = self._reference, self._reference.arena
        assert arena is not None
        if reference.delivering != Delivering.HOLD and self._device.type == "cuda":
            give_back(reference, self._uncharged)
        self._make_room(self._truth_bytes + (0 if self._memory else arena.expected.stop))
        self._memory = self._memory or shared_memory.Kept(self._device, arena.expected.stop)
        with reference_side(self._uncharged):
            by_twin, _ = reference.ask(
                Command.EXPECT, REFERENCE_TIMEOUT_S, a=0, b=1, fd=self._memory.fd
            )
        self._make_room(
            memory_needs.of_verifying(arena.outputs.slot_bytes) + self._truth_bytes
        )  # for comparing, and the next call
        expected = self._memory.memory.whole[: arena.expected.slot_bytes][None]
        found = Truth(
            expected=leaf_views(expected, arena.expected),
            baseline=leaf_views(reference.region(arena.baseline, 0, 1), arena.baseline),
        )
        return found, bool(by_twin)

    def make_room_for_own(self) -> None:
        """Have memory free for the reference's own outputs."""
        self._make_room(self._truth_bytes)

    def make_room_to_call(self) -> None:
        """Have memory free for an untimed call: the other side, and the computation of expected
        outputs, may keep more than is left for their next use.
        """
        self._make_room(self._call_bytes)

    @property
    def lacks_memory(self) -> bool:
        """True if there are expected outputs, and little is free beside them."""
        if self._memory is None or self._device.type != "cuda":
            return False
        return torch.cuda.mem_get_info(self._device)[0] < self._truth_bytes

    def release(self) -> None:
        """Release the memory for expected outputs; those of the last call are views of it."""
        self._memory = None

    def _make_room(self, need_bytes: int) -> None:
        make_room(self._reference, need_bytes, self._uncharged)
