"""EXPORT: rows of kinds that leave no choice: prompts, problems without attempts, and rewards."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.dataset.attempt import Attempt, lines
from app.domain.dataset.attempt_rewards import SCORES, returns, scores
from app.domain.dataset.example_facts import Extra
from app.domain.dataset.selection import Spec
from app.domain.verdict import Label
from app.export.decisions import Decisions, without
from app.export.funnel_stages import CHOICE
from app.export.plan_tables import Pick
from app.store.dataset.problem_rows import Rates
from app.store.dataset.quoted_answers import Quotes


def untried(
    survivors: Sequence[Attempt], spec: Spec, rates: Rates, decisions: Decisions
) -> list[Pick]:
    """A row for each requested language, with the pass rate of the named run in
    this language.
    """
    return [
        pick for one in survivors if (pick := _asked_for(one, spec, rates, decisions)) is not None
    ]


def _asked_for(one: Attempt, spec: Spec, rates: Rates, decisions: Decisions) -> Pick | None:
    right, total = rates.get((one.problem_id, one.backend), (0, 0))
    rate = right / total if total else None
    low, high = spec.pass_rate or (0.0, 1.0)
    if spec.pass_rate is not None and (rate is None or not low <= rate <= high):
        decisions.drop(
            [one], CHOICE, "not tried in the run" if rate is None else f"pass rate {rate:.3f}"
        )
        return None
    return Pick(one, extra=Extra(pass_rate=rate, attempts=total))


def prompts(
    survivors: list[Attempt], spec: Spec, quotes: Quotes, decisions: Decisions
) -> list[Pick]:
    """One row per problem and backend, shown under the prompt of its first attempt.

    An attempt is an answer to a prompt: a first turn, or a candidate submitted
    alone.  Later turns, and first ones with a prompt that quotes earlier attempts,
    answer these and are no attempts.  Answers without code are failed attempts.
    """
    picks = []
    later = [one for one in survivors if one.turn or (one.trajectory_id or "", 0) in quotes]
    decisions.drop(later, CHOICE, "a later turn is no attempt of the prompt")
    first = without(survivors, later)
    for backend in sorted({one.backend for one in first}):
        tried = [one for one in first if one.backend == backend]
        rate = sum(one.correct and one.label == Label.CLEAN for one in tried) / len(tried)
        low, high = spec.pass_rate or (0.0, 1.0)
        if not low <= rate <= high:
            decisions.drop(tried, CHOICE, f"pass rate {rate:.3f}")
            continue
        prompted = [one for one in tried if one.trajectory_id] or tried
        shown = next((one for one in prompted if one.evaluation_id), prompted[0])
        decisions.drop(without(tried, [shown]), CHOICE, "one row a problem")
        others = tuple(("attempt", one) for one in tried if one is not shown)
        picks.append(Pick(shown, extra=Extra(pass_rate=rate, attempts=len(tried)), beside=others))
    return picks


def rewards(attempts: list[Attempt], survivors: list[Attempt], spec: Spec) -> list[Pick]:
    """A row per turn with its rewards and returns; later turns without a row are in its lineage."""
    wanted = {one.place for one in survivors}
    picks = []
    for turns in lines(attempts):
        if not any(turn.place in wanted for turn in turns):
            continue
        ahead = zip(
            *(returns(turns, spec.gamma, name) for name in SCORES),
            strict=True,
        )
        for number, (turn, own) in enumerate(zip(turns, ahead, strict=True)):
            if turn.place in wanted:
                extra = Extra(rewards=tuple(scores(turn).values()), returns=own)
                unlisted = (
                    ("return", one) for one in turns[number + 1 :] if one.place not in wanted
                )
                picks.append(Pick(turn, extra=extra, beside=tuple(unlisted)))
    return sorted(picks, key=lambda pick: pick.attempt.place)
