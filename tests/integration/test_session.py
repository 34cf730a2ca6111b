"""A session against a collection: the same texts, stops and rewards, embedded and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.client import Answer, Client, KernelSession, RequestError, answer_all
from app.domain.collection.call import ModelRequest
from app.domain.collection.stop_reasons import StopReason
from app.domain.collection.templates import Template
from app.domain.job import Limits
from app.domain.problem import Problem
from app.domain.request import MissingError
from app.domain.rollout import Place
from app.domain.verdict import Label, Verdict
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.queue import leases
from app.store.trajectory import trajectories
from tests.integration.collecting import REFERENCE, Site, said, specification
from tests.integration.fakes import incorrect, profiled
from tests.integration.web_app import worker

PROBLEM = Problem(name="softmax", reference=REFERENCE, source_set="tests")
PASSES = "```python\n# passes\nclass ModelNew: pass\n```"
FAILS = "Look:\n```python\n# fails\nclass ModelNew: pass\n```"
NO_CODE = "I will not."
ANSWERS = [NO_CODE, FAILS, PASSES, FAILS]


def evaluated(database: Database, job_id: UUID) -> None:
    """Evaluate a job in the way of `Site.evaluate`."""
    with database.begin() as connection:
        lease = leases.claim(connection, job_id, "device", 30, Limits())
        if lease is None:
            return
        found = profiled() if lease.job.candidate.startswith(b"# passes") else incorrect()
        verdict = Verdict(label=Label.CLEAN, policy="kernelbench", detectors={}, findings=())
        evaluations.add(connection, lease, worker="device", evaluation=found, verdict=verdict)


@contextmanager
def device(database: Database) -> Iterator[None]:
    with worker(database, evaluated):
        yield


def scripted(request: ModelRequest) -> Any:
    """The answer by the number of feedbacks that the prompt shows; reasoning with every one."""
    told = sum(message.role == "assistant" for message in request.messages)
    return said(ANSWERS[told], reasoning="hm")


CASES: dict[str, dict[str, Any]] = {
    "plain": {"strategy": {"name": "sequential", "turns": 4}},
    "solved": {"stops": {"solved": True}, "context": {"reasoning": "keep"}},
    "dr_kernel": {
        "prompts": {
            "problem": "dr_kernel",
            "feedback": "dr_kernel",
            "feedback_version": "dr_kernel",
        },
        "reward": "calculate_reward_like_kernel",
        "backend": "cuda",
    },
    "window": {"context": {"history": "window", "window": 1}},
    "no_code": {"stops": {"no_code": 1}},
    "budget": {"budgets": {"rollout": {"calls": 2}}},
}


@pytest.mark.parametrize(
    ("way", "case"),
    [
        *(("client", case) for case in CASES),
        ("remote_client", "dr_kernel"),
        ("remote_client", "window"),
    ],
)
def test_a_session_says_what_a_collection_says(
    way: str,
    case: str,
    request: pytest.FixtureRequest,
    database: Database,
    broker: Any,
    problem_id: UUID,
) -> None:
    opened: Client = request.getfixturevalue(way)
    spec = specification(**CASES[case])
    site = Site(database, broker, scripted)
    site.start(spec)
    site.run()
    nodes = sorted(site.rows("nodes"), key=lambda node: node.turn)
    nodes = [node for node in nodes if node.outcome["fault"] != StopReason.BUDGET]
    (rollout,) = site.rows("collection_rollouts")
    with database.begin() as connection:
        ids = sorted({row.trajectory_id for row in site.rows("trajectories")}, key=str)
        collected = [trajectories.get(connection, each) for each in ids]

    session = KernelSession(opened, spec).open(problem_id)
    with device(database):
        for node, asked in zip(nodes, site.asked, strict=True):
            assert session.messages == [vars(each) for each in asked.messages]
            assert (session.seed, session.max_tokens) == (asked.seed, asked.max_tokens)
            answer = scripted(asked)
            step = session.answer(
                answer.text, reasoning=answer.reasoning, end=answer.end, tokens=(50, 20)
            )
            assert step.reward == node.outcome["reward"]
            assert step.status == node.outcome["status"]
    assert session.stop_reason == rollout.stop_reason
    assert session.done
    with database.begin() as connection:
        kept = [trajectories.get(connection, each) for each in session.trajectory_ids]
    assert [turns(each) for each in kept] == [
        turns(each) for each in sorted(collected, key=place(kept))
    ]


def turns(trajectory: Any) -> list[tuple[Any, ...]]:
    """Everything of a stored trajectory but its ids; equal submissions share one job."""
    return [
        (trajectory.problem_id, trajectory.backend, each.messages, each.response, each.job_id)
        for each in trajectory.turns
    ]


def place(kept: list[Any]) -> Callable[[Any], int]:
    order = {each.turns[0].response: index for index, each in enumerate(kept)}
    return lambda trajectory: order[trajectory.turns[0].response]


def begun(client: Client, **changes: Any) -> KernelSession:
    return KernelSession(client, {"strategy": {"turns": 2}, **changes}).open(PROBLEM)


def test_many_sessions_are_evaluated_side_by_side(client: Client, database: Database) -> None:
    sessions = [
        KernelSession(
            client, {"strategy": {"turns": 2}}, place=Place(run="t", step=3, group="g", sample=each)
        )
        for each in range(3)
    ]
    for session in sessions:
        session.open(REFERENCE)
    with device(database):
        first = answer_all(
            Answer(session=each, text=text) for each, text in zip(sessions, ANSWERS, strict=False)
        )
        assert [step.reward for step in first] == [0.0, 0.0, 1.9]
        assert {step.done for step in first} == {False}

        async def together() -> list[Any]:
            return list(
                await asyncio.gather(
                    *(each.answer_async(PASSES, end="length") for each in sessions)
                )
            )

        last = asyncio.run(together())
    assert [step.stop_reason for step in last] == [StopReason.MAX_TURNS] * 3
    assert [session.rewards for session in sessions] == [[0.0, 1.9], [0.0, 1.9], [1.9, 1.9]]
    assert len({session.seed for session in [begun(client), begun(client, seed=1)]}) == 2
    with database.begin() as connection:
        kept = [trajectories.get(connection, each.trajectory_ids[0]) for each in sessions]
    assert [(each.run, each.label) for each in kept if each] == [
        ("t step 3", f"g/{each}") for each in range(3)
    ]


def test_faults_have_no_reward_and_end_the_session(client: Client, database: Database) -> None:
    def fails(database: Database, job_id: UUID) -> None:
        with database.begin() as connection:
            lease = leases.claim(connection, job_id, "device", 30, Limits())
            assert lease is not None
            leases.fail(connection, lease, "infrastructure", "on fire")

    session = begun(client)
    with worker(database, fails):
        step = session.answer(PASSES)
    assert (step.reward, step.feedback, step.done) == (None, None, True)
    assert session.stop_reason == StopReason.EVALUATOR_ERROR
    assert session.unfinished
    late = KernelSession(client, deadline_s=0.1).open(PROBLEM)
    assert late.answer(FAILS).stop_reason == StopReason.EVALUATOR_ERROR, "nothing evaluates"
    broken = begun(client)
    step = broken.answer(PASSES[:9], end="abort")
    assert (step.reward, broken.stop_reason) == (None, StopReason.ENDPOINT_ERROR)
    assert (broken.unfinished, broken.trajectory_ids) == (True, [])
    full = begun(client)
    assert full.overflow().stop_reason == StopReason.CONTEXT_OVERFLOW
    assert full.rewards == [None]
    ended = begun(client)
    ended.end()
    assert (ended.stop_reason, ended.trajectory_ids) == (StopReason.STOPPED, [])


def test_bad_input_is_refused_with_what_was_expected(client: Client) -> None:
    with pytest.raises(
        RequestError, match=r"strategy\.name: expected one that makes one attempt at a time"
    ):
        begun(client, strategy={"name": "best_of_n", "n": 2})
    with pytest.raises(RequestError, match="fresh: expected false"):
        begun(client, fresh=True)
    with pytest.raises(RequestError, match="unknown key"):
        begun(client, turns=3)
    with pytest.raises(MissingError, match="no problem template 'mine'; there are: assay"):
        begun(client, prompts={"problem": "mine"})
    with pytest.raises(MissingError, match="no problem"):
        KernelSession(client).open(uuid4())
    with pytest.raises(RequestError, match="call open"):
        _ = KernelSession(client).messages
    session = begun(client)
    with pytest.raises(RequestError, match="end: expected one of stop, length"):
        session.answer("", end="full")
    with pytest.raises(RequestError, match="every session once"):
        answer_all([Answer(session=session, text="")] * 2)
    mine = Template(name="mine", kind="problem", body="Speed up {reference}")
    own = KernelSession(client, {"prompts": {"problem": "mine"}}, templates=[mine]).open(
        "class Net: ...", entry_point="Net"
    )
    assert own.messages == [{"role": "user", "content": "Speed up class Net: ..."}]


def test_an_answer_without_text_is_an_outcome_and_other_values_are_named(
    client: Client, problem_id: UUID
) -> None:
    session = KernelSession(client, {"strategy": {"turns": 2}}, store=False).open(problem_id)
    assert session.answer(None).status == "no_code"
    with pytest.raises(RequestError, match="text: expected text, or None"):
        session.answer([{"type": "text", "text": PASSES}])  # type: ignore[arg-type]
    assert session.answer(NO_CODE).done
