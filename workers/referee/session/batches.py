"""Inputs and outputs of calls as private copies of the referee, one row a call."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from workers.protocol import layout
from workers.protocol.input_variants import Variant
from workers.referee.processes.snapshot import differ


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Inputs that no call has used yet, with their expected outputs, as private copies."""

    number: int
    seed: bytes
    inputs: torch.Tensor | None
    """uint8 (slots, slot_bytes); None if calls are streamed and each input set is
    drawn when it is needed.
    """
    expected: list[torch.Tensor]
    """Expected outputs, one tensor per leaf: (slots, elements); empty if they are
    made when outputs are verified.
    """
    baseline: list[torch.Tensor]
    """The same in the reference's own precision."""
    poison: torch.Tensor
    """uint8 (64,): content of an output slot before the call, repeated.  Leaves
    begin at multiples of 256 bytes.
    """
    at: int = 0
    """Slot of the first input set, chosen at random: the position must not show a
    process whether a call is timed.
    """
    rows: range = range(0)
    """Rows of this batch among all rows of the seed, if calls are streamed."""
    variants: tuple[Variant, ...] = ()
    """Change made to each input set after it was drawn; empty if there are none."""

    @property
    def slots(self) -> int:
        """Number of input sets."""
        return len(self.rows) if self.inputs is None else len(self.inputs)

    def variant(self, slot: int) -> Variant:
        """Change made to an input set."""
        return self.variants[slot] if self.variants else Variant.OWN

    def only(self, slots: list[int]) -> Batch:
        """The batch with some of its input sets; consecutive ones are not copied."""
        together = slots == list(range(slots[0], slots[-1] + 1))
        rows = slice(slots[0], slots[-1] + 1) if together else slots
        variants = tuple(self.variant(slot) for slot in slots)
        if self.inputs is None:
            if not together:
                raise ValueError(f"expected input sets that follow each other, got {slots}")
            return replace(self, rows=self.rows[slots[0] : slots[-1] + 1], variants=variants)
        return replace(
            self,
            at=self.at + together * slots[0],
            inputs=self.inputs[rows],
            expected=[leaf[rows] for leaf in self.expected],
            baseline=[leaf[rows] for leaf in self.baseline],
            variants=variants,
        )


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """Outputs of some calls of the candidate: a private copy, made when the process
    reported that it was done.
    """

    batch: Batch
    first: int
    count: int
    times: Times
    outputs: torch.Tensor
    """uint8 (calls, slot_bytes)."""
    pointers: list[int]
    """Addresses of the outputs in the process; see Session.delivered."""
    changed: list[tuple[int, ...]]
    """Per call, the inputs that it overwrote."""
    late: list[tuple[int, ...]]
    """Per call, the outputs that changed after the process had reported that it was done."""

    def part(self, start: int, stop: int) -> Delivery:
        """A range of the calls."""
        leaves = len(self.pointers) // self.count
        return replace(
            self,
            first=self.first + start,
            count=stop - start,
            outputs=self.outputs[start:stop],
            pointers=self.pointers[start * leaves : stop * leaves],
            changed=self.changed[start:stop],
            late=self.late[start:stop],
        )


class Times(NamedTuple):
    """Times of a block, in nanoseconds."""

    wall_ns: int
    claimed_ns: int
    """Time by the process's own clock."""
    settled_ns: int | None = None
    """Time from the process's report until a tiny launch of the referee was done;
    None if nothing is timed.
    """
    before_ns: int | None = None
    """Time from the end of writing the inputs until the device was idle; None if
    nothing is timed.
    """


Part = tuple[Batch, int, int]
"""Some calls of a batch: the batch, the first call, the number of calls."""


class Truth(NamedTuple):
    """Expected outputs of some calls."""

    expected: list[torch.Tensor]
    """Expected outputs, one tensor a leaf, (calls, elements): in fp64, or exact by its type."""
    baseline: list[torch.Tensor]
    """Expected outputs in the reference's own precision."""


