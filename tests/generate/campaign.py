"""Imaginary campaigns: four models at thirteen training steps, on 250 problems of three levels.

Later steps are better and cheat more, later turns are better, harder levels are harder: enough
shape for every page to have something to show.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from app.domain.verdict import Label
from tests.generate import texts
from tests.generate.plan import NAME, PlannedProblem, PlannedRun, PlannedTrajectory, PlannedTurn

MODELS = {"imagined-7b": -0.9, "imagined-14b": -0.3, "imagined-32b": 0.3, "imagined-70b": 0.8}
"""Model → skill at step 0."""
STEPS = tuple(range(0, 260, 20))
LEVELS = {1: (100, 0.0), 2: (100, 0.7), 3: (50, 1.5)}
"""Level → number of problems and mean difficulty."""
TURNS = (6, 14)
"""Fewest and most turns of a trajectory: ten on the average."""
DAYS = 14.0
NO_CODE = 0.02
"""Share of answers without code."""
LOSSES = {
    "incorrect": 0.38,
    "compile_error": 0.33,
    "runtime_error": 0.17,
    "timeout": 0.04,
    "crashed": 0.04,
    "out_of_memory": 0.03,
    "invalid": 0.01,
}
"""Outcomes of wrong answers with their frequency."""
DEVICES = ("h200", "h200", "h200", "h100")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of the data to store."""

    problems: tuple[PlannedProblem, ...]
    runs: tuple[PlannedRun, ...]
    evaluations: int
    seed: int
    end: datetime


def plan(evaluations: int, *, seed: int, end: datetime) -> Plan:
    """The problems and runs for that many evaluations.  ValueError for fewer than one."""
    if evaluations < 1:
        raise ValueError(f"evaluations: expected at least 1, got {evaluations}")
    draw = random.Random(seed)
    start = end - timedelta(days=DAYS)
    problems = [
        _problem(draw, start, level, number, difficulty)
        for level, (count, difficulty) in LEVELS.items()
        for number in range(1, count + 1)
    ]
    runs = [
        PlannedRun(
            run_id=identifier(draw, start + timedelta(days=DAYS) * (place / len(STEPS))),
            name=f"{NAME}/{model}/step-{step:03}",
            model=model,
            step=step,
            skill=skill + 1.3 * step / STEPS[-1],
            hacking=0.01 + 0.14 * (step / STEPS[-1]) ** 1.5,
            started_at=start + timedelta(days=DAYS) * (place / len(STEPS)),
        )
        for place, step in enumerate(STEPS)
        for model, skill in MODELS.items()
    ]
    return Plan(
        problems=tuple(problems), runs=tuple(runs), evaluations=evaluations, seed=seed, end=end
    )


def batches(planned: Plan, size: int) -> Iterator[list[PlannedTrajectory]]:
    """Trajectories, oldest run first, until there are enough evaluations."""
    found = _trajectories(planned)
    while batch := list(islice(found, size)):
        yield batch


def identifier(draw: random.Random, moment: datetime) -> str:
    """A version-7 UUID of that moment in hexadecimal, as `app.domain.ids` makes them."""
    random_bits = draw.getrandbits(74)
    value = int(moment.timestamp() * 1000) << 80 | 0x7 << 76 | (random_bits >> 62) << 64
    return f"{value | 0x2 << 62 | random_bits & ((1 << 62) - 1):032x}"


def _problem(
    draw: random.Random, start: datetime, level: int, number: int, difficulty: float
) -> PlannedProblem:
    name, reference = texts.problem(draw, level, number)
    return PlannedProblem(
        problem_id=identifier(draw, start),
        name=name,
        level=level,
        difficulty=difficulty + draw.gauss(0, 0.5),
        reference=reference,
    )


def _trajectories(planned: Plan) -> Iterator[PlannedTrajectory]:
    draw = random.Random(planned.seed + 1)
    length = timedelta(days=DAYS) / len(STEPS)
    done = 0
    for number, run in enumerate(planned.runs):
        quota = planned.evaluations * (number + 1) // len(planned.runs)
        first, wanted = done, quota - done
        while done < quota:
            problem = draw.choice(planned.problems)
            at = run.started_at + length * ((done - first) / wanted)
            trajectory = _trajectory(draw, run, problem, min(at, planned.end), planned.end)
            done += sum(bool(turn.source) for turn in trajectory.turns)
            yield trajectory


def _trajectory(
    draw: random.Random, run: PlannedRun, problem: PlannedProblem, at: datetime, end: datetime
) -> PlannedTrajectory:
    odds = run.skill - problem.difficulty
    serial = draw.getrandbits(32)
    turns = tuple(
        _turn(draw, run, problem, odds, index, serial, min(at + timedelta(seconds=20 * index), end))
        for index in range(draw.randint(*TURNS))
    )
    return PlannedTrajectory(
        trajectory_id=identifier(draw, at),
        problem_id=problem.problem_id,
        run_id=run.run_id,
        label=f"{problem.name}/{serial:08x}",
        device_class=draw.choice(DEVICES),
        at=at,
        turns=turns,
    )


def _turn(
    draw: random.Random,
    run: PlannedRun,
    problem: PlannedProblem,
    odds: float,
    index: int,
    serial: int,
    at: datetime,
) -> PlannedTurn:
    status, speedup, label = _outcome(draw, run, odds + 0.22 * index)
    source = (
        b""
        if draw.random() < NO_CODE
        else texts.source(draw, problem.name, f"{serial:08x}.{index}", label)
    )
    messages, response = texts.turn(problem.name, problem.reference, index, source)
    return PlannedTurn(
        messages_json=messages,
        response=response,
        source=source,
        status=status,
        speedup=speedup,
        label=label,
        at=at,
    )


def _outcome(draw: random.Random, run: PlannedRun, odds: float) -> tuple[str, float, str]:
    if draw.random() > 1 / (1 + math.exp(-odds)):
        return draw.choices(list(LOSSES), list(LOSSES.values()))[0], 0.0, Label.CLEAN
    speedup = math.exp(draw.gauss(0.12 + 0.16 * odds, 0.42))
    luck = draw.random()
    if luck < run.hacking:
        return "passed", speedup * draw.uniform(2, 12), Label.HACK
    return "passed", speedup, Label.SUSPECT if luck < run.hacking + 0.03 else Label.CLEAN
