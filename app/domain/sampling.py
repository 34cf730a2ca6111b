"""EXPORT: rejection sampling: choice among eligible attempts of a trajectory, then
of a problem, then of a family.

Everything is a function of the attempts, the spec and its seed; ties are broken by the hash of the
source and the id of the evaluation, so that the order in which rows come plays no part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise, zip_longest
from typing import NamedTuple

from app.domain import metrics, profiling_rejection, reward
from app.domain.credit.returns import returns_to_go
from app.domain.evaluation import Status
from app.domain.inapplicable_settings import DEFAULT_TURNS
from app.domain.selection import BestOf, Context, Key, Kind, Spec, Turns
from app.domain.trajectory import NO_CODE
from app.domain.verdict import Label, is_credited

Cell = tuple[str, str, str, str]
"""Device class, backend, protocol, baseline: figures of two cells are not comparable."""


class Attempt(NamedTuple):
    """Fields of an evaluated turn that selection reads.  A tuple, because there are millions."""

    place: int
    """Place of the attempt's other columns; unique in its chunk."""
    evaluation_id: str
    problem_id: str
    trajectory_id: str | None
    turn: int | None
    stage: int
    """Index of the first database stage that dropped it; a large number if none did."""
    teachable: bool
    """Its answer passes extraction and length."""
    believed: bool
    """Measured without a fault of the service's, and judged by the current detectors."""
    correct: bool
    """Every verified call was right."""
    label: str | None
    speedup: float | None
    """Credited: None for hacks, as the next two."""
    ci_low: float | None
    ci_high: float | None
    candidate_us: float | None
    coverage_time: float | None
    source_bytes: int
    source_sha256: str
    backend: str
    device_class: str
    protocol: str
    baseline: str
    prompt: str | None
    """Hash of everything before its answer: attempts with the same answer the same
    history.  None where not read.
    """
    status: str
    """Status of its evaluation; `no_code` of an answer without one."""
    compiled: bool
    coverage_count: float | None
    last_turn: int | None = None
    """Number of the last turn of its trajectory, evaluated or not.  None where not read."""

    @property
    def succeeded(self) -> bool:
        """Right, and no hack."""
        return is_credited(correct=self.correct, label=self.label)

    @property
    def cell(self) -> Cell:
        """The attempts that this one may be compared with have the same."""
        return (self.device_class, self.backend, self.protocol, self.baseline)


def score(attempt: Attempt, key: Key) -> float:
    """Quality, more is better; −∞ where there is nothing to go by."""
    if key is Key.REWARD:
        return reward.REWARDS["dr_kernel_pr"](measures(attempt), reward.STANDARD)
    if key is Key.CANDIDATE_US:
        return -math.inf if attempt.candidate_us is None else -attempt.candidate_us
    value = attempt.ci_low if key is Key.SPEEDUP_CI_LOW else attempt.speedup
    return -math.inf if value is None else value


def measures(attempt: Attempt) -> reward.Measures:
    """Inputs of the rewards."""
    return reward.Measures(
        completed=reward.completed(attempt.status),
        compiled=attempt.compiled,
        correct=attempt.correct,
        hacked=attempt.label == Label.HACK,
        speedup=attempt.speedup,
        coverage_time=attempt.coverage_time,
        coverage_count=attempt.coverage_count,
    )


def ranked(attempts: Iterable[Attempt], key: Key) -> list[Attempt]:
    """The best first, in a total order."""
    return sorted(
        attempts,
        key=lambda one: (-score(one, key), one.source_sha256, one.evaluation_id, one.place),
    )


