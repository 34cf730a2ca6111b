"""Bias of advantage estimators, by enumeration.

A synthetic task with two states and trajectories that end early: in turn 1 the policy stops, or
continues by one of two actions; in turn 2 it stops or takes a last turn.  All N-tuples of
trajectories are enumerated, so that the expected gradient (1/N) Σ_i Σ_t A_{i,t} ∇log π(a_{i,t} |
s_{i,t}) is exact, and compared with the true gradient ∇J.
"""

from __future__ import annotations

import itertools
import math
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from app.domain import credit
from app.domain.credit import Alone, MethodOptions, Turn

THETA = (1.2, -0.3, 0.2, 0.6, -0.5)
"""Logits: three actions in turn 1, two in turn 2."""
N = 3


@dataclass(frozen=True)
class Path:
    """One possible trajectory: its chance, its rewards, and ∇log π of each turn."""

    chance: float
    rewards: tuple[float, ...]
    scores: tuple[tuple[float, ...], ...]


def softmax(logits: Sequence[float]) -> list[float]:
    total = sum(math.exp(value) for value in logits)
    return [math.exp(value) / total for value in logits]


def grad_log(probabilities: Sequence[float], action: int, offset: int) -> tuple[float, ...]:
    found = [0.0] * len(THETA)
    for other, probability in enumerate(probabilities):
        found[offset + other] = float(other == action) - probability
    return tuple(found)


def task(*, early: bool) -> list[Path]:
    """All trajectories.  `early`: the first action of each turn ends the trajectory;
    else all have three turns.
    """
    first, second = softmax(THETA[:3]), softmax(THETA[3:])
    paths: list[Path] = []
    for action, chance in enumerate(first):
        score = grad_log(first, action, 0)
        if early and action == 0:
            paths.append(Path(chance, (0.5,), (score,)))
            continue
        for again, further in enumerate(second):
            reward = 1.0 + action if again else 0.25
            scores: tuple[tuple[float, ...], ...] = (score, grad_log(second, again, 3))
            rewards: tuple[float, ...] = (0.2 * action, reward)
            if (
                not early or again
            ):  # a last turn without a choice: its reward depends on the turns before
                rewards, scores = (*rewards, 2.0 * reward - action), (*scores, (0.0,) * len(THETA))
            paths.append(Path(chance * further, rewards, scores))
    return paths


def true_gradient(paths: Sequence[Path]) -> list[float]:
    return [
        sum(
            path.chance * sum(path.rewards) * sum(score[at] for score in path.scores)
            for path in paths
        )
        for at in range(len(THETA))
    ]


def moments(
    paths: Sequence[Path],
    method: str,
    options: MethodOptions | None = None,
    *,
    per_turn: bool = False,
) -> tuple[list[float], float]:
    """E[ĝ] over all N-tuples, and the trace of its covariance.

    `per_turn` divides by the number of turns in the batch in place of N."""
    total, square = [0.0] * len(THETA), 0.0
    for batch in itertools.product(paths, repeat=N):
        chance = math.prod(path.chance for path in batch)
        turns = [
            Turn(group="p", trajectory=name, index=at, reward=reward)
            for name, path in enumerate(batch)
            for at, reward in enumerate(path.rewards, start=1)
        ]
        found = [0.0] * len(THETA)
        for one in credit.advantages(turns, method, options):
            assert one.advantage is not None
            assert isinstance(one.turn.trajectory, int)
            score = batch[one.turn.trajectory].scores[one.turn.index - 1]
            found = [a + one.advantage * b for a, b in zip(found, score, strict=True)]
        found = [value / (len(turns) if per_turn else N) for value in found]
        total = [a + chance * b for a, b in zip(total, found, strict=True)]
        square += chance * sum(value**2 for value in found)
    return total, square - sum(value**2 for value in total)


def expected_gradient(
    paths: Sequence[Path],
    method: str,
    options: MethodOptions | None = None,
    *,
    per_turn: bool = False,
) -> list[float]:
    return moments(paths, method, options, per_turn=per_turn)[0]


def relative_error(got: Sequence[float], true: Sequence[float]) -> float:
    return math.dist(got, true) / math.hypot(*true)


def cosine(got: Sequence[float], true: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(got, true, strict=True)) / (
        math.hypot(*got) * math.hypot(*true)
    )


def best_scale(got: Sequence[float], true: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(got, true, strict=True)) / math.hypot(*true) ** 2


EARLY = task(early=True)
TRUE = true_gradient(EARLY)