class LastTruth(NamedTuple):
    """Expected outputs from the last request for them, of calls of one batch."""

    part: Part
    requests: int
    """The reference's number of requests at that time."""
    found: Truth

    def of(self, parts: Sequence[Part], requests: int) -> Truth | None:
        """Expected outputs of some calls, if the request was for these or more, and the reference
        has had no other since; else None.
        """
        if len(parts) != 1 or requests != self.requests or parts[0][0] is not self.part[0]:
            return None
        start, count = parts[0][1] - self.part[1], parts[0][2]
        if not 0 <= start <= self.part[2] - count:
            return None
        rows = slice(start, start + count)
        return Truth(
            expected=[leaf[rows] for leaf in self.found.expected],
            baseline=[leaf[rows] for leaf in self.found.baseline],
        )


def drawn_truth(parts: Sequence[Part], leaves: int) -> Truth:
    """Expected outputs of some calls, if they were drawn with the inputs."""
    rows = [(batch, slice(first, first + count)) for batch, first, count in parts]
    return Truth(
        expected=[
            joined([batch.expected[leaf][row] for batch, row in rows]) for leaf in range(leaves)
        ],
        baseline=[
            joined([batch.baseline[leaf][row] for batch, row in rows]) for leaf in range(leaves)
        ],
    )


def count_calls(deliveries: Sequence[Delivery]) -> int:
    """Number of calls in some deliveries."""
    return sum(delivery.count for delivery in deliveries)


def calls_of(deliveries: Sequence[Delivery]) -> list[tuple[Delivery, int]]:
    """Every call of some deliveries: the delivery, and the call's index in it."""
    return [(delivery, call) for delivery in deliveries for call in range(delivery.count)]


def in_parts(deliveries: Sequence[Delivery], at_once: int) -> Iterator[list[Delivery]]:
    """The deliveries in parts of at most `at_once` calls."""
    calls = calls_of(deliveries)
    for start in range(0, len(calls), at_once):
        yield joined_runs(calls[start : start + at_once])


def joined_runs(calls: list[tuple[Delivery, int]]) -> list[Delivery]:
    """The calls as deliveries, one for each run of consecutive calls of a delivery."""
    parts = []
    for _, group in itertools.groupby(calls, key=lambda call: id(call[0])):
        run = list(group)
        delivery, first = run[0]
        parts.append(delivery.part(first, first + len(run)))
    return parts


def joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """Rows of several tensors as one tensor; a single tensor is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def leaf_views(memory: torch.Tensor, region: layout.Region) -> list[torch.Tensor]:
    """Views of the slots, one tensor per leaf: (slots, elements).  They change with the memory."""
    found = []
    for offset, leaf in zip(region.offsets, region.leaves, strict=True):
        size = layout.size_of(leaf)
        empty = torch.empty((len(memory), 0), dtype=layout.dtype_of(leaf), device=memory.device)
        found.append(
            memory[:, offset : offset + size].view(layout.dtype_of(leaf)) if size else empty
        )
    return found


def leaf_copies(memory: torch.Tensor, region: layout.Region) -> list[torch.Tensor]:
    """Private copies of the slots, one tensor per leaf: (slots, elements)."""
    return [
        leaf.clone(memory_format=torch.contiguous_format) for leaf in leaf_views(memory, region)
    ]


def changed(
    before: torch.Tensor, after: torch.Tensor, region: layout.Region
) -> list[tuple[int, ...]]:
    """Leaves that differ in their bytes, per slot."""
    if not bool(differ(before, after)):
        return [()] * len(before)
    sizes = [layout.size_of(leaf) for leaf in region.leaves]
    spans = list(zip(region.offsets, sizes, strict=True))
    return [
        tuple(
            i
            for i, (at, size) in enumerate(spans)
            if bool(differ(old[:, at : at + size], new[:, at : at + size]))
        )
        for old, new in zip(torch.split(before, 1), torch.split(after, 1), strict=True)
    ]
