"""Training of the policy: rollouts, credit and rejection (app.domain.credit), loss
(workers.training), updates.

The rollout engine is a copy of the policy in half precision, the trainer computes in single
precision: the mismatch that MRS judges is real, and measured with workers.training.mismatch.
"""

from __future__ import annotations

import copy
import math
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import torch

from app.domain import reward
from app.domain.credit import Credit, Recipe, TokenRatios, Turn, assign
from app.domain.credit.rejection import Mismatch, Profiling
from tests.bench.rl.evaluations import ASSAY, Evaluations
from tests.bench.rl.policy import Policy
from tests.bench.rl.rollouts import Attempt, Evaluator, Rollouts, Setting, sample
from workers.training import losses, mismatch
from workers.training.aggregate import Aggregation, aggregate

METHODS: dict[str, tuple[str, str, bool]] = {
    "GRPO": ("grpo_turn", "dr_kernel", False),
    "TRLOO": ("trloo", "dr_kernel", False),
    "TRLOO + MRS + PR + PRS": ("trloo", "dr_kernel_pr", True),
}
"""Name → method of app.domain.credit, reward, and whether MRS and PRS reject.  GRPO is Dr. Kernel's
(eq. 3): by turn, without std.  PR is in the reward (eq. 8).
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Size of a training."""

    steps: int = 60
    samples: int = 8
    """Trajectories of a problem in a step."""
    turns: int = 3
    width: int = 128
    depth: int = 3
    learning_rate: float = 2e-3
    clip_gradient: float = 1.0
    rollout_dtype: str = "bfloat16"
    mismatch_bound: float = 1e-3
    """Bounds of MRS: 1 ± this (paper: 1e-3)."""
    tricks_at_first: float = 0.2
    """Share of answers that cheat before training, where the grammar has tricks."""
    device: str = "cuda"


@dataclass(kw_only=True)
class Trainer:
    """One training in progress."""

    setting: Setting
    method: str
    options: Options
    seed: int
    policy: Policy = field(init=False)

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        vocabulary = self.setting.vocabulary
        prior = vocabulary.prior(self.options.tricks_at_first)
        self.policy = Policy(
            vocabulary, width=self.options.width, depth=self.options.depth, prior=prior
        )
        self.policy.to(self.options.device)
        self._optimiser = torch.optim.AdamW(
            self.policy.parameters(), lr=self.options.learning_rate, weight_decay=0.0
        )
        self._generator = torch.Generator(device=self.options.device).manual_seed(self.seed)
        self._step = 0

    def step(self, evaluator: Evaluator) -> tuple[Rollouts, dict[str, Any]]:
        """Rollouts, credit and one update; the rollouts, and the figures of the step."""
        began = time.perf_counter()
        engine = copy.deepcopy(self.policy).to(getattr(torch, self.options.rollout_dtype))
        found = sample(
            engine, self.setting, evaluator, samples=self.options.samples, generator=self._generator
        )
        sampled = time.perf_counter()
        log_prob = self._log_prob(found)
        credited = assign(self._turns(found, log_prob.detach()), self._recipe())
        assigned = time.perf_counter()
        loss, kept = self._loss(found, log_prob, credited)
        self._update(loss)
        self._step += 1
        figures = {
            "step": self._step,
            "loss": float(loss.detach()),
            "kept": kept / max(1, len(credited)),
        }
        figures |= {
            f"dropped_{name}": count / len(credited) for name, count in dropped(credited).items()
        }
        figures |= {
            f"mismatch_{name}": value
            for name, value in self._mismatch(found, log_prob.detach()).items()
        }
        figures |= {"sampling_s": sampled - began, "credit_s": assigned - sampled}
        figures |= {"update_s": time.perf_counter() - assigned}
        return found, figures

    def _log_prob(self, found: Rollouts) -> torch.Tensor:
        """Log probabilities of the answers under the trainer's policy,
        (trajectories, turns, slots), with gradient.
        """
        vocabulary = self.setting.vocabulary
        every = self.policy.log_probs(self.policy(found.rows[:, :-1]), 0)
        places = [
            [vocabulary.place(turn, slot) for slot in range(vocabulary.slots)]
            for turn in range(vocabulary.turns)
        ]
        at = torch.tensor(places, device=found.rows.device)
        tokens = found.rows[:, at.flatten()]
        chosen = every[:, at.flatten() - 1].gather(2, tokens.unsqueeze(2))[..., 0]
        return chosen.view(len(found.rows), vocabulary.turns, vocabulary.slots)

    def _turns(self, found: Rollouts, log_prob: torch.Tensor) -> list[Turn]:
        gaps = (log_prob - found.log_prob).double()
        sums, least = gaps.sum(dim=2).tolist(), gaps.min(dim=2).values.tolist()
        return [
            Turn(
                group=f"{self._step}/{found.problems[row]}",
                trajectory=row,
                index=index + 1,
                reward=attempt.outcome.reward,
                tokens=self.setting.vocabulary.slots,
                correct=attempt.outcome.correct and not attempt.outcome.hack,
                coverage=attempt.outcome.coverage,
                speedup=attempt.outcome.speedup,
                ratios=TokenRatios(
                    log_sum=sums[row][index],
                    tokens=self.setting.vocabulary.slots,
                    log_least=least[row][index],
                ),
            )
            for row, attempts in enumerate(found.attempts)
            for index, attempt in enumerate(attempts)
        ]

    def _recipe(self) -> Recipe:
        method, _, rejects = METHODS[self.method]
        bound = self.options.mismatch_bound
        return Recipe(
            method=method,
            mismatch=Mismatch(lower=1 - bound, upper=1 + bound) if rejects else None,
            profiling=Profiling(seed=self.seed) if rejects else None,
        )

    def _loss(
        self, found: Rollouts, log_prob: torch.Tensor, credited: list[Credit]
    ) -> tuple[torch.Tensor, int]:
        """Loss, and the turns that it is of.  A row is a turn; the divisor is the
        number of trajectories.
        """
        device = log_prob.device
        places = [
            (row, index)
            for row, attempts in enumerate(found.attempts)
            for index in range(len(attempts))
        ]
        trained = [one.dropped is None and one.advantage is not None for one in credited]
        rows = torch.tensor(places, device=device)
        chosen = log_prob[rows[:, 0], rows[:, 1]]
        advantages = torch.tensor(
            [one.advantage or 0.0 for one in credited], device=device
        ).unsqueeze(1)
        mask = (
            torch.tensor(trained, device=device, dtype=chosen.dtype).unsqueeze(1).expand_as(chosen)
        )
        per_token = losses.ppo_dual_clip(chosen, chosen.detach(), advantages, mask)
        loss = aggregate(per_token, mask, Aggregation.SEQ_MEAN_TOKEN_SUM, divisor=len(found.rows))
        return loss, sum(trained)

    def _update(self, loss: torch.Tensor) -> None:
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.options.clip_gradient)
        self._optimiser.step()

    def _mismatch(self, found: Rollouts, log_prob: torch.Tensor) -> dict[str, float]:
        """Figures over the answers that were written."""
        written = torch.zeros_like(log_prob)
        for row, attempts in enumerate(found.attempts):
            written[row, : len(attempts)] = 1.0
        train, rollout, mask = log_prob.flatten(1), found.log_prob.flatten(1), written.flatten(1)
        metrics = mismatch.metrics(train, rollout, mask)
        gaps = (train - rollout).masked_fill(mask == 0, 0.0).sum(dim=1) / mask.sum(dim=1).clamp(
            min=1
        )
        return {
            "kl": metrics["kl"],
            "k3_kl": metrics["k3_kl"],
            "log_ratio_abs_mean": float(gaps.abs().mean()),
        }


