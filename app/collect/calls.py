"""COLLECT: one call of a model: claimed and reserved, sent, recorded, and its code
queued for evaluation.

Three steps: a short transaction that claims and reserves, the call without any connection, a short
transaction that stores the answer with everything that follows from it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from celery import Celery

from app import enqueue, sending
from app.collect import prompts, row_cache, send
from app.domain.collection import answers, outcomes, texts
from app.domain.collection.budgets import Amounts, Fit, maximum
from app.domain.collection.budgets import spent as spent_by
from app.domain.collection.call import (
    CallError,
    EndpointConfig,
    ErrorKind,
    ModelAnswer,
    ModelRequest,
    Retry,
)
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.stop_reasons import StopReason
from app.domain.collection.tree import AttemptResult
from app.domain.job import TERMINAL, JobState
from app.store.collection import calls, claims, conversations, ledger, lifecycle, messages, trees
from app.store.collection.calls import Held
from app.store.collection.claims import Claimed, Ready
from app.store.collection.trees import Due
from app.store.postgres.database import Connection, Database
from app.store.queue import jobs

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
"""Pauses before a failed call is tried again, in seconds: doubled each time, and drawn, so
that many do not come at once.
"""
AWAY_S = 3600.0
"""An endpoint that has answered a call of the collection so lately, and refuses calls or
connections now, restarts or has a limit: it is waited for.  Otherwise a restart of some
minutes would end every rollout.  One that has not may load its model still, or have a wrong
address: once the tries of an answer are used up, the collection is paused.
"""
AWAY = frozenset({ErrorKind.TIMEOUT_CONNECT, ErrorKind.RATE_LIMITED, ErrorKind.OVERLOADED})
MOST_TRIES = 100
"""Calls at most for one answer that an endpoint refuses while it is waited for: more than an hour
with the longest pauses.  A server may refuse one call for ever and answer all others; a connection
is refused to all of them alike.
"""
EVER_S = 1e9
"""Seconds since a moment before any collection began."""
NO_ROOM_S = 1.0
"""Pause before an attempt asks again for which others hold the rest of a budget."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A call that may be made now."""

    claimed: Claimed
    config: EndpointConfig
    request: ModelRequest


class NotNow(Enum):
    """Reason that no call is made."""

    NOTHING_DUE = "nothing due"
    NO_BUDGET = "no budget"
    """An attempt was due, and a budget has no room for it, now or ever.  Others may be due."""


class NextStep(Enum):
    """Step of an attempt after its call has failed."""

    GIVEN_UP = "given up"
    TRIED_AGAIN = "tried again"
    """One of the answer's tries is used up."""
    WAITED_FOR = "waited for"
    """The endpoint is away for a while: the call is no try."""
    PAUSED = "paused"
    """The collection is paused, and the attempt is tried again once it is resumed."""


@dataclass(frozen=True, kw_only=True)
class StoredAnswer:
    """Work that a stored answer makes due."""

    jobs: Sequence[jobs.Queued] = ()
    decisions: Sequence[Due] = ()
    again_s: float | None = None
    """Seconds until the attempt is due again."""


class RefusedError(Exception):
    """A budget has no room; whatever was reserved is rolled back."""

    def __init__(self, ready: Ready, fit: Fit, what: str) -> None:
        super().__init__(what)
        self.ready, self.fit, self.what = ready, fit, what


def prepare(
    database: Database,
    broker: Celery,
    endpoint: str,
    *,
    owner: str,
    lease_s: float,
    first_turns: bool = True,
) -> Prepared | NotNow:
    """Claim the attempt that is due and reserve the most that it can cost.

    Without `first_turns` rollouts that have not begun wait: the evaluators have enough to do."""
    try:
        with database.begin() as connection:
            ready = claims.next_ready(connection, endpoint, first_turns=first_turns)
            if ready is None:
                return NotNow.NOTHING_DUE
            request = _request(connection, ready)
            most = maximum(ready.config, request, deadline_s=ready.spec.job_options.deadline_s)
            claimed = _claimed(connection, ready, most, request, owner=owner, lease_s=lease_s)
            return Prepared(claimed=claimed, config=ready.config, request=request)
    except RefusedError as refused:  # and rolled back
        with database.begin() as connection:
            due = _refused(connection, refused)
        send.decisions(broker, due)
        return NotNow.NO_BUDGET


def store(
    database: Database, broker: Celery, prepared: Prepared, answer: ModelAnswer
) -> float | None:
    """Store an answer and send its follow-up task; seconds until the attempt is due
    again, where it is tried again.
    """
    with database.begin() as connection:
        held = calls.hold(connection, prepared.claimed)
        if held is None:
            _log.warning("call %s: answer refused, the lease was lost", prepared.request.request_id)
            return None
        if answer.error is None:
            stored = _answered(connection, prepared, held, answer)
        else:
            stored = _failed(connection, prepared, held, answer, answer.error)
    sending.send(broker, stored.jobs)
    send.decisions(broker, stored.decisions)
    return stored.again_s


