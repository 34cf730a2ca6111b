"""Tensors that the library computed earlier in a call than a candidate's kernel wrote the same
values.

A candidate may have the library compute its answer, move or encode it (turned round, as its bits'
complement, in two parts), and undo that in a kernel.  In the call of which launches' writes are
kept, a sample of every tensor that the library computes is noted.  A launch that writes the values
of one of them is explained by that tensor: in another call (AblationMode.SCALE) it is written in
place of the launch, and if the answer is still right, the library had computed it.

This does not guard against an answer that the library never holds as such: its square root, which a
kernel squares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from workers.backends.recording.library_work import FREE, tensors
from workers.backends.support.dispatch_mode import Watching

SAMPLED = 64
"""Evenly spaced elements of a tensor that are noted."""

MOST_NOTED, LARGEST_VIEW = 512, 1 << 22
"""Most tensors that are noted, and elements of the largest that is copied to be noted."""


class EarlierTensors(Watching):  # type: ignore[no-untyped-call]
    """Dispatch mode that notes samples of the tensors that the library computes in one call, or
    keeps some of them.
    """

    def __init__(self, wanted: Collection[int] | None = None) -> None:
        """`wanted`: numbers, in the order of the call, of the tensors that are kept; None to note
        samples of all.
        """
        super().__init__()
        self.kept: dict[int, torch.Tensor] = {}
        self._wanted = wanted
        self._samples: dict[int, tuple[int, torch.Tensor]] = {}
        """By number: the number of elements, and some of them."""
        self._number = 0
        self._pauses = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Context of operators that are not the candidate's."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    def numbers_of(self, values: torch.Tensor, rounding: float) -> Iterator[int]:
        """Numbers of the tensors whose samples are those of this one, but for `rounding` of the
        largest element.
        """
        sample = _sample(values)
        if sample is None or not bool((sample != sample[0]).any()):
            return
        mine = sample.cpu().double()
        for number, (count, noted) in self._samples.items():
            if count != values.numel() or noted.dtype != values.dtype:
                continue
            off = (noted.cpu().double() - mine).abs().max()
            if bool(off <= rounding * mine.abs().max()):
                yield number

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self._pauses and not func.is_view and func._schema.name not in FREE:
            for made in tensors([result]):
                self._note(made)
        return result

    def _note(self, made: torch.Tensor) -> None:
        number, self._number = self._number, self._number + 1
        if self._wanted is not None:
            if number in self._wanted:
                self.kept[number] = made.detach().clone()
        elif len(self._samples) < MOST_NOTED and (sample := _sample(made)) is not None:
            self._samples[number] = made.numel(), sample


def _sample(x: torch.Tensor) -> torch.Tensor | None:
    """Some elements of a tensor of floats; None of one that has none, or is large and would have to
    be copied.
    """
    is_plain = type(x) in (torch.Tensor, torch.nn.Parameter) and x.layout == torch.strided
    if not is_plain or x.is_meta or not x.is_floating_point() or x.numel() < 2:
        return None
    if not x.is_contiguous() and x.numel() > LARGEST_VIEW:
        return None
    flat = x.detach().reshape(-1)
    return flat[:: max(1, len(flat) // SAMPLED)].clone()
