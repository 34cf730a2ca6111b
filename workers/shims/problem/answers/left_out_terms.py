"""Answers of a reference without the results of some of its operators.

A term of a sum may be so faint a part of an answer that one without it is right in single
precision, as in `relu(x) + 1e-9 * sort(x)`.  Zeros in place of each costly operator's result show
which ones belong to such terms.  An operator that changes nothing at all does not: its result is
not used, and may be left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from workers.backends.recording import library_work
from workers.protocol import layout
from workers.protocol.roundoff import is_inexact
from workers.shims.problem.answers import true_answer
from workers.shims.problem.answers.true_answer import Widened

LARGE = 0.05
"""Least work of an operator, relative to the largest one's: there is little to gain by others."""

SEARCH_S = 1.0
"""Processor seconds after which no further operator is tried: timers wait meanwhile."""

Change = Callable[[torch.Tensor, int], torch.Tensor]
"""Function that gives another tensor in place of a result; the second argument is its number."""


class LeavingOut(Widened):  # type: ignore[no-untyped-call]
    """Dispatch mode that computes in fp64, with the results of some operators replaced."""

    def __init__(self, chosen: Collection[int], change: Change) -> None:
        """`chosen`: numbers of the operators, those that write or make views left out."""
        super().__init__()
        self._chosen, self._change = chosen, change
        self._count = 0
        self.work: list[int] = []
        """Modelled bytes of each operator (library_work.py); empty if some are chosen."""

    def compute(self, func: Any, called: torch.dtype, args: Any, kwargs: Any) -> Any:
        """The operation's result, replaced if it is that of a chosen operator."""
        result = super().compute(func, called, args, kwargs)
        if func.is_view or func._schema.is_mutable:
            return result
        number, self._count = self._count, self._count + 1
        if not self._chosen:
            self.work.append(library_work.work_of(func, args, kwargs, result))
        if number not in self._chosen:
            return result
        return layout.mapped(lambda each: self._replaced(each, number), result)

    def _replaced(self, value: Any, number: int) -> Any:
        if not isinstance(value, torch.Tensor) or not is_inexact(value.dtype):
            return value
        found = self._change(value, number)
        found._nominal = true_answer.nominal(value)  # type: ignore[attr-defined]
        return found


def faint(
    answer: Callable[[Collection[int]], Sequence[torch.Tensor]],
    work: Sequence[int],
    is_faint: Callable[[Sequence[torch.Tensor]], bool],
) -> frozenset[int]:
    """Numbers of costly operators without which an answer is right, and not the same.

    `answer`: the answer without some operators; `work`: that of each; `is_faint`: tests an answer
    without one.
    """
    until, least = time.process_time() + SEARCH_S, LARGE * max(work, default=0)
    costly = [number for number, each in enumerate(work) if each and each >= least]
    found = set()
    for number in sorted(costly, key=work.__getitem__, reverse=True):
        if time.process_time() > until:
            break
        try:
            if is_faint(answer({number})):
                found.add(number)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # noqa: BLE001, S112 (operators may raise anything for zeros: they matter)
            continue
    return frozenset(found)
