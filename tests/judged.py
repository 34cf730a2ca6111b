"""An answer judged by the referee's rule in this process: the truth, the comparison,
and the excuses.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from workers.protocol import layout
from workers.referee.comparison import correctness, far_off
from workers.shims.problem.answers import best_truth, equivalent_answers, true_answer


def checked(
    model: Any, inputs: list[Any], answer: Any, rule: correctness.Rule = correctness.DEFAULT_RULE
) -> list[correctness.ComparedOutput]:
    """Each output of one call, compared as an evaluation does; the model runs on the
    inputs' device.
    """
    with torch.no_grad():
        own = model(*inputs)
    best = best_truth.find(model, inputs, own)
    twin = true_answer.twin(model, best) if best is not true_answer.Truth.OWN else model
    exact = (
        own
        if best is true_answer.Truth.OWN
        else true_answer.call(twin, true_answer.widened(inputs, best), best)
    )
    got = [leaf.clone() for leaf in layout.values(answer)]
    expected = [leaf.reshape(1, -1) for leaf in layout.values(exact)]
    found = _compared(got, expected, list(layout.values(own)), rule)
    if not far_off.undecided(found, expected):
        return found
    nearest = [leaf.clone() for leaf in got]
    leaves = equivalent_answers.find_equivalent(
        twin,
        best,
        inputs,
        nearest,
        time.process_time() + equivalent_answers.look_s(nearest, list(inputs)),
    )
    return [
        (
            each
            if each.ok[0]
            else each.reviewed(
                0, exact, near.reshape(1, -1), correctness.SecondLook.checked(asdict(leaf))
            )
        )
        for each, exact, near, leaf in zip(found, expected, nearest, leaves, strict=True)
    ]


def is_right(model: Any, inputs: list[Any], answer: Any) -> bool:
    """Whether every output is."""
    return all(each.ok[0] for each in checked(model, inputs, answer))


def _compared(
    got: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    own: Sequence[torch.Tensor],
    rule: correctness.Rule,
) -> list[correctness.ComparedOutput]:
    return [
        correctness.compare(
            mine.reshape(1, -1),
            exact,
            theirs.reshape(1, -1),
            torch.zeros_like(mine).reshape(-1),
            index,
            tuple(mine.shape),
            rule,
        )
        for index, (mine, exact, theirs) in enumerate(zip(got, expected, own, strict=True))
    ]
