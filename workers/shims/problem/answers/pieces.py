"""A reference computed piece by piece along the first dimension, if that gives the same answer.

An fp64 computation on inputs of 8 GB takes 50 GB and more; on a sixteenth of the batch it takes a
sixteenth of that. The reference itself shows whether rows of a batch are independent: its answers
to pieces from both ends and from the middle must equal those parts of its whole answer.  They do
not for a batch norm in training mode, a sum over the batch, a mask that depends on the row's
number, or a cumulative sum along the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from workers.protocol import layout
from workers.protocol.roundoff import computable
from workers.shims.problem import memory_estimate

FROM_BYTES = 256 << 20
"""Size of the inputs and outputs of a call from which on it is computed in pieces."""

PIECE_BYTES = 64 << 20
"""Size of the inputs and outputs of a piece: large enough to keep a device busy."""

CLOSE = 1e-4
"""Relative L2 error by which a piece may differ: another batch size may mean another
order of summation, or TF32.
"""


def rows(call: Callable[[list[Any]], Any], inputs: list[Any], outputs: Any) -> int | None:
    """Rows of a piece; None if the problem is small or its rows are not independent.

    `call`: the reference; `outputs`: its answer to `inputs`."""
    total = memory_estimate.tensor_bytes(inputs) + memory_estimate.tensor_bytes(outputs)
    batch = _batch(inputs, outputs)
    if total < FROM_BYTES or batch is None or batch < 2:
        return None
    size = max(1, batch * PIECE_BYTES // total)
    if size >= batch:
        return None
    starts = (0, (batch - size) // 2, batch - size)
    return size if all(_agrees(call, inputs, outputs, size, start) for start in starts) else None


def cut(inputs: list[Any], size: int, start: int) -> list[Any]:
    """The inputs of a piece: some rows of those tensors whose first dimension is the
    batch; others whole.
    """
    batch = _leading(inputs)

    def piece(x: Any) -> Any:
        is_batch = isinstance(x, torch.Tensor) and x.dim() > 0 and x.shape[0] == batch
        return x[start : start + size] if is_batch else x

    return list(layout.mapped(piece, inputs))


def first(inputs: list[Any], outputs: Any, size: int) -> tuple[list[Any], list[torch.Tensor]]:
    """The inputs of the first piece, and its answer: one tensor per output."""
    return cut(inputs, size, 0), rows_of(list(layout.values(outputs)), size, 0)


def rows_of(views: list[torch.Tensor], size: int, start: int) -> list[torch.Tensor]:
    """Views of a piece's rows in tensors of the whole batch."""
    return [view[start : start + size] for view in views]


def _leading(inputs: list[Any]) -> int | None:
    """Size of the first tensor among the inputs along its first dimension."""
    first = next(
        (leaf for leaf in layout.values(inputs) if isinstance(leaf, torch.Tensor) and leaf.dim()),
        None,
    )
    return None if first is None else first.shape[0]


def _batch(inputs: list[Any], outputs: Any) -> int | None:
    """The common size of the first input and all outputs along their first
    dimension; None if they differ.
    """
    batch = _leading(inputs)
    leaves = list(layout.values(outputs))
    fits = all(
        isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == batch for leaf in leaves
    )
    return batch if leaves and fits else None


def _agrees(
    call: Callable[[list[Any]], Any], inputs: list[Any], outputs: Any, size: int, start: int
) -> bool:
    try:
        found = list(layout.values(call(cut(inputs, size, start))))
    except Exception:  # noqa: BLE001 (the problem's code may raise anything for a batch of another size)
        return False
    whole = rows_of(list(layout.values(outputs)), size, start)
    return len(found) == len(whole) and all(map(_close, found, whole))


def _close(piece: Any, whole: torch.Tensor) -> bool:
    if (
        not isinstance(piece, torch.Tensor)
        or piece.shape != whole.shape
        or piece.dtype != whole.dtype
    ):
        return False
    piece, whole = computable(piece), computable(whole)
    if not piece.is_floating_point():
        return torch.equal(piece, whole)
    apart = torch.linalg.vector_norm((piece.double() - whole.double()).nan_to_num())
    same_holes = torch.equal(torch.isfinite(piece), torch.isfinite(whole))
    return same_holes and bool(
        apart <= CLOSE * torch.linalg.vector_norm(whole.double().nan_to_num())
    )