def send_again(broker: Celery, prepared: Prepared) -> None:
    """A message for an attempt after its pause; if it is lost with its process, the
    sweep sends it.
    """
    ready = prepared.claimed.ready
    send.calls(broker, [Due(row_id=ready.node_id, endpoint=ready.endpoint)])


def _request(connection: Connection, ready: Ready) -> ModelRequest:
    config = ready.config
    sampling = ready.spec.sampling
    return ModelRequest(
        model=config.model,
        messages=tuple(row_cache.conversation(connection, ready.messages)),
        max_tokens=ready.spec.longest_answer(config.max_output_tokens),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        seed=ready.seed if sampling.seeded else None,
        stop=sampling.stop,
        stream=config.stream,
        want_token_ids=sampling.token_ids,
        want_logprobs=sampling.token_ids,
        extra=sampling.extra,
        request_id=f"{ready.node_id}-{ready.claims + 1}",
    )


def _claimed(
    connection: Connection,
    ready: Ready,
    most: Amounts,
    request: ModelRequest,
    *,
    owner: str,
    lease_s: float,
) -> Claimed:
    sent = {name: value for name, value in vars(request).items() if name != "messages"}
    fit, what = _room(ready.spec, most)
    if fit is Fit.YES:
        claimed = claims.begin(
            connection, ready, owner=owner, lease_s=lease_s, most=most, request=sent
        )
        if claimed is not None:
            return claimed
        fit, what = ledger.refusal(
            connection,
            collection_id=ready.collection_id,
            rollout_id=ready.rollout_id,
            rollout_caps=ready.spec.budgets.rollout,
            most=most,
        )
    raise RefusedError(ready, fit, what)


def _room(spec: CollectionSpec, most: Amounts) -> tuple[Fit, str]:
    """Test whether one call stays within its budget; its tokens are bounded by the request."""
    cap = spec.budgets.call.usd
    return (Fit.NEVER, "call: usd") if cap is not None and most.usd > cap else (Fit.YES, "")


def _refused(connection: Connection, refused: RefusedError) -> list[Due]:
    ready = refused.ready
    if not claims.lock_ready(connection, ready.node_id):
        return []  # another worker has it
    if refused.fit is Fit.WAIT:
        claims.postpone(connection, ready.node_id, NO_ROOM_S * random.uniform(0.5, 1.5))  # noqa: S311 (a pause)
        return []
    claims.refuse(
        connection, ready.node_id, AttemptResult(fault=StopReason.BUDGET, detail=refused.what)
    )
    trees.mark_due(connection, ready.rollout_id)
    return [Due(row_id=ready.rollout_id, endpoint=ready.spec.endpoint)]


def _answered(
    connection: Connection, prepared: Prepared, held: Held, answer: ModelAnswer
) -> StoredAnswer:
    ready, most = prepared.claimed.ready, prepared.claimed.most
    spec, problem = ready.spec, row_cache.problem(connection, ready.problem_id)
    said = calls.record(connection, prepared.claimed, answer)
    used = spent_by(answer, most)
    found = answers.candidate_of(answer.text, entry_point=problem.entry_point, end=answer.end)
    shown = texts.shown_later(spec, answer.text, answer.reasoning)
    later = said if said == messages.digest(shown) else row_cache.keep(connection, [shown])[0]
    facts: dict[str, object] = {"answer": later, "extraction": found.why, "ending": answer.end}
    turn = partial(
        conversations.add_turn,
        connection,
        ready,
        held,
        sent=prepared.request.messages,
        answer=texts.as_turn(answer.text, answer.reasoning),
        problem=problem.name,
    )
    if found.source is None or held.stopped:
        outcome = _unevaluated(spec, held, answer, used)
        told = prompts.feedback(
            connection, spec, held.prompts, turn=ready.turn, result=None, why=found.why
        )
        facts |= {"turn_id": turn(job_id=None), "feedback": told}
        calls.answered(
            connection, ready.node_id, spent=used, kept=Amounts(), facts=facts, outcome=outcome
        )
        return _over(connection, ready, most, used)
    request = texts.evaluation(spec, problem, found.source)
    receipt, queued = enqueue.stage(
        connection, request, problem_id=ready.problem_id, run_id=held.run_id
    )
    state = JobState.QUEUED
    if receipt.known:
        state = jobs.lock(connection, [receipt.job_id])[receipt.job_id]
    kept = Amounts() if receipt.known else Amounts(evaluations=1, gpu_s=most.gpu_s)
    facts |= {"job_id": receipt.job_id, "turn_id": turn(job_id=receipt.job_id)}
    calls.answered(connection, ready.node_id, spent=used, kept=kept, facts=facts)
    if state in TERMINAL:
        return _over(connection, ready, most, used)
    _settle(connection, ready, most, used, kept)
    return StoredAnswer(jobs=queued)


