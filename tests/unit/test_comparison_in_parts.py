"""Comparisons of outputs that fill a device: temporaries stay small, and results are
those of one piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from workers.protocol import layout
from workers.referee.comparison import correctness, output_errors, unwritten, usual_answers
from workers.referee.processes import snapshot
from workers.referee.session import batches

AT_ONCE = 512
"""Elements compared at once here."""

CALLS, ELEMENTS = 2, 1 << 15


class Largest(TorchDispatchMode):
    """Records the bytes of the largest tensor that an operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        given = {
            each.untyped_storage().data_ptr()
            for each in layout.values([args])
            if isinstance(each, torch.Tensor)
        }
        for each in layout.values([found]):
            if isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() not in given:
                self.bytes = max(self.bytes, each.numel() * each.itemsize)
        return found


def _outputs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs with a few errors, and the expected ones."""
    expected = torch.randn(
        CALLS, ELEMENTS, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    got = expected.to(dtype)
    got[0, 5::1000] += 1
    return got, expected


def _with_infinity(dtype: torch.dtype) -> tuple[torch.Tensor]:
    values = _outputs()[1].to(dtype)
    values[1, 77] = math.inf
    return (values,)


POISON = torch.arange(64, dtype=torch.uint8)
UNWRITTEN = POISON.repeat(CALLS * ELEMENTS // 16)
LEAF = {"kind": "tensor", "dtype": "uint8", "shape": [2 * ELEMENTS], "stride": None}
REGION = layout.lay_out(0, CALLS, [LEAF, LEAF])


def _changed() -> tuple[torch.Tensor, torch.Tensor]:
    before = torch.zeros(CALLS, REGION.slot_bytes, dtype=torch.uint8)
    after = before.clone()
    after[1, REGION.offsets[1] + 3] = 1
    return before, after


def _reviewed(got: torch.Tensor, expected: torch.Tensor) -> list[Any]:
    compared = correctness.compare(got, expected, got, POISON, 0, (ELEMENTS,))
    look = correctness.SecondLook(l2=0.0, largest=0.0, ties=0, close=0)
    return compared.reviewed(0, expected[:1], got[:1], look).errors


USUAL = usual_answers.AnswerSize(rms=1.0, error=0.0)
LARGEST_BYTES = CALLS * AT_ONCE * 16
"""A part of an output in fp64, and some more."""


@pytest.mark.parametrize(
    ("given", "compute", "largest_bytes"),
    [
        (
            _outputs,
            lambda got, exact: correctness.compare(got, exact, got, POISON, 0, (ELEMENTS,)).errors,
            LARGEST_BYTES,
        ),
        (_outputs, _reviewed, LARGEST_BYTES),
        (_outputs, lambda got, exact: correctness._beyond(got, exact, 1e-3, 1e-3), LARGEST_BYTES),
        (lambda: _with_infinity(torch.float64), usual_answers.root_mean_square, LARGEST_BYTES),
        (_outputs, lambda got, _: usual_answers.looks_usual(got, USUAL), LARGEST_BYTES),
        (
            lambda: _with_infinity(torch.float32),
            lambda own: usual_answers.looks_usual(own, USUAL),
            LARGEST_BYTES,
        ),
        (_outputs, lambda got, _: output_errors.is_finite(got), LARGEST_BYTES),
        (lambda: _with_infinity(torch.float16), output_errors.is_finite, LARGEST_BYTES),
        (lambda: (UNWRITTEN.view(torch.float32), POISON), unwritten.untouched, len(UNWRITTEN) // 4),
        (lambda: (UNWRITTEN, POISON), unwritten.untouched, len(UNWRITTEN)),  # a mask of the output
        (lambda: (UNWRITTEN > 3, UNWRITTEN > 5), unwritten.both, LARGEST_BYTES),
        (_changed, lambda before, after: batches.changed(before, after, REGION), LARGEST_BYTES),
    ],
)
def test_parts_give_the_same_result_and_take_little_memory(
    monkeypatch: pytest.MonkeyPatch,
    given: Callable[[], tuple[torch.Tensor, ...]],
    compute: Callable[..., Any],
    largest_bytes: int,
) -> None:
    in_one_piece = compute(*given())
    for module, name in (
        (output_errors, "AT_ONCE"),
        (unwritten, "AT_ONCE"),
        (snapshot, "COMPARED_WORDS"),
    ):
        monkeypatch.setattr(module, name, AT_ONCE)
    outputs, largest = given(), Largest()
    with largest:
        in_parts = compute(*outputs)
    assert largest.bytes <= largest_bytes
    torch.testing.assert_close(in_one_piece, in_parts, equal_nan=True)


def test_changed_outputs_are_named_by_call() -> None:
    assert batches.changed(*_changed(), REGION) == [(), (1,)]