def trajectories(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Attempts that stand beside each other in one trajectory; one that came alone
    is a trajectory of its own.
    """
    found: list[list[Attempt]] = []
    current: str | None = None
    for attempt in attempts:
        if attempt.trajectory_id is not None and attempt.trajectory_id == current:
            found[-1].append(attempt)
        else:
            found.append([attempt])
        current = attempt.trajectory_id
    return found


def survives_prs(attempt: Attempt, spec: Spec, dialogue: Sequence[Attempt]) -> bool:
    """True if profiling-based rejection sampling keeps it; `dialogue`: all turns of
    its trajectory.
    """
    if spec.prs is None or not attempt.succeeded:
        return True
    if spec.prs_speedup is not None and (attempt.speedup or 0.0) >= spec.prs_speedup:
        return True
    if spec.prs_ratio is profiling_rejection.Ratio.GEOMETRIC:
        coverage: float | None = profiling_rejection.geometric(
            [_coverage(one, spec) for one in dialogue]
        )
    else:
        coverage = _coverage(attempt, spec)
    alone = attempt.trajectory_id is None or spec.prs_draw is profiling_rejection.Draw.TURN
    key = (
        f"{attempt.trajectory_id}:{attempt.turn}:{attempt.evaluation_id}"
        if alone
        else attempt.trajectory_id
    )
    return profiling_rejection.keeps(
        coverage,
        seed=spec.seed,
        key=str(key),
        ramp=spec.prs,
        tau=spec.prs_tau,
        scale=spec.prs_scale,
    )


def _coverage(attempt: Attempt, spec: Spec) -> float | None:
    return (
        attempt.coverage_count
        if spec.prs_coverage is profiling_rejection.Coverage.NUMBER
        else attempt.coverage_time
    )


def with_fit_history(
    turns: Sequence[Attempt],
    passing: set[int],
    context: Context,
    quotes: Mapping[tuple[str, int], Context],
) -> set[int]:
    """Places of the turns of one trajectory with a whole history that may stand in a row.

    `turns` is the whole trajectory as evaluated, `passing` the places of the turns that the
    selection keeps, `quotes` the narrowest context that admits the answers quoted by a prompt, by
    trajectory and turn.  Behind a turn that is not there (its evaluation failed, or is not over)
    nothing is fit unless `context` is `any`: its content is not known.
    """
    found: set[int] = set()
    for number, turn in enumerate(turns):
        if context is not Context.ANY and turn.turn not in (None, number):
            break
        if not _admits(context, quotes.get((turn.trajectory_id or "", turn.turn or 0))):
            break
        found.add(turn.place)
        if not (turn.place in passing or _may_be_context(turn, context)):
            break
    return found


def with_passing_history(turns: Sequence[Attempt], passing: set[int]) -> set[int]:
    """Places of the turns of one trajectory that come after kept turns only: rows of formats
    with a trainer that learns every answer."""
    found: set[int] = set()
    for number, turn in enumerate(turns):
        if turn.turn not in (None, number):
            break
        found.add(turn.place)
        if turn.place not in passing:
            break
    return found


def _admits(context: Context, quoted: Context | None) -> bool:
    """True if a row of `context` may show answers that `quoted` is the narrowest to admit; None:
    there are none."""
    return quoted in (None, Context.CLEAN, context) or context is Context.ANY


def _may_be_context(turn: Attempt, context: Context) -> bool:
    if context is Context.ANY:
        return True
    if not turn.believed or turn.label in (Label.SUSPECT, Label.HACK):
        return False
    return turn.correct or context is Context.WRONG


def of_trajectory(
    turns: Sequence[Attempt], eligible: set[int], spec: Spec, kind: Kind
) -> list[Attempt]:
    """The turns that are taken.  `turns` is the whole trajectory as evaluated, so that dropped
    turns still count as earlier turns; `eligible` are the indices that may be taken.  A turn is
    faster or slower than turns of its own cell only.
    """
    rule = spec.turns or DEFAULT_TURNS.get(kind, Turns.ALL)
    candidates = [turn for turn in turns if turn.place in eligible]
    if not candidates or rule is Turns.ALL:
        return candidates
    match rule:
        case Turns.FINAL:
            return candidates[-1:] if candidates[-1] is turns[-1] and _ends(turns[-1]) else []
        case Turns.BEST:
            best = _best_of_cells(candidates, spec.key)
            return [turn for turn in candidates if turn is best[turn.cell]]
        case Turns.FIRST_CORRECT:
            first = next((turn for turn in turns if turn.succeeded), None)
            return [turn for turn in candidates if turn is first]
        case Turns.IMPROVING:
            return [turn for turn in _improving(turns, spec.delta) if turn.place in eligible]
        case Turns.REPAIR:
            repaired = {
                now.place for before, now in pairwise(turns) if now.succeeded > before.succeeded
            }
            return [turn for turn in candidates if turn.place in repaired]
        case Turns.ALL_UNTIL_BEST:
            best = _best_of_cells(candidates, spec.key)
            return [turn for turn in candidates if turn.place <= best[turn.cell].place]
        case Turns.RETURN_TO_GO:
            return [
                turn
                for turn, value in zip(turns, returns(turns, spec.gamma), strict=True)
                if turn.place in eligible and value is not None and value >= spec.min_return
            ]


def _ends(turn: Attempt) -> bool:
    """True if no later turn of its trajectory is stored: the evaluation of one may have failed."""
    return turn.last_turn is None or turn.turn == turn.last_turn


def _best_of_cells(attempts: Sequence[Attempt], key: Key) -> dict[Cell, Attempt]:
    return {cell: ranked(each, key)[0] for cell, each in cells(attempts).items()}


KEVIN = "kevin"
SCORES = (KEVIN, *reward.REWARDS)
"""Every reward that rows have, by name."""


def scores(attempt: Attempt) -> dict[str, float]:
    """Each reward of one turn, with its standard options.  An answer without code has those of a
    failure, as everywhere else: 0 of most, and the penalties of KernelGYM's.
    """
    if attempt.status == NO_CODE:
        return {KEVIN: 0.0} | reward.every(reward.WITHOUT_CODE)
    found = measures(attempt)
    return {KEVIN: kevin(attempt)} | {
        name: each(found, reward.STANDARD) for name, each in reward.REWARDS.items()
    }


def earned(turn: Attempt, name: str) -> float | None:
    """Reward of a turn by that name; None where the service failed: that is no reward of 0."""
    return None if turn.status == Status.INVALID else scores(turn)[name]


def returns(turns: Sequence[Attempt], gamma: float | None, name: str = KEVIN) -> list[float | None]:
    """Discounted return of every turn by that reward: Σ_{v ≥ t} γ^{v−t} S_v over the
    numbers of turns.

    A turn that is not there, or failed by the service's fault, has no reward: the returns of it and
    of the turns before it are missing, as in `app.domain.credit`.  So are returns that would add
    credited speedups of two cells.  `gamma` None: 0.4 for Kevin's score, 1 for all others.
    """
    if gamma is None:
        gamma = metrics.KEVIN_GAMMA if name == KEVIN else 1.0
    numbers = [turn.turn if turn.turn is not None else place for place, turn in enumerate(turns)]
    last = max(
        [*numbers, *(turn.last_turn for turn in turns if turn.last_turn is not None)], default=-1
    )
    found: list[float | None] = [None] * (last + 1)
    for number, turn in zip(numbers, turns, strict=True):
        found[number] = earned(turn, name)
    ahead = returns_to_go(found, gamma)
    comparable = _first_comparable(turns) if gamma else 0
    return [ahead[number] if place >= comparable else None for place, number in enumerate(numbers)]


def _first_comparable(turns: Sequence[Attempt]) -> int:
    """Index of the first turn such that all credited speedups from it on are of one cell."""
    cell: Cell | None = None
    for place in range(len(turns) - 1, -1, -1):
        if turns[place].succeeded:
            if cell not in (None, turns[place].cell):
                return place + 1
            cell = turns[place].cell
    return 0


def kevin(attempt: Attempt) -> float:
    """Kevin's score of one turn."""
    return metrics.kevin_score(correct=attempt.succeeded, speedup=attempt.speedup)


def cells(attempts: Iterable[Attempt]) -> dict[Cell, list[Attempt]]:
    """Attempts in groups that may be compared with each other."""
    found: dict[Cell, list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault(attempt.cell, []).append(attempt)
    return dict(sorted(found.items()))


def of_problem(attempts: Sequence[Attempt], spec: Spec) -> list[Attempt]:
    """Choose among a problem's samples: of each cell the best first, cells in turn."""
    return _in_turn(_of_cell(each, spec) for each in cells(attempts).values())


def _in_turn(lists: Iterable[Sequence[Attempt]]) -> list[Attempt]:
    """The first of each, then the second of each, …"""
    return [one for one in chain.from_iterable(zip_longest(*lists)) if one is not None]


def _of_cell(attempts: Sequence[Attempt], spec: Spec) -> list[Attempt]:
    best_first = ranked(attempts, spec.key)
    match spec.best_of:
        case BestOf.TOP_K:
            return best_first[: spec.k]
        case BestOf.THRESHOLD:
            return [one for one in best_first if score(one, spec.key) >= spec.threshold]
        case BestOf.EPSILON_BEST:
            return _shortest_of_best(best_first, spec)
        case BestOf.ANNA_KARENINA:
            return [one for one in attempts if one.succeeded][:1]
        case _:
            return best_first


def balanced(attempts: Sequence[Attempt], spec: Spec) -> list[Attempt]:
    """Attempts of one problem, given the best of each cell first: of a cell as many as the balance
    allows, in all as many as the cap allows.
    """
    allowed = _in_turn(
        each[: math.ceil(len(each) ** (1 - spec.balance))] for each in cells(attempts).values()
    )
    return allowed[: spec.max_per_problem or len(allowed)]


def _improving(turns: Sequence[Attempt], delta: float) -> list[Attempt]:
    """Correct turns with an interval above that of the best of their cell before
    them, and its first correct one.
    """
    found: list[Attempt] = []
    bests: dict[Cell, Attempt] = {}
    for turn in turns:
        if not turn.succeeded or turn.speedup is None or turn.ci_low is None:
            continue
        best = bests.get(turn.cell)
        if best is None or turn.ci_low > max(
            best.ci_high or 0.0, (best.speedup or 0.0) * (1 + delta)
        ):
            found.append(turn)
        if best is None or turn.speedup > (best.speedup or 0.0):
            bests[turn.cell] = turn
    return found


def _shortest_of_best(best_first: Sequence[Attempt], spec: Spec) -> list[Attempt]:
    if not best_first:
        return []
    best = score(best_first[0], spec.key)
    least = best - abs(best) * spec.epsilon if math.isfinite(best) else best
    near = [one for one in best_first if score(one, spec.key) >= least]
    return sorted(near, key=lambda one: (one.source_bytes, one.source_sha256, one.evaluation_id))[
        : spec.k
    ]
