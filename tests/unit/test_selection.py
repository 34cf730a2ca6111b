"""Choosing, sampling, families, near-duplicates, decontamination: small cases with
known answers, and properties.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import credit
from app.domain.dataset import (
    answer_pairs,
    attempt_rewards,
    code_extraction,
    profiling_rejection,
    sampling,
)
from app.domain.dataset.attempt import Attempt
from app.domain.dataset.profiling_rejection import Draw, Ramp
from app.domain.dataset.selection import BestOf, Context, Kind, PairOf, Spec, Turns
from app.domain.source import near_duplicates, source_tokens
from app.domain.source.near_duplicates import Member, Search, Similarity, fingerprint
from app.domain.trajectory import NO_CODE


def attempt(
    place: int, speedup: float | None = None, *, width: float = 0.05, **said: Any
) -> Attempt:
    correct = speedup is not None
    values: dict[str, Any] = {
        "believed": True,
        "place": place,
        "evaluation_id": f"e{place:03}",
        "problem_id": "p",
        "trajectory_id": "t",
        "turn": place,
        "stage": 99,
        "teachable": True,
        "correct": correct,
        "label": "clean",
        "speedup": speedup,
        "ci_low": speedup and speedup * (1 - width),
        "ci_high": speedup and speedup * (1 + width),
        "candidate_us": speedup and 100 / speedup,
        "coverage_time": 0.9,
        "source_bytes": 100,
        "source_sha256": f"s{place:03}",
        "backend": "triton",
        "prompt": "same",
        "device_class": "h200",
        "protocol": "7",
        "baseline": "eager",
        "compiled": correct,
        "coverage_count": 0.5,
        "status": "passed" if correct else "incorrect",
    }
    return Attempt(**values | said)


TRAJECTORY = [attempt(n, speedup) for n, speedup in enumerate([None, 1.0, 1.02, None, 2.0, 1.5])]


@pytest.mark.parametrize(
    ("rule", "taken"),
    [
        (Turns.ALL, [1, 2, 4, 5]),
        (Turns.FINAL, [5]),
        (Turns.BEST, [4]),
        (Turns.FIRST_CORRECT, [1]),
        (Turns.IMPROVING, [1, 4]),  # 1.02 lies within the noise of 1.0
        (Turns.REPAIR, [1, 4]),
        (Turns.ALL_UNTIL_BEST, [1, 2, 4]),
        (Turns.RETURN_TO_GO, [4]),
    ],
)
def test_turns(rule: Turns, taken: list[int]) -> None:
    eligible = {one.place for one in TRAJECTORY if one.correct}
    spec = Spec(turns=rule, min_return=2.5)
    assert [
        one.place for one in sampling.of_trajectory(TRAJECTORY, eligible, spec, Kind.TURN)
    ] == taken


def test_what_was_dropped_still_counts_as_what_came_before() -> None:
    spec = Spec(turns=Turns.IMPROVING)
    assert [one.place for one in sampling.of_trajectory(TRAJECTORY, {2, 5}, spec, Kind.TURN)] == []


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ({"best_of": BestOf.ALL}, [4, 5, 2, 1]),
        ({"best_of": BestOf.TOP_K, "k": 2}, [4, 5]),
        ({"best_of": BestOf.THRESHOLD, "threshold": 1.2}, [4, 5]),
        ({"best_of": BestOf.EPSILON_BEST, "epsilon": 0.3}, [5]),
        ({"best_of": BestOf.ANNA_KARENINA}, [1]),
    ],
)
def test_best_of(options: dict[str, Any], taken: list[int]) -> None:
    listed = [
        one._replace(source_bytes=50 if one.place == 5 else 100)
        for one in TRAJECTORY
        if one.correct
    ]
    assert [one.place for one in sampling.of_problem(listed, Spec(**options))] == taken


def test_balance_and_caps() -> None:
    many = [attempt(n, 1.0 + n) for n in range(100)]
    assert len(sampling.balanced(many, Spec(balance=0.5))) == 10
    assert len(sampling.balanced(many, Spec(balance=1))) == 1
    assert len(sampling.balanced(many, Spec(max_per_problem=7))) == 7
    assert sampling.balanced([], Spec()) == []


def test_pairs_are_apart_and_answer_the_same_prompt() -> None:
    best, near, slow = attempt(0, 2.0), attempt(1, 1.95), attempt(2, 1.0)
    wrong, hack, other = (
        attempt(3),
        attempt(4, 9.0, label="hack"),
        attempt(5, 0.5, prompt="another"),
    )
    found = answer_pairs.pairs([best], [best, near, slow, wrong, hack, other], Spec())
    assert {(pair.rejected.place, pair.why) for pair in found} == {
        (2, PairOf.FAST_SLOW),
        (3, PairOf.CORRECT_WRONG),
        (4, PairOf.HONEST_HACK),
    }
    assert answer_pairs.pairs([best._replace(prompt=None)], [slow], Spec()) == []


def test_prs_follows_equation_9() -> None:
    assert [
        round(profiling_rejection.probability(x), 3) for x in (None, 0.0, 0.3, 0.35, 0.4, 1.0)
    ] == [
        0,
        0,
        0,
        0.5,
        1,
        1,
    ]
    assert profiling_rejection.probability(0.000147) == 0  # the paper's lazy kernel
    assert profiling_rejection.probability(0.86154) == 1  # and its fused one
    assert [profiling_rejection.probability(x, ramp=Ramp.HARD) for x in (0.29, 0.3)] == [0, 1]


def test_prs_draws_by_seed_and_spares_failures() -> None:
    kept = sum(profiling_rejection.keeps(0.35, seed=1, key=str(n)) for n in range(4000))
    assert 1850 < kept < 2150
    failed = attempt(0, coverage_time=0.0)
    assert sampling.survives_prs(failed, Spec(prs=Ramp.SOFT), [failed])
    turns = [attempt(n, 1.0, coverage_time=0.35) for n in range(40)]
    together = {
        sampling.survives_prs(one, Spec(prs=Ramp.SOFT, prs_draw=Draw.TRAJECTORY), turns)
        for one in turns
    }
    apart = {sampling.survives_prs(one, Spec(prs=Ramp.SOFT), turns) for one in turns}
    assert (len(together), len(apart)) == (1, 2)
    windows = [one._replace(trajectory_id=f"window {one.place}", line="sample") for one in turns]
    spec = Spec(prs=Ramp.SOFT, prs_draw=Draw.TRAJECTORY)
    assert len({sampling.survives_prs(one, spec, windows) for one in windows}) == 1


def kept_by_prs(turns: list[Attempt], **options: Any) -> list[int]:
    spec = Spec(prs=Ramp.HARD, **options)
    return [one.place for one in turns if sampling.survives_prs(one, spec, turns)]


def test_prs_judges_a_turn_by_its_own_or_by_its_trajectorys_coverage() -> None:
    assert profiling_rejection.geometric([0.2, 0.8]) == pytest.approx(0.4)
    assert profiling_rejection.geometric([1.0, 0.0]) == pytest.approx(1e-4)  # √(1 · 1e-8)
    turns = [attempt(0, 1.0, coverage_time=0.2), attempt(1, 1.0, coverage_time=0.8)]
    assert kept_by_prs(turns) == [1]
    assert kept_by_prs(turns, prs_ratio=profiling_rejection.Ratio.GEOMETRIC) == [0, 1]
    wrong = attempt(2, coverage_time=None)
    assert kept_by_prs([*turns, wrong], prs_ratio=profiling_rejection.Ratio.GEOMETRIC) == [2], (
        "a wrong turn is in the mean, and stays"
    )


def test_prs_spares_the_fast_and_may_count_launches() -> None:
    turns = [
        attempt(0, 1.0, coverage_time=0.1),
        attempt(1, 1.0, coverage_time=0.5),
        attempt(2, 3.0, coverage_time=0.2),
    ]
    assert kept_by_prs(turns, prs_speedup=3.0) == [1, 2]
    launches = [one._replace(coverage_count=0.4 - 0.2 * one.place) for one in turns]
    assert kept_by_prs(launches, prs_coverage=profiling_rejection.Coverage.NUMBER) == [0]


def test_returns_step_over_every_turn_and_are_of_every_reward() -> None:
    """`.5×, no code, 3.0×`: 0.8 + 0.4² · 3.3."""
    first, last = attempt(0, 0.5), attempt(2, 3.0)
    silent = attempt(1)._replace(status=NO_CODE)
    turns = [first, silent, last]
    assert attempt_rewards.returns(turns, None)[0] == pytest.approx(1.328)
    assert attempt_rewards.returns(turns, 0.4)[-1] == pytest.approx(3.3)
    assert attempt_rewards.returns(turns, None, "dr_kernel")[0] == pytest.approx(1.5 + 4.0), (
        "Dr. Kernel: no discount"
    )
    assert attempt_rewards.returns(turns, 0.5, "dr_kernel")[0] == pytest.approx(1.5 + 4.0 / 4)
    assert attempt_rewards.scores(silent) == dict.fromkeys(attempt_rewards.SCORES, 0.0) | {
        "calculate_reward_like_kernel": -1.0
    }, "no answer is worth more for having no code"
    assert attempt_rewards.scores(attempt(0))["calculate_reward_like_kernel"] == -0.5
    assert attempt_rewards.scores(attempt(0, compiled=True))["calculate_reward_like_kernel"] == -0.3


def test_returns_are_missing_before_a_fault_of_the_service_as_in_credit() -> None:
    first, last = attempt(0, 0.5), attempt(2, 3.0)
    broken = attempt(1)._replace(status="invalid")
    end = last._replace(last_turn=3)  # the job of turn 3 failed
    for turns, known in (
        ([first, broken, last], [None, None, 3.3]),
        ([first, last], [None, 3.3]),
        ([end], [None]),
    ):
        assert attempt_rewards.returns(turns, None) == pytest.approx(known)
        stored = {one.turn: attempt_rewards.earned(one, attempt_rewards.KEVIN) for one in turns}
        count = 1 + max(one.last_turn or one.turn or 0 for one in turns)
        credited = credit.advantages(
            [
                credit.Turn(group="p", trajectory="t", index=n + 1, reward=stored.get(n))
                for n in range(count)
            ],
            "returns",
            credit.MethodOptions(gamma=0.4),
        )
        assert [credited[one.turn or 0].score for one in turns] == pytest.approx(known)
    kept = sampling.of_trajectory(
        [first, broken, last], {0, 2}, Spec(turns=Turns.RETURN_TO_GO), Kind.TURN
    )
    assert [one.place for one in kept] == [2]
    assert attempt_rewards.returns([first, broken, last], 0.0)[0] == pytest.approx(0.8), (
        "γ = 0 needs no later reward"
    )


KERNEL = '''
"""A module."""
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
// adds
__global__ void add(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
module = load_inline(name="add", cuda_sources=SOURCE, functions=["add"])

class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        """Adds."""
        out = torch.empty_like(a)  # here
        module.add(a, b, out, a.numel())
        return out
'''


def test_comments_docstrings_and_blanks_make_no_difference() -> None:
    plain = re.sub(r"  # here|// adds\n|\n\s*\"\"\"(A module|Adds)\.\"\"\"", "", KERNEL)
    assert plain != KERNEL
    assert fingerprint(plain).normalised == fingerprint(KERNEL).normalised
    assert (
        fingerprint(KERNEL.replace("a + b", "a  +  b")).normalised == fingerprint(KERNEL).normalised
    )


def test_cuda_in_a_string_is_part_of_the_solution() -> None:
    other = KERNEL.replace("a[i] + b[i]", "a[i] - b[i]")
    for level in ("normalised", "renamed"):
        assert getattr(fingerprint(other), level) != getattr(fingerprint(KERNEL), level)
    assert (
        0.8
        < near_duplicates.similarity(fingerprint(other).signature, fingerprint(KERNEL).signature)
        < 1
    )


def test_names_make_no_difference_after_renaming_but_numbers_do() -> None:
    renamed = (
        KERNEL.replace("module", "built")
        .replace("SOURCE", "TEXT")
        .replace("int i ", "int k ")
        .replace("[i]", "[k]")
    )
    renamed = renamed.replace("(i < n)", "(k < n)")
    assert fingerprint(renamed).normalised != fingerprint(KERNEL).normalised
    assert fingerprint(renamed).renamed == fingerprint(KERNEL).renamed
    assert fingerprint("BLOCK = 128\n").renamed != fingerprint("BLOCK = 256\n").renamed


def test_keywords_of_calls_are_not_confused() -> None:
    one, other = (
        fingerprint(f"def f(x):\n    g(x, {name}=4)\n") for name in ("num_warps", "num_stages")
    )
    assert one.renamed != other.renamed


def test_indentation_is_meaning() -> None:
    assert (
        fingerprint("if a:\n    b()\nc()\n").normalised
        != fingerprint("if a:\n    b()\n    c()\n").normalised
    )


@given(st.text(max_size=300))
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    assert len(fingerprint(text).signature) == 4 * near_duplicates.BINS
    assert isinstance(source_tokens.words(text), list)
    assert code_extraction.check(text, "class ModelNew: pass", "Model") != ""


def member(key: int, text: str, problem: str = "p") -> Member:
    return Member(key=key, problem=problem, raw=text, **vars(fingerprint(text)))


def test_the_better_one_stays_and_is_named() -> None:
    other = KERNEL.replace("a[i] + b[i]", "a[i] - b[i]")
    texts = [
        KERNEL,
        KERNEL,
        KERNEL + "# end\n",
        KERNEL.replace("module", "built"),
        other,
        "class ModelNew: pass\n",
    ]
    kept = {}
    for level in Similarity:
        search = Search(level=level)
        found = [search.add(member(place, text)) for place, text in enumerate(texts)]
        kept[level] = [place for place, duplicate in enumerate(found) if duplicate is None]
    assert kept == {
        Similarity.NONE: [0, 1, 2, 3, 4, 5],
        Similarity.RAW: [0, 2, 3, 4, 5],
        Similarity.NORMALISED: [0, 3, 4, 5],
        Similarity.RENAMED: [0, 4, 5],
        Similarity.MINHASH: [0, 5],
    }


def test_figures_of_two_devices_or_backends_are_never_compared() -> None:
    gpu, slow, cpu = attempt(0, 1.3), attempt(1, 1.1), attempt(2, 40.0, device_class="cpu")
    plain, newer = attempt(3, 5.0, backend="torch"), attempt(4, 9.0, protocol="8")
    everything = [gpu, slow, cpu, plain, newer]
    best = sampling.of_problem(everything, Spec(best_of=BestOf.TOP_K, k=1))
    assert sorted(one.place for one in best) == [0, 2, 3, 4]
    pairs = answer_pairs.pairs(
        [cpu, plain, newer, gpu], everything, Spec(pairs=(PairOf.FAST_SLOW,))
    )
    assert [(pair.chosen.place, pair.rejected.place) for pair in pairs] == [(0, 1)]
    assert [one.place for one in sampling.balanced(best, Spec(max_per_problem=2))] == [2, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"val_fraction": 1.0}, "val_fraction"),
        ({"jaccard": 0.0}, "jaccard"),
        ({"pass_rate": (0.9, 0.1)}, "pass_rate"),
        ({"max_tokens": 0}, "max_tokens: expected at least 1, got 0"),
        ({"min_speedup": float("nan")}, "min_speedup"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"prs_tau": float("inf")}, "prs_tau"),
        ({"prs_tau": 5.0}, "prs_tau: expected 0 ≤ value ≤ 1, got 5.0"),
        ({"max_speedup": -1.0}, "max_speedup: expected more than 0, got -1.0"),
        ({"min_coverage": 30.0}, "min_coverage"),
        ({"delta": -0.1}, "delta: expected at least 0"),
    ],
)
def test_a_selection_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spec(**options)


def test_plain_names_of_settings_count_as_settings() -> None:
    assert Spec(context="any").context is Context.ANY  # type: ignore[arg-type]
    assert Spec(pairs=("fast_slow",)).pairs == (PairOf.FAST_SLOW,)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="context: expected one of clean, wrong, any, got 'all'"):
        Spec(context="all")  # type: ignore[arg-type]
