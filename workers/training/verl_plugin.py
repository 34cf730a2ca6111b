"""Advantage estimators of app.domain.credit for verl ≥ 0.9, named `assay_<method>`:
`algorithm.adv_estimator=assay_trloo`.

verl's rows are whole trajectories: response tokens of all turns with observations between them,
`response_mask` 1 for response tokens only.  A turn is a run of ones; its reward is the sum of
`token_level_rewards` from its first token up to the next turn, so that an agent loop has to write
turn rewards to the turns' last tokens.  With one reward at the end every turn has the same return,
and TRLOO differs from RLOO by its groups alone.

A turn with NaN among its rewards has none: it leaves its group and gets advantage 0, because verl's
tensors cannot leave a row out.  `algorithm.gamma` discounts between turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from app.domain import credit
from app.domain.credit import METHODS, MethodOptions
from workers.training import turn_credit

PREFIX = "assay_"
NAMES = tuple(PREFIX + method for method in METHODS)
"""Estimators in verl's registry."""

Estimator = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def estimator(method: str) -> Estimator:
    """Function with the arguments and results that verl's registry expects.  Raises
    CreditError for an unknown method.
    """
    if method not in METHODS:
        raise credit.CreditError(f"unknown method {method!r}; expected one of {', '.join(METHODS)}")

    def compute(
        token_level_rewards: torch.Tensor,
        response_mask: torch.Tensor,
        index: Sequence[Any],
        config: Any = None,
        **_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gamma = 1.0 if config is None else float(config.get("gamma", 1.0))
        found = turn_credit.spans(token_level_rewards, response_mask, index)
        credited = credit.advantages(found.turns, method, MethodOptions(gamma=gamma))
        return turn_credit.spread(found, credited, token_level_rewards)

    return compute


def register() -> list[str]:
    """Register every method in verl's registry; returns the names.  Raises
    ImportError without verl.
    """
    from verl.trainer.ppo.core_algos import register_adv_est

    for method in METHODS:
        register_adv_est(PREFIX + method)(_ESTIMATORS[method])
    return list(NAMES)


_ESTIMATORS = {method: estimator(method) for method in METHODS}
