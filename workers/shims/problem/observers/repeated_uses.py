"""Uses of equal operators in a call, of which some are looked at: a loop has thousands, and a look
takes as long as fifty operators.

This does not guard against a limit that is missed in few steps of a loop alone.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

LOOKED_AT, THEN = 64, 32
"""Uses of an operator on tensors of one shape at which is looked, and one of so many after them."""


class RepeatedUses(Counter[tuple[Any, ...]]):
    """Numbers of uses, by operator and shapes."""

    def is_looked_at(self, name: str, args: Any) -> bool:
        """Count a use, and test whether it is one of those that are looked at."""
        used = name, *(x.shape for x in args if isinstance(x, torch.Tensor))
        self[used] += 1
        return self[used] <= LOOKED_AT or self[used] % THEN == 0
