"""Wrong outputs that are the answer to an earlier call."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from app.domain.output_checks import OutputCheck
from workers.protocol.roundoff import FLOORS
from workers.referee.comparison.correctness import RECOGNISABLE
from workers.referee.comparison.output_errors import error_rows

RECOGNISABLE_NUMBERS, FEW_CLOSER = 4, 0.25
"""Fewer floating-point numbers are those of an earlier call only if they agree to this share of the
type's floor: wrong losses of unusual inputs are often within 2 % of some other call's.
"""

STALE_CLOSER = 0.1
"""An answer counts as that of an earlier call if its error relative to that one is
below this share of its own error.
"""


def earlier_call(
    got: torch.Tensor, check: OutputCheck, earlier: Iterable[tuple[int, torch.Tensor]]
) -> int | None:
    """Number of the earlier call that a wrong output answers.  None if answers repeat, or are too
    short to be recognised: a class or a few bits always match some earlier call.

    `got`: (elements,), with its errors in `check`; `earlier`: call number and
    (elements,) expected then.
    """
    inexact = got.is_floating_point() or got.is_complex()
    if not inexact and got.numel() < RECOGNISABLE:
        return None
    limit, own = check.rel_l2_limit, math.inf if check.rel_l2 is None else check.rel_l2
    if got.numel() < RECOGNISABLE_NUMBERS:
        limit = min(limit, FEW_CLOSER * FLOORS.get(got.dtype, (0.0, 0.0))[0])
    found = []
    for call, expected in earlier:
        [(error, _, bad)] = error_rows((got.reshape(1, -1), expected.reshape(1, -1)))
        if bad == 0 and error <= limit and error < STALE_CLOSER * own:
            found.append(call)
    return found[0] if len(found) == 1 else None
