"""Collections against a scripted endpoint, with the real database and queue."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from celery import Celery

from app.collect import calls, control, report
from app.domain.collection import feedback
from app.domain.collection.call import (
    ErrorKind,
    Retry,
)
from app.domain.collection.states import CollectionState
from app.domain.collection.stop_reasons import StopReason
from app.domain.request import ConflictError, MissingError, RequestError
from app.settings import Settings
from app.store import tables
from app.store.browse import runs
from app.store.collection import figures, lifecycle, messages, token_rows
from app.store.postgres.database import Database
from app.store.trajectory import trajectories
from app.web import create_app
from tests.integration.collecting import CODE, Site, refused, said, specification


@pytest.fixture
def site(database: Database, broker: Celery, problem_id: UUID) -> Site:
    return Site(database, broker, lambda request: said(CODE))


def test_a_sequential_collection_is_a_trajectory_with_every_call_on_record(site: Site) -> None:
    collection_id = site.start(specification())
    site.run()
    found = site.collection(collection_id)
    assert found.state is CollectionState.FINISHED
    (trajectory,) = site.rows("trajectories")
    with site.database.begin() as connection:
        stored = trajectories.get(connection, trajectory.trajectory_id)
    assert stored is not None
    assert [turn.response for turn in stored.turns] == [CODE] * 3
    assert [len(turn.messages) for turn in stored.turns] == [1, 1, 1]
    assert [len(request.messages) for request in site.asked] == [1, 3, 5]
    sent = [message for request in site.asked[:1] for message in request.messages]
    assert list(stored.turns[0].messages) == sent
    assert [turn.messages[0] for turn in stored.turns[1:]] == [
        request.messages[-1] for request in site.asked[1:]
    ]
    assert (found.spent.calls, found.spent.tokens, found.spent.evaluations) == (3, 210, 1)
    assert found.reserved == type(found.reserved)()
    (run,) = site.rows("runs")
    assert run.settings["feedback"] == f"assay@{feedback.known('assay').sha256}"
    (rollout,) = site.rows("collection_rollouts")
    assert rollout.stop_reason == StopReason.MAX_TURNS
    assert rollout.picked == ["0.0"]


def test_what_was_sent_can_be_read_back_from_the_nodes(site: Site) -> None:
    site.start(specification())
    site.run()
    nodes = sorted(site.rows("nodes"), key=lambda node: node.turn)
    with site.database.begin() as connection:
        told = messages.load(connection, [key for node in nodes for key in node.messages])
    for node, request in zip(nodes, site.asked, strict=True):
        assert tuple(told[key] for key in node.messages) == request.messages
        assert request.seed == node.seed
    assert len({request.seed for request in site.asked}) == 3
    assert len(site.rows("model_calls")) == 3


def test_an_answer_without_code_is_an_outcome_with_feedback_and_no_evaluation(site: Site) -> None:
    site.model = lambda request: said("" if len(request.messages) == 1 else "I will not.")
    collection_id = site.start(specification())
    site.run()
    assert site.collection(collection_id).state is CollectionState.FINISHED
    assert not site.rows("jobs")
    assert [node.outcome["status"] for node in site.rows("nodes")] == ["no_code"] * 3
    assert all(message.content for request in site.asked for message in request.messages)


@pytest.mark.parametrize("nothing", ["", " \n\n", "\t"])
def test_an_answer_of_nothing_is_shown_as_one(site: Site, nothing: str) -> None:
    """Servers refuse messages without content, which would end the rollout as a fault."""
    site.model = lambda request: said(nothing)
    site.start(specification(strategy={"name": "sequential", "turns": 2}))
    site.run()
    assert [
        message.content for message in site.asked[1].messages if message.role == "assistant"
    ] == ["(no answer)"]
    assert [turn.response for turn in site.rows("turns")] == [nothing.encode()] * 2


@pytest.mark.parametrize(
    ("caps", "calls_made"),
    [({"calls": 2}, 2), ({"tokens": 1500}, 1), ({"usd": 0.0016}, 1), ({"evaluations": 1}, 1)],
)
def test_no_call_passes_a_budget_of_the_collection(
    site: Site, caps: dict[str, float], calls_made: int
) -> None:
    collection_id = site.start(specification(budgets={"collection": caps}))
    site.run()
    found = site.collection(collection_id)
    for name, cap in caps.items():
        assert getattr(found.spent, name) <= cap
    assert len(site.asked) == calls_made
    assert found.state is CollectionState.FINISHED
    with site.database.begin() as connection:
        assert report.progress(connection, "a")["budgets_reached"] == {
            f"collection: {next(iter(caps))}": 1
        }


@pytest.mark.parametrize(
    ("budgets", "named"),
    [
        (
            {"collection": {"gpu_s": 0.5}},
            r"budgets.collection.gpu_s: expected at least the 120 .*\(options.deadline_s\)",
        ),
        (
            {"rollout": {"tokens": 99}},
            r"budgets.rollout.tokens: expected at least the 100 .*sampling.max_tokens",
        ),
        (
            {"collection": {"usd": 1e-5}},
            "budgets.collection.usd: expected at least the 0.0002 that one attempt",
        ),
        (
            {"call": {"usd": 1e-5}},
            "budgets.call.usd: expected at least the 0.0002 that one attempt",
        ),
    ],
)
def test_a_budget_without_room_for_one_attempt_is_refused(
    site: Site, budgets: dict[str, Any], named: str
) -> None:
    with pytest.raises(RequestError, match=named):
        site.start(specification(budgets=budgets))
    assert site.rows("collections") == []


def test_a_budget_of_one_rollout_ends_it(site: Site) -> None:
    site.start(specification(budgets={"rollout": {"tokens": 1500}}))
    site.run()
    (rollout,) = site.rows("collection_rollouts")
    assert rollout.stop_reason == StopReason.MAX_TOKENS
    assert len(site.asked) == 1
    assert rollout.spent_tokens <= 1500


def test_a_lost_call_counts_at_its_maximum_and_is_made_again(site: Site) -> None:
    from app.collect.sweep import sweep

    collection_id = site.start(specification(strategy={"name": "independent"}))
    site.decide()
    dead = calls.prepare(site.database, site.broker, "local", owner="dead", lease_s=-1)
    assert isinstance(dead, calls.Prepared)
    assert site.collection(collection_id).reserved.calls == 1
    sweep(site.database, site.broker, "local")
    site.run()
    found = site.collection(collection_id)
    assert (found.state, found.spent.calls) == (CollectionState.FINISHED, 2)
    assert found.spent.tokens > 100 + 70
    assert sorted(call.state for call in site.rows("model_calls")) == ["answered", "lost"]
    assert len(site.rows("turns")) == 1


def test_a_lost_call_of_a_stopped_collection_leaves_no_attempt_behind(site: Site) -> None:
    from app.collect.sweep import sweep

    collection_id = site.start(specification(strategy={"name": "independent"}))
    site.decide()
    assert isinstance(
        calls.prepare(site.database, site.broker, "local", owner="dead", lease_s=-1), calls.Prepared
    )
    control.stop(site.database, "a", "me")
    sweep(site.database, site.broker, "local")
    site.run()
    assert [node.state for node in site.rows("nodes")] == ["done"]
    found = site.collection(collection_id)
    assert (found.state, found.reserved) == (CollectionState.STOPPED, type(found.reserved)())
    assert not site.asked


def test_the_answer_of_a_lost_lease_is_refused(site: Site) -> None:
    from app.collect.sweep import sweep

    site.start(specification(strategy={"name": "independent"}))
    site.decide()
    late = calls.prepare(site.database, site.broker, "local", owner="slow", lease_s=-1)
    sweep(site.database, site.broker, "local")
    site.run()
    assert isinstance(late, calls.Prepared)
    calls.store(site.database, site.broker, late, said("late"))
    assert [turn.response for turn in site.rows("turns")] == [CODE.encode()]


def test_pausing_holds_calls_back_and_stopping_ends_for_good(site: Site) -> None:
    collection_id = site.start(specification())
    site.decide()
    with site.database.begin() as connection:
        assert lifecycle.pause(connection, collection_id, "by me") is CollectionState.PAUSED
    site.run()
    assert not site.asked
    with site.database.begin() as connection:
        assert lifecycle.stop(connection, collection_id, "by me")
    with site.database.begin() as connection:
        lifecycle.settle_stopped(connection, collection_id, "by me")
    site.run()
    assert not site.asked
    assert site.collection(collection_id).state is CollectionState.STOPPED
    (rollout,) = site.rows("collection_rollouts")
    assert rollout.stop_reason == StopReason.STOPPED


def test_a_window_begins_trajectories_of_their_own_with_what_was_really_sent(site: Site) -> None:
    strategy = {"name": "windowed", "turns": 2, "iterations": 2, "window": 1}
    site.start(specification(strategy=strategy))
    site.run()
    assert [len(request.messages) for request in site.asked] == [1, 3, 3]
    assert len(site.rows("trajectories")) == 2
    assert len(site.rows("turns")) == 3


@pytest.mark.parametrize(
    ("strategy", "solved"),
    [
        ({"name": "windowed", "turns": 2, "iterations": 2, "window": 1}, (0, 1, 1)),
        ({"name": "best_of_n", "n": 3, "turns": 1}, (2,)),
    ],
)
def test_figures_count_samples_whatever_their_prompts_show(
    site: Site, strategy: dict[str, object], solved: tuple[int, ...]
) -> None:
    texts = iter(["fails", "passes", "passes"])
    site.model = lambda request: said(
        f"```python\n# {next(texts)} {request.seed}\nclass ModelNew: pass\n```"
    )
    collection = site.collection(site.start(specification(strategy=strategy)))
    site.run()
    with site.database.begin() as connection:
        assert figures.quality(connection, collection).solved_by_turn == solved
        run_id = connection.scalar(sa.select(tables.collections.c.run_id))
        found = runs.trajectories(connection, run_id)
    assert sorted(map(len, found)) == ([3] if strategy["name"] == "windowed" else [1, 1, 1])


@pytest.mark.parametrize("strategy", ["best_of_n", "adaptive", "beam", "islands"])
def test_every_search_comes_to_an_end(site: Site, strategy: str) -> None:
    texts = iter(range(1000))
    site.model = lambda request: said(
        f"```python\n# {'passes' if next(texts) % 2 else 'fails'} {request.seed}\n```"
    )
    options = {
        "best_of_n": {"n": 3},
        "adaptive": {"per_round": 2, "rounds": 2},
        "islands": {"attempts": 6},
    }
    collection_id = site.start(
        specification(strategy={"name": strategy, **options.get(strategy, {})})
    )
    site.run()
    assert site.collection(collection_id).state is CollectionState.FINISHED
    (rollout,) = site.rows("collection_rollouts")
    assert rollout.picked


def test_a_bad_specification_is_refused_before_anything_is_stored(site: Site) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"endpoint": "missing"}, MissingError, "missing"),
        ({"problems": {"names": ["tanh"]}}, MissingError, "'tanh'"),
        ({"problems": {"source_set": "none"}}, RequestError, "expected at least one"),
        ({"problems": {"ids": ["x"]}}, RequestError, "problems.ids"),
        ({"device_class": "h900"}, RequestError, "device_class"),
        ({"sampling": {"extra": {"n": 4}}}, RequestError, "sampling.extra: .* got n"),
        (
            {"sampling": {"extra": {"temperature": 1}}},
            RequestError,
            "sampling.extra: .* got temperature",
        ),
    ]
    for change, error, named in wrong:
        with pytest.raises(error, match=named):
            site.start(specification(**change))
    assert not site.rows("collections")
    assert not site.rows("runs")
    first = site.start(specification())
    assert site.start(specification()) == first
    with pytest.raises(ConflictError, match="name: expected a new one"):
        site.start(specification(seed=1))


def test_pages_show_a_collection_its_trees_and_what_was_sent(
    site: Site, settings: Settings
) -> None:
    site.start(specification())
    site.run()
    collection_id = site.rows("collections")[0].collection_id
    (rollout,) = site.rows("collection_rollouts")
    node = min(site.rows("nodes"), key=lambda each: each.turn)
    app = create_app(settings)
    web = app.test_client()
    pages = {
        "/collections": "1 / 1",
        f"/collections/{collection_id}": "1 of 1 rollouts finished, on 1 problem;",
        f"/collections/{collection_id}/live": "1 of 1 rollouts finished, on 1 problem;",
        f"/rollouts/{rollout.rollout_id}": "0.2",
        f"/attempts/{node.node_id}": "ModelNew",
    }
    for path, shown in pages.items():
        answer = web.get(path)
        assert (answer.status_code, shown in answer.text) == (200, True), path
    assert web.get(f"/collections/{node.node_id}").status_code == 404
    parts = app.extensions["assay"]
    parts["watch"].close()
    parts["database"].dispose()


def test_token_rows_hold_what_the_server_gave(site: Site) -> None:
    ids = {"prompt_token_ids": (1, 2), "token_ids": (3, 4), "logprobs": (-0.5, -0.25)}
    site.model = lambda request: said(CODE, **ids)
    collection_id = site.start(specification(strategy={"name": "independent", "samples": 2}))
    site.run()
    with site.database.begin() as connection:
        found = list(token_rows.rows(connection, collection_id))
    assert [row["sample"] for row in found] == [0, 1]
    assert len({row["group"] for row in found}) == 1
    for row in found:
        assert (row["ids"], row["mask"], row["logprobs"]) == (
            [1, 2, 3, 4],
            [0, 0, 1, 1],
            [0.0, 0.0, -0.5, -0.25],
        )
        assert row["turn_rewards"][0] > 1


def test_status_tells_the_last_error_and_until_when_an_endpoint_is_waited_for(site: Site) -> None:
    site.model = lambda _: refused(ErrorKind.RATE_LIMITED, retry=Retry.WAIT, retry_after_s=900.0)
    site.start(specification())
    while site.decide() or site.call():
        pass
    with site.database.begin() as connection:
        told = report.summary(connection, "a")
    waits = datetime.fromisoformat(told["waits_until"]) - datetime.now(UTC)
    assert 600 < waits.total_seconds() <= 900
    assert (told["calls"][0]["last_error"], told["waits_for"]) == ("no", "endpoint local: no")
    site.hurry()
    with site.database.begin() as connection:
        assert report.progress(connection, "a")["waits_until"] is None
