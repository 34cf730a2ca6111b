"""Null answers, computed without the inputs and held to the same rule as a candidate's: if one
passes, passing proves little.

Source: robust-kbench, which filters such problems beforehand.  Here the inputs of
each evaluation are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from workers.protocol.roundoff import is_inexact
from workers.referee.comparison import correctness

TOGETHER_BYTES = 64 << 20
LARGE_CALLS = 2
"""Calls for which a large output is compared, to save time; its answers are compared
one by one, to save memory.
"""


def accepted(
    expected: Sequence[torch.Tensor],
    baseline: Sequence[torch.Tensor],
    rule: correctness.Rule = correctness.DEFAULT_RULE,
) -> tuple[str, ...]:
    """Names among `zeros`, `mean` and `another_call` that are within tolerance in every output of
    every call; for large outputs, of the first calls.

    `expected`, `baseline`: one per leaf of the outputs, (calls, elements), in fp64
    and in the output's own type.
    """
    if not any(leaf.numel() for leaf in baseline):
        return ()
    right: set[str] | None = None
    for exact, own in zip(expected, baseline, strict=True):
        passed = _passed(exact, own, rule)
        right = passed if right is None else right & passed
    return tuple(name for name in ("zeros", "mean", "another_call") if name in (right or ()))


def _passed(exact: torch.Tensor, own: torch.Tensor, rule: correctness.Rule) -> set[str]:
    """Names of the null answers that are right in every call."""
    if own.nbytes > TOGETHER_BYTES:
        exact, own = exact[:LARGE_CALLS], own[:LARGE_CALLS]
        return {name for name, answer in _answers(own) if all(_right(answer, exact, own, rule))}
    answers = list(_answers(own))
    right = _right(torch.cat([answer for _, answer in answers]), exact, own, rule)
    return {
        name
        for index, (name, _) in enumerate(answers)
        if all(right[index * len(own) :][: len(own)])
    }


def _answers(own: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    yield "zeros", torch.zeros_like(own)
    # The mean of one number is that number, and so is that of its copies.
    first = own[:, :1]
    is_copied = bool((own == first).all()) and not bool((first == first[:1]).all())
    is_one_number = own.shape[1] == 1 or is_copied
    if is_inexact(own.dtype) and not is_one_number:
        wide = torch.complex128 if own.is_complex() else torch.float64
        yield "mean", own.to(wide).mean(dim=1, keepdim=True).to(own.dtype).expand_as(own)
    if len(own) > 1:
        # Not by torch.roll, which has no types of one byte on a GPU.
        yield "another_call", torch.cat((own[-1:], own[:-1]))


def _right(
    answers: torch.Tensor, exact: torch.Tensor, own: torch.Tensor, rule: correctness.Rule
) -> list[bool]:
    """Verdicts on answers to all calls, concatenated."""
    if len(answers) > len(own):  # else there would be a copy for nothing
        times = (len(answers) // len(own), 1)
        exact, own = exact.repeat(times), own.repeat(times)
    return correctness.compare(
        answers, exact, own, own.new_zeros(own.shape[1]), 0, tuple(own.shape[1:]), rule
    ).ok