def test_the_task_is_a_distribution_and_its_gradient_is_the_derivative():
    assert sum(path.chance for path in EARLY) == pytest.approx(1)
    assert {len(path.rewards) for path in EARLY} == {1, 2, 3}

    def value(theta: Sequence[float]) -> float:
        first, second = softmax(theta[:3]), softmax(theta[3:])
        original = THETA
        chances = dict(
            zip(
                ((a, b) for a in range(3) for b in range(2)),
                itertools.product(first, second),
                strict=True,
            )
        )
        assert original is THETA
        stop = first[0] * 0.5
        return stop + sum(
            one * two * sum(path.rewards)
            for (one, two), path in zip(
                (chances[action, again] for action in (1, 2) for again in range(2)),
                EARLY[1:],
                strict=True,
            )
        )

    step = 1e-6
    for at in range(len(THETA)):
        up, down = ([*THETA[:at], THETA[at] + sign * step, *THETA[at + 1 :]] for sign in (1, -1))
        assert (value(up) - value(down)) / (2 * step) == pytest.approx(TRUE[at], abs=1e-8)


@pytest.mark.parametrize("method", ["trloo", "returns", "rloo"])
def test_leave_one_out_by_turn_is_unbiased_although_groups_differ_in_size(method):
    assert expected_gradient(EARLY, method) == pytest.approx(TRUE, abs=1e-12)


def test_nothing_for_a_lone_turn_makes_it_biased():
    got = expected_gradient(EARLY, "trloo", MethodOptions(alone=Alone.ZERO))
    assert relative_error(got, TRUE) > 0.1


BIASED = {
    "grpo_turn": 0.25,
    "grpo_turn_independent": 0.8,
    "erloo": 0.1,
    "erloo_normalised": 0.1,
    "grpo": 0.1,
}
"""Method → least relative error ‖E[ĝ] − ∇J‖ / ‖∇J‖ on this task."""


@pytest.mark.parametrize("method", BIASED)
def test_other_baselines_are_biased(method):
    assert relative_error(expected_gradient(EARLY, method), TRUE) > BIASED[method]


def test_the_bias_of_grpo_differs_between_turns():
    """Self-inclusion scales turn t by E[1 − 1/N_t] (1 where the turn is alone): no
    learning rate undoes that.
    """
    got = expected_gradient(EARLY, "grpo_turn")
    reach = 1 - softmax(THETA[:3])[0]
    others = [math.comb(N - 1, k) * reach**k * (1 - reach) ** (N - 1 - k) for k in range(N)]
    second = others[0] + sum(chance * (1 - 1 / (k + 1)) for k, chance in enumerate(others) if k)
    factors = [1 - 1 / N] * 3 + [second] * 2
    assert got == pytest.approx(
        [factor * true for factor, true in zip(factors, TRUE, strict=True)], abs=1e-12
    )
    assert abs(second - (1 - 1 / N)) > 0.05


def test_dividing_by_the_number_of_turns_biases_every_method():
    """Aggregations over rows (turns) in place of trajectories are ratios of random sums."""
    got = expected_gradient(EARLY, "trloo", per_turn=True)
    scales = [a / b for a, b in zip(got, TRUE, strict=True)]
    assert max(scales) > 1.02 * min(scales)


def test_with_equal_lengths_trloo_is_grpo_times_n_over_n_minus_1():
    paths = task(early=False)
    true = true_gradient(paths)
    grpo, trloo = expected_gradient(paths, "grpo_turn"), expected_gradient(paths, "trloo")
    assert trloo == pytest.approx(true, abs=1e-12)
    assert trloo == pytest.approx([value * N / (N - 1) for value in grpo], abs=1e-12)
    assert relative_error(expected_gradient(paths, "erloo"), true) > 0.05


def table(paths: Sequence[Path]) -> list[str]:
    """Rows of README.md: method, relative error, best common scale, cosine, noise (root of the
    covariance's trace over the length of E[ĝ]).
    """
    true = true_gradient(paths)
    made = {method: moments(paths, method) for method in ("trloo", "rloo", "returns", *BIASED)}
    made["trloo, alone: zero"] = moments(paths, "trloo", MethodOptions(alone=Alone.ZERO))
    made["trloo, mean over turns"] = moments(paths, "trloo", per_turn=True)
    return [
        f"| `{name}` | {relative_error(got, true):.3f} | {best_scale(got, true):.3f} |"
        f" {cosine(got, true):.3f} | {math.sqrt(variance) / math.hypot(*got):.2f} |"
        for name, (got, variance) in made.items()
    ]


def test_baselines_of_others_lower_the_noise_of_unbiased_estimates():
    noise = {method: moments(EARLY, method)[1] for method in ("trloo", "rloo", "returns")}
    assert max(noise["trloo"], noise["rloo"]) < noise["returns"]


def test_the_readme_states_these_figures():
    text = (pathlib.Path(credit.__file__).parent / "README.md").read_text()
    early, equal = text.split("### Equal lengths")
    assert [row for row in table(EARLY) if row not in early] == []
    assert [row for row in table(task(early=False)) if row not in equal] == []


if __name__ == "__main__":
    print("\n".join([*table(EARLY), "", *table(task(early=False))]))
