"""Wrong calls that are wrong by far, and in many elements, so that no rounding explains it.

None of integers and truth values, which ties might explain.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workers.referee.comparison.correctness import (
    RECOGNISABLE,
    CallErrors,
    ComparedOutput,
    wrong_calls,
)
from workers.referee.comparison.output_errors import AT_ONCE

FAR_OFF, FAR_OFF_SHARE = 100.0, 0.2
"""Multiple of the limit, and share of the elements beyond it, from which on rounding
cannot explain an error.
"""


def undecided(compared: Sequence[ComparedOutput], expected: Sequence[torch.Tensor]) -> list[int]:
    """Calls with a wrong output that a rounding or a tie may explain.  `expected`: (calls,
    elements) per output.
    """
    decided: set[int] = set()
    for output, exact in zip(compared, expected, strict=True):
        decided |= calls_of(output, exact)
    return [call for call in wrong_calls(compared) if call not in decided]


def calls_of(output: ComparedOutput, expected: torch.Tensor) -> set[int]:
    """Calls of an output that are wrong by far.  `expected`: (calls, elements)."""
    if not output.got.dtype.is_floating_point:
        return set()
    wrong = [call for call, right in enumerate(output.ok) if not right]
    found = {call for call in wrong if _is_lost(output.errors[call], output.got.shape[1])}
    far = [
        call
        for call in wrong
        if call not in found and output.errors[call].l2 > FAR_OFF * output.limits(call)[0]
    ]
    if output.got.shape[1] < RECOGNISABLE:
        return found | set(far)
    at_once = max(1, AT_ONCE // output.got.shape[1])
    for start in range(0, len(far), at_once):
        some = far[start : start + at_once]
        shares = _shares_beyond(output, some, expected.reshape(output.got.shape))
        found |= {call for call, share in zip(some, shares, strict=True) if share > FAR_OFF_SHARE}
    return found


def _is_lost(errors: CallErrors, elements: int) -> bool:
    """Test for NaN or infinity that no rounding explains: in many elements, or while the reference
    in its own precision has them where fp64 has.
    """
    return errors.bad > (FAR_OFF_SHARE * elements if errors.base_bad else 0)


def _shares_beyond(
    output: ComparedOutput, calls: Sequence[int], expected: torch.Tensor
) -> list[float]:
    """Per call, the share of its first elements that are beyond the limit of the largest error."""
    got, wide = (
        torch.stack([each[call, :AT_ONCE].double() for call in calls])
        for each in (output.got, expected)
    )
    limits = torch.tensor([output.limits(call)[1] for call in calls], device=wide.device)
    beyond = (got - wide).abs() > (wide.square().mean(dim=1).sqrt() * limits)[:, None]
    shares: list[float] = beyond.double().mean(dim=1).tolist()
    return shares