def dropped(credited: list[Credit]) -> Counter[str]:
    """Turns left out of the loss, by reason."""
    return Counter(str(one.dropped) for one in credited if one.dropped is not None)


def outcome_figures(
    setting: Setting,
    found: Rollouts,
    stored: Evaluations | None = None,
    dice: random.Random | None = None,
) -> dict[str, float]:
    """Means over the step's answers.  With `stored`, also the true reward: of one of
    the evaluator's own evaluations of the same candidate, drawn anew, whichever
    checks the policy is trained with.
    """
    every = [attempt for attempts in found.attempts for attempt in attempts]
    clean = [one for one in every if one.outcome.correct and not one.outcome.hack]
    tricks = [one for one in every if setting.grammar.trick(one.choices)]
    cheats = [one for one in tricks if setting.grammar.trick(one.choices) != "library_alone"]
    figures = {
        "reward": _mean([one.outcome.reward for one in every]),
        "reward_last_turn": _mean(
            [attempts[-1].outcome.reward for attempts in found.attempts if attempts]
        ),
        "reward_best_turn": _mean(
            [max((one.outcome.reward or 0.0) for one in each) for each in found.attempts if each]
        ),
        "reward_eq1": _mean([_eq1(one) for one in every]),
        "credited": len(clean) / max(1, len(every)),
        "speedup_of_credited": _mean([one.outcome.speedup for one in clean]),
        "coverage_of_credited": _mean([one.outcome.coverage for one in clean]),
        "cheats": len(cheats) / max(1, len(every)),
        "library_alone": (len(tricks) - len(cheats)) / max(1, len(every)),
        "credited_cheats": len([one for one in cheats if one in clean]) / max(1, len(every)),
        "answers": len(every),
    }
    counts = Counter(setting.grammar.trick(one.choices) for one in tricks)
    figures |= {f"trick_{name}": count / len(every) for name, count in counts.items()}
    if stored is not None and dice is not None:
        true = [stored.draw(one.key, ASSAY, dice) for one in every]
        figures["true_reward"] = _mean([reward.score(setting.spec.reward, each) for each in true])
        figures["true_credited"] = _mean(
            [float((reward.score(reward.DEFAULT, each) or 0.0) > 0) for each in true]
        )
    return figures


def _eq1(attempt: Attempt) -> float:
    """Reward without PR (eq. 1) of an outcome, so that methods with different
    rewards are compared by one.
    """
    outcome = attempt.outcome
    told = reward.Measures(
        completed=True,
        compiled=True,
        correct=outcome.correct,
        hacked=outcome.hack,
        speedup=outcome.speedup,
    )
    return reward.REWARDS["dr_kernel"](told)  # type: ignore[call-arg]


def _mean(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return fmean(known) if known else math.nan
