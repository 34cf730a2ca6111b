"""Fresh inputs from the reference, and their expected outputs, which are made with the
inputs or when outputs are verified.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import time
from collections.abc import Sequence

import torch

from workers.protocol import problem_spec
from workers.protocol.control_channel import Command
from workers.protocol.input_variants import Variant
from workers.referee.comparison import correctness
from workers.referee.host.device_lock import DeviceLock
from workers.referee.processes.process_session import Session, synchronize
from workers.referee.session.batches import (
    Batch,
    LastTruth,
    Part,
    Truth,
    drawn_truth,
    leaf_copies,
    leaf_views,
)
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S
from workers.referee.session.questions import Questions
from workers.referee.session.record import Record
from workers.referee.session.reference_side import reference_side
from workers.referee.session.streamed_truth import StreamedTruth
from workers.referee.session.verification import Verification

SLOW_TRUTH_S = 0.1
"""Seconds for the expected outputs of one call from which on they dominate an
evaluation.  A transposed convolution in three dimensions takes 0.47 s in fp64 and 41 ms
in fp32 (KernelBench 2/78, H200).
"""


REQUEST_S, ANSWERS_OF_KIND = 12.0, 4
"""Seconds for a request for unusual inputs, a fifth of the time limit because other evaluations
prolong it; and answers of the reference for a kind: its own, two in fp64, and a try.
"""


class Draws:
    """Input sets of one evaluation, drawn by its reference; the candidate sees each
    of them once.
    """

    def __init__(
        self,
        reference: Session,
        candidate: Session,
        spec: problem_spec.ProblemSpec,
        seed: bytes,
        device_lock: DeviceLock,
        rule: correctness.Rule,
    ) -> None:
        """Both sessions have their arenas; `seed`: the master seed; `rule`: decides
        whether an output is right.
        """
        assert reference.arena is not None
        self.device_lock = device_lock
        self.reference = reference
        self.candidate = candidate
        self.arena = reference.arena
        slots = reference.arena.slots
        self.in_block = slots.inputs
        """Input sets that fit into a process's slots."""
        self.slots = slots.inputs if slots.together else 2 * slots.inputs
        """Most input sets of a batch: a group of blocks takes two blocks of the candidate."""
        self.bytes_per_call = (
            spec.slot_bytes if slots.together else spec.input_bytes + spec.output_bytes
        )
        """The referee's memory for an input set and its delivered outputs, with expected
        outputs if they are made beforehand.
        """
        self.streams = slots.streamed
        """True if memory holds a single call."""
        self.record = Record(spec, reference.arena, rule)
        self.truth_s = math.inf
        """Least time so far for the expected outputs of one call, in seconds, if they are
        made when outputs are verified.
        """
        self.draw_us = math.inf
        """Least time so far for one input set, in microseconds; other evaluations
        only add to it.
        """
        self._call_s = spec.call_us / 1e6
        self._device = reference.handle.device
        self._seed = seed
        self._poisons = self._make_poisons()
        self._batches = 0
        self._last: LastTruth | None = None
        self._last_own: LastTruth | None = None
        """The same for `own_outputs`, without expected outputs: those of unusual inputs are looked
        at before the candidate's call, and compared after it.
        """
        self._streamed = StreamedTruth(reference, spec, device_lock.uncharged)
        self._drawn_row: tuple[int, int] | None = None
        """Batch and row of the inputs in the reference's only slot, if calls are streamed."""

    @property
    def are_costly(self) -> bool:
        """True if the expected outputs of one call take long, so that fewer calls are made."""
        return SLOW_TRUTH_S < self.truth_s < math.inf

    @property
    def has_slow_draws(self) -> bool:
        """True if an input set with its expected outputs takes long, whenever these are made: so do
        references of ten thousand operators, however small.
        """
        return self.are_costly or SLOW_TRUTH_S < self.draw_us / 1e6 < math.inf

    @property
    def kinds_at_once(self) -> int:
        """Kinds of unusual inputs for one request: the reference makes several answers for each,
        and its process has to answer in time.
        """
        drawn_s = self.draw_us / 1e6 / 2 if self.draw_us < math.inf else 0.0
        kind_s = ANSWERS_OF_KIND * max(drawn_s, self._call_s, 1e-6)
        return max(1, min(self.in_block, int(REQUEST_S / kind_s)))

    @property
    def questions(self) -> Questions:
        """Questions about the candidate's answers."""
        return Questions(self.reference, self.arena, self.device_lock.uncharged, self.given)

    @property
    def verification(self) -> Verification:
        """Comparison of the candidate's answers with the reference's."""
        return Verification(self.record, self, self.arena)

    @property
    def gave_back(self) -> bool:
        """True if the reference's process has released cached memory, for this evaluation or
        another one, since its outputs were mapped: they will have other addresses.
        """
        return self.reference.has_lost_mapping

    def yield_to_timers(self) -> None:
        """Let waiting timers go first, between two steps of the evaluation."""
        if self.device_lock.obstructed:
            self.candidate.process.freeze()
            self.device_lock.yield_to_timers()

    def draw(self, count: int) -> Batch:
        """Make the reference draw `count` new input sets under a new seed, with their expected
        outputs if memory allows (problem_spec.Slots).
        """
        self._last_own = None  # its batch may hold gigabytes
        self.yield_to_timers()
        seed = self._next_seed()
        if self.arena.slots.streamed:
            batch = self._batch(seed, None, rows=range(count))
            self._ensure_drawn(batch, 0)
            return batch
        if count <= self.in_block:
            self._generate(seed, 0, count)
            return self._drawn(count, seed)
        size = self.arena.inputs.slot_bytes
        inputs = torch.empty((count, size), dtype=torch.uint8, device=self._device)
        for first in range(0, count, self.in_block):
            some = min(self.in_block, count - first)
            self._generate(seed, first, some)
            inputs[first : first + some].copy_(self.reference.region(self.arena.inputs, 0, some))
            self.reference.note_readers()
        return self._batch(seed, inputs)

    def _generate(self, seed: bytes, row: int, count: int) -> None:
        """Draw rows of a batch into the reference's first slots."""
        with reference_side(self.device_lock.uncharged), self.reference.handle.lock:
            self.reference.wait_for_readers()
            began = time.perf_counter()
            self.reference.ask(
                Command.GENERATE, REFERENCE_TIMEOUT_S, a=0, b=count, c=row, seed=seed
            )
            self.draw_us = min(self.draw_us, (time.perf_counter() - began) * 1e6 / count)

    def draw_unusual(self, wanted: Sequence[Variant], sets: int = 1) -> Batch | None:
        """`sets` input sets for each of the `wanted` variants that the reference can make;
        None if it can make none of them.  They have to fit into a process's slots.
        """
        self._last_own = None  # its batch may hold gigabytes
        self.yield_to_timers()
        seed = self._next_seed()
        made = self._vary(seed, wanted, sets)
        variants = tuple(each for each in sorted(wanted) if made >> each & 1 for _ in range(sets))
        if not variants:
            return None
        if not self.arena.slots.streamed:
            return self._drawn(len(variants), seed, variants)
        batch = self._batch(seed, None, rows=range(1), variants=variants)
        self._drawn_row = (batch.number, 0)
        return batch

    def _vary(self, seed: bytes, wanted: Sequence[Variant], sets: int = 1) -> int:
        """Draw `sets` input sets for each variant into the reference's first slots; returns the
        bit mask of those that were made.
        """
        self._drawn_row = None
        if self.streams:
            self._drop_expected()
        with reference_side(self.device_lock.uncharged):
            self.reference.wait_for_readers()
            mask = sum(1 << variant for variant in wanted)
            made, refused = self.reference.ask_for_text(
                Command.VARY, REFERENCE_TIMEOUT_S, a=0, b=mask, c=sets, seed=seed
            )
        self.record.excused += refused.splitlines()
        return made

    def _ensure_drawn(self, batch: Batch, slot: int) -> None:
        """Ensure that a streamed call's inputs are in the reference's only slot,
        drawing them again if necessary.
        """
        row = batch.rows[slot]
        if self._drawn_row == (batch.number, row):
            return
        self._drop_expected()
        if batch.variants and batch.variant(slot) != Variant.OWN:
            self._vary(batch.seed, [batch.variant(slot)])
        else:
            self._generate(batch.seed, row, 1)
        self._drawn_row = (batch.number, row)

    def given(self, batch: Batch, first: int, count: int) -> torch.Tensor:
        """Inputs of some calls, uint8 (count, slot_bytes)."""
        if batch.inputs is not None:
            return batch.inputs[first : first + count]
        if count != 1:
            raise ValueError(f"expected one call at a time, got {count}")
        self._ensure_drawn(batch, first)
        return self.reference.region(self.arena.inputs, 0, 1)

    def slot(self, batch: Batch, first: int, count: int) -> int:
        """Input slot of the first of a block of calls."""
        at = batch.at + first
        return at if self.arena.slots.together else at % (self.in_block - count + 1)

    def truth(self, parts: Sequence[Part]) -> Truth:
        """Expected outputs of some calls, of several batches in order.

        If they are made only now, there are no more calls than slots for expected outputs, and the
        result is valid until the next request.
        """
        if self.arena.slots.together:
            return drawn_truth(parts, len(self.arena.outputs.leaves))
        if self._last is not None and (known := self._last.of(parts, self.reference.requests)):
            return known
        began = time.perf_counter()
        found = (
            self._truth_of_one(parts) if self.arena.slots.streamed else self._truth_of_some(parts)
        )
        self.truth_s = min(
            self.truth_s, (time.perf_counter() - began) / sum(count for _, _, count in parts)
        )
        last = LastTruth(parts[0], self.reference.requests, found)
        self._last = last if len(parts) == 1 else None
        return found

    def _truth_of_some(self, parts: Sequence[Part]) -> Truth:
        """Expected outputs, computed into the reference's slots for them."""
        reference, arena = self.reference, self.arena
        count = self._place_inputs(parts)
        with reference_side(self.device_lock.uncharged):
            reference.ask(Command.EXPECT, REFERENCE_TIMEOUT_S, a=0, b=count)
        return Truth(
            expected=leaf_views(reference.region(arena.expected, 0, count), arena.expected),
            baseline=leaf_views(reference.region(arena.baseline, 0, count), arena.baseline),
        )

    def _place_inputs(self, parts: Sequence[Part]) -> int:
        """Copy the inputs of some calls into the reference's first slots; returns their number."""
        count = 0
        self.reference.wait_for_readers()
        for batch, first, some in parts:
            self.reference.region(self.arena.inputs, count, some).copy_(
                self.given(batch, first, some)
            )
            count += some
        synchronize(self._device)
        return count

    def own_outputs(self, parts: Sequence[Part]) -> list[torch.Tensor]:
        """The reference's outputs in its own precision, without the expected ones.  Calls as in
        `truth`; valid until the next request.
        """
        reference, arena = self.reference, self.arena
        if self._last_own is not None and (known := self._last_own.of(parts, reference.requests)):
            return known.baseline
        if arena.slots.streamed:
            [(batch, first, count)] = parts
            self.given(batch, first, count)
            self._streamed.make_room_for_own()
        else:
            count = self._place_inputs(parts)
        with reference_side(self.device_lock.uncharged):
            reference.ask(Command.EXPECT, REFERENCE_TIMEOUT_S, a=0, b=count, c=1)
        found = leaf_views(reference.region(arena.baseline, 0, count), arena.baseline)
        last = LastTruth(parts[0], reference.requests, Truth([], found))
        self._last_own = last if len(parts) == 1 else None
        return found

    def _truth_of_one(self, parts: Sequence[Part]) -> Truth:
        """Expected outputs of a streamed call."""
        [(batch, first, count)] = parts
        self.given(batch, first, count)
        found, by_twin = self._streamed.compute()
        self.record.own_truth_calls += not by_twin
        return found

    def make_room_to_call(self) -> None:
        """Have memory free for an untimed call of a streamed problem."""
        if self.streams:
            self.release_spare_memory()
            self._streamed.make_room_to_call()

    def _next_seed(self) -> bytes:
        self._batches += 1
        return hashlib.sha256(self._seed + self._batches.to_bytes(8, "little")).digest()

    def _batch(
        self,
        seed: bytes,
        inputs: torch.Tensor | None,
        rows: range = range(0),
        variants: tuple[Variant, ...] = (),
    ) -> Batch:
        """A batch without expected outputs, which are made when they are needed."""
        at = secrets.randbelow(self.in_block)
        return Batch(
            number=self._batches,
            seed=seed,
            inputs=inputs,
            expected=[],
            baseline=[],
            at=at,
            rows=rows,
            poison=self._poisons[self._batches % 2],
            variants=variants,
        )

    def _drawn(self, count: int, seed: bytes, variants: tuple[Variant, ...] = ()) -> Batch:
        """A batch from the reference's slots."""
        arena, reference = self.arena, self.reference
        inputs = reference.region(arena.inputs, 0, count).clone()
        if arena.slots.together:
            batch = Batch(
                number=self._batches,
                seed=seed,
                variants=variants,
                at=secrets.randbelow(self.slots - count + 1),
                inputs=inputs,
                expected=leaf_copies(reference.region(arena.expected, 0, count), arena.expected),
                baseline=leaf_copies(reference.region(arena.baseline, 0, count), arena.baseline),
                poison=self._poisons[self._batches % 2],
            )
        else:
            batch = self._batch(seed, inputs, variants=variants)
        reference.note_readers()
        return batch

    def _make_poisons(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Two patterns for output slots: 64 random bytes, which no answer is likely to hold,
        and their complement for every second batch.  An element that holds first one and
        then the other was never written.
        """
        poison = torch.frombuffer(bytearray(os.urandom(64)), dtype=torch.uint8).to(self._device)
        return poison, ~poison

    def release_spare_memory(self) -> None:
        """Before a timed block, release the memory for expected outputs if little is
        free: both sides may need it.
        """
        if self._streamed.lacks_memory:
            self._drop_expected()

    def _drop_expected(self) -> None:
        """Release the expected outputs of a streamed call: drawing needs that memory."""
        self._streamed.release()
        self._last = None
