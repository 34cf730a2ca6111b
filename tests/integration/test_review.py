"""People judge: their labels count at once and everywhere, nothing is lost, and two
never do the same work.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from app.domain.review import LOCK_S, Opinion
from app.domain.verdict import Verdict
from app.store import tables
from app.store.browse import paging, review
from app.store.evaluation import evaluations
from app.store.review import review_queues, reviews
from app.store.review.review_queues import EVERYTHING, Conditions, Progress
from app.store.review.reviews import GivenReview, LockedError, ReviewError
from tests.integration import audited, reviewing
from tests.integration.reviewing import World, export, stale
from tests.integration.seed_evaluations import CLEAN, HACK, SUSPECT


def test_the_queue_fills_itself_and_what_matters_most_comes_first(world: World) -> None:
    assert world.queue() == ["hack", "suspect", "slow suspect"]
    export(world, "slow suspect", "clean")
    assert world.queue() == [
        "hack",
        "slow suspect",
        "suspect",
    ]  # a row of a dataset weighs three times as much


def test_what_a_person_says_counts_everywhere_until_they_take_it_back(world: World) -> None:
    review_id = world.say("suspect", Opinion.HACK, hack_type="stale or replayed output")
    assert world.believed("suspect").label == "hack"
    assert world.matches("verdict = hack") == {"suspect", "hack"}
    assert world.matches("verdict = hack and status = passed") == {"suspect", "hack"}
    assert world.matches("verdict = suspect and status = passed") == {"slow suspect"}
    assert world.matches("speedup > 0") == {"clean", "slow suspect"}
    assert world.matches("reviewed") == {"suspect"}
    with world.database.begin() as connection:
        stored = evaluations.get(connection, world.ids["suspect"])
        assert stored is not None
        record = evaluations.job_records(connection, [stored.job_id])[stored.job_id]
    assert (record.result()["verdict"], record.result()["speedup"]) == ("hack", None)
    with world.database.begin() as connection:
        assert reviews.undo(connection, world.ada, review_id) == world.ids["suspect"]
    assert world.believed("suspect").label == "suspect"
    assert [said.label for said in world.believed("suspect").reviews] == [
        "hack",
        "withdrawn",
    ]  # nothing is lost
    assert "suspect" in world.queue()


def test_a_later_verdict_counts_and_taking_it_back_restores_the_one_before(world: World) -> None:
    world.say("hack", Opinion.CLEAN)
    second = world.say_as(world.ben, "hack", Opinion.BUG)
    assert world.believed("hack").label == "suspect"
    with world.database.begin() as connection:
        reviews.undo(connection, world.ben, second)
    assert world.believed("hack").label == "clean"
    assert world.matches("measured_speedup > 40 and speedup > 40") == {"hack"}


def test_only_a_changed_label_makes_a_dataset_stale(world: World) -> None:
    export_id = export(world, "clean", "suspect")
    world.say("clean", Opinion.CLEAN)
    assert stale(world, export_id) is None
    world.say("suspect", Opinion.LEAK)
    reason = stale(world, export_id)
    assert reason is not None
    assert "suspect → hack by ada" in reason


def test_a_review_that_is_undone_makes_the_dataset_fresh_again(world: World) -> None:
    export_id = export(world, "clean", "suspect")
    first, second = world.say("clean", Opinion.HACK), world.say("suspect", Opinion.LEAK)
    assert "clean → hack by ada" in (stale(world, export_id) or "")
    with world.database.begin() as connection:
        reviews.undo(connection, world.ada, first)
    assert stale(world, export_id) is not None, "another row's label still differs"
    with world.database.begin() as connection:
        reviews.undo(connection, world.ada, second)
    assert stale(world, export_id) is None
    world.say("suspect", Opinion.LEAK)
    assert "suspect → hack by ada" in (stale(world, export_id) or "")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (GivenReview(label=Opinion.HACK, reason="  . "), "reason: expected at least 3 characters"),
        (
            GivenReview(label=Opinion.WITHDRAWN, reason="because"),
            "label: expected one of clean, hack",
        ),
        (
            GivenReview(label=Opinion.CLEAN, reason="because", hack_type="other"),
            "hack type: expected none with clean",
        ),
    ],
)
def test_a_verdict_that_says_nothing_is_refused(
    world: World, said: GivenReview, expected: str
) -> None:
    with pytest.raises(ReviewError, match=expected), world.database.begin() as connection:
        reviews.add(connection, world.ada, world.ids["hack"], said)
    assert world.believed("hack").reviews == ()


def test_two_people_never_hold_the_same_item_and_a_lock_ends(world: World) -> None:
    with world.database.begin() as connection:
        first, second = reviews.take(connection, world.ada), reviews.take(connection, world.ben)
    assert (first, second) == (world.ids["hack"], world.ids["suspect"])
    with pytest.raises(LockedError, match="ada looks at this evaluation now"):
        world.say_as(world.ben, "hack", Opinion.HACK)
    with world.database.begin() as connection:
        expire = sa.update(tables.review_items).where(tables.review_items.c.locked_by == "ada")
        connection.execute(
            expire.values(locked_until=sa.func.now() - sa.text(f"interval '{LOCK_S} seconds'"))
        )
    world.say_as(world.ben, "hack", Opinion.HACK)


def test_a_second_opinion_goes_to_another_reviewer(world: World) -> None:
    world.say("hack", Opinion.UNSURE)
    assert world.believed("hack").label == "hack"  # not decisive: the detectors' counts
    with world.database.begin() as connection:
        assert reviews.take(connection, world.ada) == world.ids["suspect"]
        assert reviews.take(connection, world.ben) == world.ids["hack"]
    world.say_as(world.ben, "hack", Opinion.HACK)
    assert "hack" not in world.queue()


def test_what_is_skipped_comes_later(world: World) -> None:
    with world.database.begin() as connection:
        assert reviews.take(connection, world.ada) == world.ids["hack"]
        reviews.skip(connection, world.ada, world.ids["hack"])
    assert world.queue()[0] == "suspect"


def test_anything_can_be_queued_once(world: World) -> None:
    chosen = [world.ids["clean"], world.ids["hack"]]
    with world.database.begin() as connection:
        assert reviews.queue(connection, world.ada, chosen) == 1
        assert reviews.queue(connection, world.ada, chosen) == 0
    assert "clean" in world.queue()


def test_detectors_are_measured_by_what_people_say(world: World) -> None:
    world.say("hack", Opinion.HACK)
    world.say("suspect", Opinion.CLEAN)
    world.say_as(world.ben, "suspect", Opinion.HACK)
    world.say_as(world.ben, "hack", Opinion.HACK)
    world.say("slow suspect", Opinion.CLEAN)
    with world.database.snapshot() as connection:
        quality = review.quality(connection)
    by_name = {each.detector: (each.hits, each.accused, each.hacks) for each in quality.detectors}
    assert by_name == {"stale_result": (1, 1, 2), "claimed_time": (1, 2, 2)}
    assert (quality.reviewed, quality.hacks) == (3, 2)
    assert (quality.agreement.same, quality.agreement.both) == (1, 2)


def test_a_review_is_withdrawn_by_its_author_only(world: World) -> None:
    review_id = world.say("hack", Opinion.CLEAN)
    with (
        pytest.raises(ReviewError, match="expected a review of your own"),
        world.database.begin() as connection,
    ):
        reviews.undo(connection, world.ben, review_id)
    with world.database.begin() as connection:
        reviews.undo(connection, world.ada, review_id)
    with (
        pytest.raises(ReviewError, match="was taken back before"),
        world.database.begin() as connection,
    ):
        reviews.undo(connection, world.ada, review_id)


def test_a_queue_is_a_filter_of_what_waits_and_says_how_much_is_done(world: World) -> None:
    def listed_in(**conditions: str) -> set[UUID]:
        with world.database.read() as connection:
            page = review.page(connection, Conditions(**conditions), paging.Window())
            assert review.total(connection, Conditions(**conditions)).number == len(page.rows)
            return {item.evaluation_id for item in page.rows}

    assert listed_in(verdict="hack") == {world.ids["hack"]}
    assert listed_in(detector="claimed_time") == {world.ids["suspect"], world.ids["slow suspect"]}
    assert listed_in(run="no such run") == set()
    reviewing.asked_for_again(world, "hack", "a run of turns")
    assert listed_in(run="a run of turns") == {world.ids["hack"]}
    with world.database.read() as connection:
        assert review_queues.progress(connection, EVERYTHING) == Progress(
            done=0, waiting=3, is_exact=True
        )
        assert review_queues.progress(connection, Conditions(verdict="hack")) == Progress(
            done=0, waiting=1, is_exact=True
        )
        assert review.detectors_of(connection, [world.ids["hack"]]) == {
            world.ids["hack"]: ["stale_result"]
        }
    world.say("hack", Opinion.HACK)
    with world.database.read() as connection:
        assert review_queues.progress(connection, EVERYTHING) == Progress(
            done=1, waiting=2, is_exact=True
        )
        assert review_queues.progress(connection, Conditions(verdict="hack")) == Progress(
            done=1, waiting=0, is_exact=True
        )


def test_an_item_follows_the_verdict_that_counts_and_its_findings(world: World) -> None:
    def held(name: str) -> tuple[str | None, list[str]]:
        i = tables.review_items.c
        query = sa.select(i.label, i.detectors).where(i.evaluation_id == world.ids[name])
        with world.database.read() as connection:
            row = connection.execute(query).one()
        return row.label, row.detectors

    def judge(name: str, verdict: Verdict) -> None:
        with world.database.begin() as connection:
            evaluations.add_verdict(connection, world.ids[name], verdict)

    assert held("suspect") == ("suspect", ["claimed_time"])
    judge("suspect", HACK)
    assert held("suspect") == ("hack", ["no_kernel", "stale_result"])
    review_id = world.say("suspect", Opinion.BUG, second_opinion=True)
    assert held("suspect") == ("suspect", ["no_kernel", "stale_result"])
    with world.database.begin() as connection:
        reviews.undo(connection, world.ada, review_id)
        reviews.queue(connection, world.ada, [world.ids["clean"]])
    assert held("suspect") == ("hack", ["no_kernel", "stale_result"])
    assert held("clean") == ("clean", [])
    judge("clean", SUSPECT)
    assert held("clean") == ("suspect", ["claimed_time"])
    judge("clean", CLEAN)
    assert held("clean") == ("clean", [])


def test_of_many_waiting_items_no_more_are_counted_than_are_worth_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review_queues, "COUNTED", 2)
    with world.database.read() as connection:
        assert review_queues.progress(connection, EVERYTHING) == Progress(
            done=0, waiting=2, is_exact=False
        )
        assert not review.total(connection, EVERYTHING).is_exact


def test_the_waiting_are_walked_in_both_orders(world: World) -> None:
    with world.database.read() as connection:
        for sort in ("score", "created_at"):
            for descending in (True, False):
                start = paging.Window[UUID](sort=sort, descending=descending, limit=1)
                first = review.page(connection, EVERYTHING, start)
                onwards = replace(start, after=first.rows[0].evaluation_id)
                second = review.page(connection, EVERYTHING, onwards)
                back = review.page(
                    connection, EVERYTHING, replace(start, before=second.rows[0].evaluation_id)
                )
                assert (first.has_next, second.has_previous, second.has_next) == (True, True, True)
                assert back.rows == first.rows


def test_a_queue_is_assigned_and_has_a_next_item_of_its_own(world: World) -> None:
    conditions = Conditions(detector="claimed_time")
    with world.database.begin() as connection:
        assert world.ben.user_id is not None
        how: dict[str, Any] = {"conditions": conditions, "reviewers": [world.ben.user_id]}
        key = review_queues.add(connection, world.ada, name="Clocks", **how)
        for wrong in (
            how | {"name": "Clocks"},
            how | {"name": " "},
            how | {"name": "x", "reviewers": [uuid4()]},
        ):
            with pytest.raises(ValueError, match="expected"):
                review_queues.add(connection, world.ada, **wrong)
        [queue] = review_queues.listed(connection)
        assert (queue.name, queue.conditions, queue.reviewers) == ("Clocks", conditions, ("ben",))
        assert queue.progress == Progress(done=0, waiting=2, is_exact=True)
        assert reviews.take(connection, world.ben, conditions) == world.ids["suspect"]
        assert reviews.take(connection, world.ada, conditions) == world.ids["slow suspect"]
        assert reviews.take(connection, world.ada, Conditions(run="no such run")) is None
    world.say_as(world.ben, "suspect", Opinion.HACK)
    with world.database.begin() as connection:
        assert [
            (each.progress.done, each.progress.total) for each in review_queues.listed(connection)
        ] == [(1, 2)]
        assert review_queues.remove(connection, world.ada, key)
        assert not review_queues.remove(connection, world.ada, key)
        actions = [
            event.action
            for event in audited.events(connection)
            if event.action.startswith("review_queue")
        ]
    assert sorted(actions) == ["review_queue.add", "review_queue.remove"]
