"""EXPORT: rejection sampling: choice among eligible attempts of a trajectory, then
of a problem, then of a family.

Everything is a function of the attempts, the spec and its seed; ties are broken by the hash of the
source and the id of the evaluation, so that the order in which rows come plays no part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise, zip_longest

from app.domain import reward
from app.domain.dataset import profiling_rejection
from app.domain.dataset.attempt import Attempt, C, Cell, cells, measures
from app.domain.dataset.attempt_rewards import returns
from app.domain.dataset.inapplicable_settings import DEFAULT_TURNS
from app.domain.dataset.selection import BestOf, Context, Key, Kind, Spec, Turns
from app.domain.verdict import Label


def score(attempt: Attempt, key: Key) -> float:
    """Quality, more is better; −∞ where there is nothing to go by."""
    if key is Key.REWARD:
        return reward.REWARDS["dr_kernel_pr"](measures(attempt), reward.STANDARD)
    if key is Key.CANDIDATE_US:
        return -math.inf if attempt.candidate_us is None else -attempt.candidate_us
    value = attempt.ci_low if key is Key.SPEEDUP_CI_LOW else attempt.speedup
    return -math.inf if value is None else value


def ranked(attempts: Iterable[Attempt], key: Key) -> list[Attempt]:
    """The best first, in a total order."""
    return sorted(
        attempts,
        key=lambda one: (-score(one, key), one.source_sha256, one.evaluation_id, one.place),
    )


def survives_prs(attempt: Attempt, spec: Spec, line: Sequence[Attempt]) -> bool:
    """True if profiling-based rejection sampling keeps it; `line`: all turns of its trajectory, or
    of its sample of a collection.
    """
    if spec.prs is None or not attempt.succeeded:
        return True
    if spec.prs_speedup is not None and (attempt.speedup or 0.0) >= spec.prs_speedup:
        return True
    if spec.prs_ratio is profiling_rejection.Ratio.GEOMETRIC:
        coverage: float | None = profiling_rejection.geometric(
            [_coverage(one, spec) for one in line]
        )
    else:
        coverage = _coverage(attempt, spec)
    alone = attempt.trajectory_id is None or spec.prs_draw is profiling_rejection.Draw.TURN
    key = (
        f"{attempt.trajectory_id}:{attempt.turn}:{attempt.evaluation_id}"
        if alone
        else attempt.line or attempt.trajectory_id
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


def of_problem(attempts: Sequence[Attempt], spec: Spec) -> list[Attempt]:
    """Choose among a problem's samples: of each cell the best first, cells in turn."""
    return _in_turn(_of_cell(each, spec) for each in cells(attempts).values())


def _in_turn(lists: Iterable[Sequence[C]]) -> list[C]:
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


def balanced(rows: Sequence[C], spec: Spec) -> list[C]:
    """Rows of one problem, given the best of each cell first: of a cell as many as the balance
    allows, in all as many as the cap allows.
    """
    allowed = _in_turn(
        each[: math.ceil(len(each) ** (1 - spec.balance))] for each in cells(rows).values()
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
