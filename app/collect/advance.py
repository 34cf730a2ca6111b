"""COLLECT: one decision of a rollout, in one transaction: outcomes and feedback of
ended attempts, then new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from celery import Celery

from app.collect import prompts, row_cache, send
from app.domain.collection import continuation, outcomes
from app.domain.collection.budgets import Amounts, evaluated
from app.domain.collection.call import End
from app.domain.collection.decide import decide
from app.domain.collection.draws import draws
from app.domain.collection.states import CollectionState, NodeState
from app.domain.collection.tree import Decision, Tree
from app.domain.problem import Problem
from app.domain.result import Result
from app.store.collection import ledger, lifecycle, trees
from app.store.collection.trees import AttemptNode, Due, NewNode, Rollout
from app.store.evaluation import evaluations
from app.store.postgres.database import Connection, Database


@dataclass(frozen=True, kw_only=True)
class Step:
    """Result of a decision."""

    due: Sequence[Due] = ()
    """Attempts that may call their model now."""
    stopped: UUID | None = None
    """The collection, where the rollout has stopped: it may be over."""


@dataclass(frozen=True, kw_only=True)
class Bill:
    """Amounts of evaluations that have ended."""

    held: Amounts = field(default_factory=Amounts)
    spent: Amounts = field(default_factory=Amounts)


def advance(
    database: Database, broker: Celery, rollout_id: UUID, *, endpoint: str | None = None
) -> bool:
    """Decide the next step of a rollout, if one is due; a repeated call does nothing.

    `endpoint`: the caller makes the first call of this endpoint that becomes due itself, so no
    message is sent for it. Returns True if there is such a call.
    """
    with database.begin() as connection:
        rollout = trees.lock(connection, rollout_id)
        if rollout is None:
            return False
        step = _advance(connection, rollout)
    own = next((each for each in step.due if each.endpoint == endpoint), None)
    send.calls(broker, [each for each in step.due if each is not own])
    if step.stopped is not None:
        with database.begin() as connection:
            lifecycle.finish_if_over(connection, step.stopped)
    return own is not None


def _advance(connection: Connection, rollout: Rollout) -> Step:
    found = trees.attempts(connection, rollout.rollout_id)
    attempts, bill = _completed(connection, rollout, found)
    step = _decided(connection, rollout, attempts, bill)
    ledger.settle(
        connection,
        collection_id=rollout.collection_id,
        rollout_id=rollout.rollout_id,
        held=bill.held,
        spent=bill.spent,
    )
    return step


def _decided(
    connection: Connection, rollout: Rollout, attempts: Sequence[AttemptNode], bill: Bill
) -> Step:
    if rollout.stop_reason is not None or rollout.state is CollectionState.STOPPED:
        return Step()
    if rollout.state is CollectionState.PAUSED:
        return Step()  # it stays due
    tree = trees.tree(attempts)
    problem = row_cache.problem(connection, rollout.problem_id)
    chance = draws(rollout.spec.seed, problem.reference_sha256, rollout.sample)
    decision = decide(rollout.spec, tree, rollout.spent + bill.spent, chance)
    due = _grow(connection, rollout, problem, attempts, tree, decision)
    trees.decided(connection, rollout.rollout_id, decision.stop)
    return Step(due=due, stopped=rollout.collection_id if decision.stop else None)


def _grow(
    connection: Connection,
    rollout: Rollout,
    problem: Problem,
    attempts: Sequence[AttemptNode],
    tree: Tree,
    decision: Decision,
) -> list[Due]:
    if not decision.generate:
        return []
    first = next((each.messages for each in attempts if not each.node.shown), None)
    begin = first or prompts.opening(connection, rollout.spec, rollout.prompts, problem)
    by_key = {each.node.key: each for each in attempts}
    taken = {each.node.parent for each in attempts if each.continues}
    new = []
    for each in decision.generate:
        goes_on = continuation.continues(each, tree, taken)
        if goes_on:
            taken.add(each.parent)
        keys = prompts.conversation(each, by_key, begin)
        new.append(NewNode(generate=each, messages=keys, continues=goes_on))
    return trees.add(connection, rollout, new)


def _completed(
    connection: Connection, rollout: Rollout, found: Sequence[AttemptNode]
) -> tuple[list[AttemptNode], Bill]:
    """The attempts, with outcomes if the evaluation is over, and their cost."""
    over = [
        each
        for each in found
        if each.state is NodeState.EVALUATING and each.job_over and each.job_id
    ]
    if not over:
        return list(found), Bill()
    records = evaluations.job_records(connection, [each.job_id for each in over if each.job_id])
    results = {
        job_id: record.result(score=rollout.spec.reward) for job_id, record in records.items()
    }
    done = {
        each.node_id: _complete(connection, rollout, each, results[each.job_id])
        for each in over
        if each.job_id
    }
    bill = Bill()
    for each in over:
        if each.reserved.evaluations and each.job_id:
            bill = Bill(
                held=bill.held + each.reserved, spent=bill.spent + evaluated(results[each.job_id])
            )
    return [done.get(each.node_id, each) for each in found], bill


def _complete(
    connection: Connection, rollout: Rollout, attempt: AttemptNode, result: Result
) -> AttemptNode:
    spec, turn = rollout.spec, attempt.node.turn
    ending = End(attempt.ending or End.UNKNOWN)
    outcome = outcomes.judged(
        result, end=ending, scored_by=spec.reward, tokens=attempt.tokens, cost_usd=attempt.cost_usd
    )
    told = None
    if outcome.fault is None:
        told = prompts.feedback(
            connection, spec, rollout.prompts, turn=turn, result=result, why="ok"
        )
    trees.complete(connection, attempt.node_id, outcome, feedback=told)
    return replace(
        attempt, node=replace(attempt.node, outcome=outcome), state=NodeState.DONE, feedback=told
    )