def _unevaluated(
    spec: CollectionSpec, held: Held, answer: ModelAnswer, used: Amounts
) -> AttemptResult:
    """Outcome of an answer that has nothing to evaluate, or comes too late for it."""
    tokens, cost_usd = held.tokens + used.tokens, held.cost_usd + used.usd
    if held.stopped:
        return AttemptResult(fault=StopReason.STOPPED, tokens=tokens, cost_usd=cost_usd)
    return outcomes.without_code(
        end=answer.end, scored_by=spec.reward, tokens=tokens, cost_usd=cost_usd
    )


def _over(connection: Connection, ready: Ready, most: Amounts, used: Amounts) -> StoredAnswer:
    """The attempt needs no evaluation: its rollout is due."""
    trees.mark_due(connection, ready.rollout_id)
    _settle(connection, ready, most, used, Amounts())
    return StoredAnswer(decisions=[Due(row_id=ready.rollout_id, endpoint=ready.spec.endpoint)])


def _failed(
    connection: Connection, prepared: Prepared, held: Held, answer: ModelAnswer, error: CallError
) -> StoredAnswer:
    ready, most = prepared.claimed.ready, prepared.claimed.most
    calls.record(connection, prepared.claimed, answer)
    next_step = _after(connection, ready, held, error)
    used = Amounts() if _is_away(error) else spent_by(answer, most)
    if next_step is NextStep.GIVEN_UP:
        tokens, cost_usd = held.tokens + used.tokens, held.cost_usd + used.usd
        outcome = outcomes.failed(error, tokens=tokens, cost_usd=cost_usd)
        if held.stopped:
            outcome = AttemptResult(fault=StopReason.STOPPED, tokens=tokens, cost_usd=cost_usd)
        calls.failed(connection, ready.node_id, outcome, spent=used)
        return _over(connection, ready, most, used)
    pause_s, counts = pause(ready.claims, error), next_step is NextStep.TRIED_AGAIN
    calls.again(connection, ready.node_id, pause_s=pause_s, counts=counts, spent=used)
    _settle(connection, ready, most, used, Amounts())
    if next_step is NextStep.PAUSED:
        lifecycle.pause(
            connection, ready.collection_id, f"endpoint {ready.endpoint}: {error.message[:300]}"
        )
        return StoredAnswer()
    return StoredAnswer(again_s=pause_s)


def _after(connection: Connection, ready: Ready, held: Held, error: CallError) -> NextStep:
    """The step after a failed call."""
    if held.stopped:
        return NextStep.GIVEN_UP
    if _meets_every_call(connection, ready, error):
        return NextStep.PAUSED
    again, away = error.retry is not Retry.NEVER, _is_away(error)
    answers = away and calls.answered_within(
        connection, ready.collection_id, ready.endpoint, AWAY_S
    )
    endless = error.kind is ErrorKind.TIMEOUT_CONNECT or ready.claims + 1 < MOST_TRIES
    if again and answers and endless:
        return NextStep.WAITED_FOR
    if again and held.faults + 1 < ready.spec.tries:
        return NextStep.TRIED_AGAIN
    return NextStep.PAUSED if away and not answers else NextStep.GIVEN_UP


def _is_away(error: CallError) -> bool:
    """True if the endpoint took no request: the call costs no budget."""
    return error.kind in AWAY and not error.paid


def _meets_every_call(connection: Connection, ready: Ready, error: CallError) -> bool:
    """True if every other call of the endpoint would fail alike, also by a parameter that it
    refuses: none of the collection's calls was answered.
    """
    if error.kind is not ErrorKind.BAD_REQUEST:
        return error.kind in outcomes.CAMPAIGN
    return not calls.answered_within(connection, ready.collection_id, ready.endpoint, EVER_S)


def pause(earlier: int, error: CallError) -> float:
    """Seconds before a call is tried again that was called `earlier` times before."""
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(earlier, 10))
    chosen = longest * random.uniform(0.5, 1.0)  # noqa: S311
    return max(chosen, error.retry_after_s or 0.0)


def _settle(
    connection: Connection, ready: Ready, held: Amounts, used: Amounts, kept: Amounts
) -> None:
    """Count the amounts used, and release the reservation beyond `kept`."""
    given_back = Amounts(**{name: getattr(held, name) - getattr(kept, name) for name in vars(held)})
    ledger.settle(
        connection,
        collection_id=ready.collection_id,
        rollout_id=ready.rollout_id,
        held=given_back,
        spent=used,
    )
