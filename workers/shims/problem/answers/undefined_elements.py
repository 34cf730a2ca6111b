"""Elements of which rounding decides whether they are a number: the root of a distance of zero."""

from __future__ import annotations

import torch

MISSED = 1 / 16
"""Share of the elements for which rounding decides whether they are a number, as found by a few
answers, that it may decide for besides.
"""


def are_undefined(
    mine: torch.Tensor,
    theirs: torch.Tensor,
    between: tuple[torch.Tensor, torch.Tensor],
    lost: torch.Tensor,
) -> torch.Tensor:
    """Mask of the elements of which rounding decides whether they are a number: some perturbed
    answers have one (the least and the largest are `between`), others (`lost`) have none.  The
    number that is given or expected must be of the size of those; of such elements some are missed.
    """
    least, most = between
    decided = lost & ~least.isnan()
    if not bool(decided.any()):
        return decided
    number = torch.where(mine.isnan(), theirs, mine)
    is_near = (number >= least[decided].min()) & (number <= most[decided].max())
    fits = is_near & (mine.isnan() != theirs.isnan())
    missed = fits & ~decided
    return fits if int(missed.sum()) <= MISSED * int(decided.sum()) else fits & decided
