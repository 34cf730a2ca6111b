"""Lists of integers among the inputs that belong together, when some are drawn anew
(redrawn_inputs.py): starts and lengths, starts and ends, offsets and lengths.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from workers.protocol.roundoff import are_integers


def related(before: list[Any], after: list[Any]) -> list[Any]:
    """The redrawn leaves.  Two integer tensors keep their values if a relation between them would
    break: disjoint segments given by starts and lengths, or starts before ends.  Lengths that are
    the steps of offsets follow them.
    """
    lists = [at for at, x in enumerate(before) if _is_list(x)]
    for one, other in itertools.permutations(lists, 2):
        if len(before[one]) != len(before[other]) or (
            after[one] is before[one] and after[other] is before[other]
        ):
            continue
        if any(
            holds(before[one], before[other]) and not holds(after[one], after[other])
            for holds in RELATIONS
        ):
            after = [
                old if at in (one, other) else new
                for at, (old, new) in enumerate(zip(before, after, strict=True))
            ]
    for one, other in itertools.permutations(lists, 2):
        if len(before[one]) == len(before[other]) + 1 and _are_steps(before[one], before[other]):
            after[other] = after[one].diff().to(before[other].dtype)
    return after


def _is_list(x: Any) -> bool:
    return are_integers(x) and x.dim() == 1 and len(x) > 1


def _are_apart(starts: torch.Tensor, lengths: torch.Tensor) -> bool:
    return bool((lengths >= 0).all()) and bool((starts[:-1] + lengths[:-1] <= starts[1:]).all())


def _lie_before(starts: torch.Tensor, ends: torch.Tensor) -> bool:
    return bool((starts <= ends).all())


def _are_steps(offsets: torch.Tensor, lengths: torch.Tensor) -> bool:
    return bool((offsets.diff() == lengths.to(offsets.device)).all())


RELATIONS = (_are_apart, _lie_before)
"""Relations of two lists of the same length."""
