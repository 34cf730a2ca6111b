"""Snapshots of outputs, and tests whether the memory has changed since."""

from __future__ import annotations

from typing import NamedTuple

import torch

JOINED_BYTES = 64 << 20
"""Total size up to which outputs are compared in one operation, as a second copy; larger ones are
compared separately.
"""

COMPARED_WORDS = 1 << 26
"""Elements compared at once."""

Shared = tuple[torch.Tensor, torch.Tensor]
"""Part of a private copy, and the shared memory that it was copied from; of equal shape."""


class Snapshot(NamedTuple):
    """Outputs at one moment."""

    copy: torch.Tensor
    """uint8 (calls, slot_bytes), laid out like slots."""
    runs: list[Shared]
    """(calls, elements): outputs of consecutive calls at equal distances in memory."""
    rest: list[Shared]
    """(bytes,): pieces at arbitrary addresses."""

    def differs(self) -> torch.Tensor:
        """True if the shared memory has changed: a bool on the device, without waiting for it.

        The device is held meanwhile, and each operation takes some 10 µs to start: outputs of a
        hundred calls, which lie in twenty runs, are copied once more and compared as a whole.
        """
        pairs = [*self.runs, *self.rest]
        if not pairs:
            return torch.zeros((), dtype=torch.bool, device=self.copy.device)
        if len(pairs) == 1 or self.copy.nbytes > JOINED_BYTES:
            return _any([differ(target, source) for target, source in pairs])
        found = [self._runs_differ()] if self.runs else []
        if self.rest:
            now = [torch.empty_like(target) for target, _ in self.rest]
            torch._foreach_copy_(now, [source for _, source in self.rest])
            before = torch.cat([target for target, _ in self.rest])
            found.append(torch.ne(torch.cat(now), before).any())
        return _any(found)

    def _runs_differ(self) -> torch.Tensor:
        again = self.copy.clone()
        torch._foreach_copy_(
            [_at_the_same_place(again, target) for target, _ in self.runs],
            [source for _, source in self.runs],
        )
        return differ(self.copy, again)


def _at_the_same_place(memory: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The view of `memory` that `target` is of a tensor of the same layout, which begins its
    storage.
    """
    flat = memory.view(-1).view(target.dtype)
    return flat.as_strided(target.shape, target.stride(), target.storage_offset())


def _any(found: list[torch.Tensor]) -> torch.Tensor:
    """True if one of these bools on the device is."""
    return found[0] if len(found) == 1 else torch.stack(found).any()


def differ(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Test whether two memories of equal shape differ: a bool on the device.

    They are read in words of eight bytes if possible, some at a time: a comparison takes up to
    as much memory as its operands.
    """
    pairs = [
        in_words(left, right) if left.dim() > 1 and left.dtype == torch.uint8 else (left, right)
    ]
    if pairs[0][0].numel() > COMPARED_WORDS:
        [(a, b)] = pairs
        columns = max(1, COMPARED_WORDS * a.shape[-1] // a.numel())
        pairs = list(
            zip(torch.split(a, columns, dim=-1), torch.split(b, columns, dim=-1), strict=True)
        )
    return _any([torch.ne(a, b).any() for a, b in pairs])


def rewrite(memory: torch.Tensor) -> None:
    """Read and write memory without changing it, uint8 (calls, bytes).

    Streamed inputs are drawn by the reference's process into its own slot and copied into the
    candidate's by the referee.  The process that has just written 8 GB finds them faster, although
    the second-level cache is full of other data by then: before slots of both sides were written by
    the referee, all of 34 such problems of KernelBench took their own copy for slower, in the
    median by 1 %, reductions by 5 % (H200).
    """
    for part in torch.split(in_words(memory, memory)[0], COMPARED_WORDS, dim=-1):
        part.bitwise_or_(0)


def in_words(target: torch.Tensor, source: torch.Tensor) -> Shared:
    """Both memories as words of eight bytes, or unchanged if their layout does not allow it: memory
    that is not contiguous is copied and compared element by element.
    """
    for rows in (target, source):
        if any(
            int(n) % 8
            for n in (rows.data_ptr(), rows.storage_offset(), rows.stride(0), rows.shape[1])
        ):
            return target, source
    return target.view(torch.int64), source.view(torch.int64)
