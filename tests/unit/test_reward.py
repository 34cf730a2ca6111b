"""Rewards against their formulas, written here a second time and the long way."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import result, reward
from app.domain.evaluation import Environment, Evaluation, EvaluationError, Status
from app.domain.job import JobState
from app.domain.kernel_profile import Profile
from app.domain.reward import Measures, Options
from app.domain.verdict import Label, Verdict
from app.settings import Settings
from tests.timings import timing

shares = st.none() | st.floats(0, 1)
anything = st.builds(
    Measures,
    completed=st.booleans(),
    compiled=st.booleans(),
    correct=st.booleans(),
    hacked=st.booleans(),
    speedup=st.none() | st.floats(1e-3, 1e4),
    coverage_time=shares,
    coverage_count=shares,
)
weights = st.floats(0, 2)
choices = st.builds(
    Options,
    correct_weight=weights,
    performance_weight=weights,
    upper_bound=st.floats(2, 10),
    lower_bound=st.floats(0, 2),
    speedup_eps=st.floats(0, 0.5),
    penalty_score=st.floats(-1, 0),
    coverage_weight=weights,
    coverage=st.sampled_from(reward.COVERAGES),
)
RL_SCRIPTS = Options(coverage_weight=0.5)
GOOD = Measures(
    completed=True, compiled=True, correct=True, hacked=False, speedup=2.0, coverage_time=0.75
)


def pays(name: str, m: Measures, o: Options = reward.STANDARD) -> float:
    return reward.REWARDS[name](m, o)


def c_of(m: Measures) -> float:
    return 1.0 if m.compiled and m.correct and not m.hacked else 0.0


@given(anything)
def test_the_paper(m: Measures) -> None:
    c, speedup, pr = c_of(m), min(m.speedup or 0.0, 3.0), m.coverage_time or 0.0
    assert math.isclose(pays("dr_kernel", m), c + c * speedup)  # eq. 1
    assert math.isclose(pays("dr_kernel_pr", m), c + c * speedup + c * pr)  # eq. 8
    assert 0.0 <= pays("dr_kernel_pr", m) <= 5.0


@given(anything, choices)
def test_speedup(m: Measures, o: Options) -> None:
    if not m.completed or m.hacked:
        assert pays("calculate_reward_speedup", m, o) == o.penalty_score
        return
    c = c_of(m)
    clipped = min(m.speedup or 0.0, o.upper_bound)
    clipped = 0.0 if clipped < o.lower_bound else clipped
    coverage = (m.coverage_time if o.coverage == "time_coverage" else m.coverage_count) or 0.0
    expected = (
        o.correct_weight * c + o.performance_weight * c * clipped + o.coverage_weight * c * coverage
    )
    assert math.isclose(pays("calculate_reward_speedup", m, o), expected)


@given(anything, choices)
def test_weighted(m: Measures, o: Options) -> None:
    if not m.completed or m.hacked:
        assert pays("calculate_reward_weighted", m, o) == o.penalty_score
        return
    c, fast = c_of(m), (m.speedup or 0.0) >= 1 + o.speedup_eps
    coverage = (m.coverage_time if o.coverage == "time_coverage" else m.coverage_count) or 0.0
    expected = (
        o.correct_weight * c + o.performance_weight * c * fast + o.coverage_weight * c * coverage
    )
    assert math.isclose(pays("calculate_reward_weighted", m, o), expected)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"completed": False}, -1.0),
        ({"hacked": True}, -1.0),
        ({"compiled": False}, -0.5),
        ({"correct": False}, -0.3),
        ({"speedup": None}, -0.1),
        ({"speedup": 0.99}, -0.1),
        ({"speedup": 1.0}, 0.2),
        ({"speedup": 1.2}, 0.4),
        ({"speedup": 1.5}, 0.6),
        ({"speedup": 2.0}, 0.8),
        ({"speedup": 3.0}, 1.0),
        ({"speedup": 99.0}, 1.0),
    ],
)
def test_the_ladder(changed: dict[str, Any], expected: float) -> None:
    assert pays("calculate_reward_like_kernel", replace(GOOD, **changed)) == expected


@given(anything)
def test_the_weights_of_the_scripts_give_half_of_the_paper(m: Measures) -> None:
    m = replace(m, completed=True)
    assert math.isclose(
        2 * pays("calculate_reward_speedup", m, RL_SCRIPTS), pays("dr_kernel_pr", m)
    )


@given(anything, st.floats(0, 100))
def test_faster_is_never_worth_less(m: Measures, more: float) -> None:
    faster = replace(m, speedup=(m.speedup or 0.0) + more)
    for function in reward.REWARDS.values():
        assert function(faster, RL_SCRIPTS) >= function(m, RL_SCRIPTS)


@given(anything, choices)
def test_a_hack_is_never_worth_more_than_an_honest_failure(m: Measures, o: Options) -> None:
    hack, wrong = replace(m, hacked=True), replace(m, hacked=False, correct=False)
    for function in reward.REWARDS.values():
        assert function(hack, o) <= max(0.0, function(wrong, o))


def test_the_published_pair_of_profiles() -> None:
    lazy = replace(GOOD, speedup=47.4 / 47.0, coverage_time=34.82 / 237_500.34)
    fused = replace(GOOD, speedup=47.5 / 22.8, coverage_time=102_242.61 / 118_674.11)
    assert pays("dr_kernel_pr", lazy) == pytest.approx(2.01, abs=0.005)
    assert pays("dr_kernel_pr", fused) == pytest.approx(3.94, abs=0.005)


def evaluated(
    status: Status, *, label: Label = Label.CLEAN, state: JobState = JobState.FINISHED
) -> result.Result:
    passed = status is Status.PASSED
    environment = Environment(
        device_class="cpu",
        device_name="d",
        device_id="d",
        node="n",
        python="3",
        torch="2",
        triton="3",
    )
    evaluation = Evaluation(
        status=status,
        environment=environment,
        seed="00",
        error=None if passed else EvaluationError(kind="k", message="m"),
        timing=timing() if passed else None,
        profile=Profile(
            kernels=(), calls=1, coverage_time=0.5, coverage_count=0.25, source="testimony"
        ),
    )
    verdict = Verdict(label=label, policy="standard", detectors={}, findings=())
    return result.build(job_id=uuid4(), state=state, evaluation=evaluation, verdict=verdict)


def test_every_result_of_a_candidate_has_a_score_and_every_reward() -> None:
    passed = evaluated(Status.PASSED)
    assert passed["score"] == passed["reward"]["dr_kernel_pr"] == 3.5
    assert list(passed["reward"]) == list(reward.REWARDS)
    assert evaluated(Status.PASSED, label=Label.HACK)["score"] == 0.0
    assert evaluated(Status.PASSED, label=Label.SUSPECT)["score"] == 3.5
    for status in set(Status) - {Status.PASSED, Status.INVALID}:
        assert evaluated(status)["score"] == 0.0


def test_what_says_nothing_about_the_candidate_has_no_score() -> None:
    failed = result.build(
        job_id=uuid4(), state=JobState.FAILED, evaluation=None, verdict=None, error={"kind": "k"}
    )
    for nothing in (evaluated(Status.INVALID), failed):
        assert nothing["score"] is None
        assert nothing["reward"] == {}
        assert reward.score("calculate_reward_like_kernel:penalty_score=-1", nothing) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dr_kernel", 3.0),
        ("dr_kernel:upper_bound=1.5", 2.5),
        ("calculate_reward_speedup", 1.5),
        ("calculate_reward_speedup:coverage_weight=0.5, coverage=number_coverage", 1.625),
        ("calculate_reward_speedup:lower_bound=2.5", 0.5),
        ("calculate_reward_weighted:correct_weight=0.3", 0.8),
        ("calculate_reward_like_kernel", 0.8),
    ],
)
def test_a_score_is_named_with_its_options(text: str, expected: float) -> None:
    assert reward.score(text, evaluated(Status.PASSED)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed", "unknown reward 'speed'; expected one of dr_kernel, "),
        ("dr_kernel:cap=2", "unknown reward option 'cap'; expected one of correct_weight"),
        ("dr_kernel:upper_bound=much", "upper_bound: expected a number, got 'much'"),
        ("dr_kernel:upper_bound=nan", "upper_bound: expected a finite number"),
        ("dr_kernel:coverage=lines", "coverage: expected one of time_coverage"),
        ("dr_kernel:lower_bound=4", "lower_bound 4.0 is above upper_bound 3.0"),
        ("dr_kernel:", ""),
    ],
)
def test_a_misspelt_reward_is_an_error(text: str, message: str) -> None:
    if not message:
        assert reward.parse(text)[1] == reward.STANDARD
        return
    with pytest.raises(reward.UnknownRewardError, match=message):
        reward.parse(text)
    with pytest.raises(ValueError, match=message):
        Settings.from_env({"ASSAY_REWARD": text})


@given(anything, choices)
def test_the_parts_of_a_reward_add_up_to_it(m: Measures, o: Options) -> None:
    for name in reward.REWARDS:
        assert sum(reward.PARTS[name](m, o).values()) == reward.REWARDS[name](m, o)


def test_the_parts_are_named() -> None:
    assert reward.PARTS["dr_kernel_pr"](GOOD, reward.STANDARD) == {
        "correct": 1.0,
        "speedup": 2.0,
        "coverage": 0.75,
    }
    ladder = reward.PARTS["calculate_reward_like_kernel"]
    assert ladder(GOOD, reward.STANDARD) == {"speedup ≥ 2×": 0.8}
    assert ladder(replace(GOOD, correct=False), reward.STANDARD) == {"not correct": -0.3}


PLUGIN = """
def twice(measures, options):
    \'\'\'2·C.  Source: a test.\'\'\'
    return {"correct": 2.0 * measures.credited}
"""
USE = """
from app.domain import reward
result = {**reward.WITHOUT_CODE, "status": "passed", "compiled": True, "correct": True}
score, parts = reward.score("twice", result), reward.parts("twice", result)
print(score, parts, reward.every(result)["twice"], reward.PATTERN)
"""


def with_plugin(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    (folder / "rewards_of_mine.py").write_text(PLUGIN)
    about = folder / "rewards_of_mine-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rewards-of-mine\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[assay.rewards]\n{name} = rewards_of_mine:twice\n")
    root = Path(reward.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{root}"}
    command = [sys.executable, "-c", USE]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_another_package_brings_a_reward(tmp_path: Path) -> None:
    ran = with_plugin(tmp_path, "twice")
    assert ran.returncode == 0, ran.stderr
    value, parts, pattern = re.fullmatch(r"(\S+) (\{.*?\}) 2\.0 (.*)\n", ran.stdout).groups()
    assert (value, parts) == ("2.0", "{'correct': 2.0}")
    assert re.search(pattern, "twice:upper_bound=2")


def test_a_reward_of_a_known_name_is_refused(tmp_path: Path) -> None:
    ran = with_plugin(tmp_path, "dr_kernel")
    assert "brings 'dr_kernel', which exists already" in ran.stderr
