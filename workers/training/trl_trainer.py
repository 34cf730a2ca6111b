"""TRL's GRPO trainer with the credit of app.domain.credit for every turn: TRLOO and
the other methods by name.

The rollout function gives `env_mask` and `turn_rewards` (app.integrations.trl_rollout);
the rest is GRPOTrainer's, whose loss takes advantages a token.  Needs trl, and is
imported by its trainer alone.
"""

from __future__ import annotations

from typing import Any

from accelerate.utils import gather_object
from trl import GRPOTrainer

from app.domain import credit
from app.domain.credit import METHODS, MethodOptions
from workers.training import turn_credit


class TurnCreditTrainer(GRPOTrainer):  # type: ignore[misc]  # trl is not installed where types are checked
    """`GRPOTrainer` with one advantage a turn.

    `method`: a name of app.domain.credit.METHODS; `options`: its options.  A trajectory that
    TRL masks (`mask_truncated_completions`) has no turns and is in no group.  Raises
    CreditError for an unknown method.
    """

    def __init__(
        self, *args: Any, method: str = "trloo", options: MethodOptions | None = None, **more: Any
    ) -> None:
        if method not in METHODS:
            raise credit.CreditError(
                f"unknown method {method!r}; expected one of {', '.join(METHODS)}"
            )
        super().__init__(*args, **more)
        self.method, self.options = method, options or MethodOptions()

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        missing = [place for place, one in enumerate(inputs) if "turn_rewards" not in one]
        if missing:
            raise ValueError(
                "turn_rewards: expected them of the rollout function for every row, got rows"
                " without"
            )
        mask = output["completion_mask"] * output.get("tool_mask", 1)
        told = [one["turn_rewards"] for one in inputs]
        if self.mask_truncated_completions:
            told = [
                rewards if kept else []
                for rewards, kept in zip(told, mask.any(dim=1).tolist(), strict=True)
            ]
        rewards = turn_credit.at_turn_ends(told, mask)
        first = self.accelerator.process_index * len(inputs)
        size = self.num_generations if self.model.training else self.num_generations_eval
        groups = [(first + row) // size for row in range(len(inputs))]
        found = turn_credit.spans(rewards, mask, groups, first_row=first)
        every = gather_object([(self.accelerator.process_index, turn) for turn in found.turns])
        credited = credit.advantages([turn for _, turn in every], self.method, self.options)
        own = [
            one
            for (rank, _), one in zip(every, credited, strict=True)
            if rank == self.accelerator.process_index
        ]
        output["advantages"], _ = turn_credit.spread(found, own, rewards)
        return output
