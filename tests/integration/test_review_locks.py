"""Items of the review queue are locked in one order, and none after a dataset: no two writers wait
for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

import flask
import pytest
import sqlalchemy as sa

from app.domain.review import Opinion
from app.store import tables
from app.store.dataset import stale_exports
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.review import reviews
from app.store.user import logins
from app.web.identity import cookies
from tests.integration import reviewing
from tests.integration.login_form import csrf
from tests.integration.overlap import started, waits_or_ends
from tests.integration.reviewing import World
from tests.integration.seed_evaluations import CLEAN

_i = tables.review_items.c

Act: TypeAlias = Callable[[World, sa.Connection, list[UUID]], object]


@pytest.fixture
def world(database: Database) -> World:
    return reviewing.seeded(database)


def items(world: World) -> list[UUID]:
    """Two items by their ids; the table has them in the other order, and the second one is the
    more important.
    """
    first, second = sorted([world.ids["suspect"], world.ids["hack"]])
    with world.database.begin() as connection:
        for table in (tables.evaluations, tables.review_items):
            moved = sa.update(table).where(table.c.evaluation_id == first)
            connection.execute(moved.values(evaluation_id=first))
        important = sa.update(tables.review_items).where(_i.evaluation_id == second)
        connection.execute(important.values(score=100.0))
    return [first, second]


def is_free(database: Database, evaluation_id: UUID) -> bool:
    query = sa.select(_i.evaluation_id).where(_i.evaluation_id == evaluation_id)
    with database.begin() as connection:
        return connection.scalar(query.with_for_update(skip_locked=True)) is not None


def lock_the_second(world: World, connection: sa.Connection, ids: list[UUID]) -> None:
    reviews.lock(connection, world.ada, ids[1])


def take_the_second(world: World, connection: sa.Connection, ids: list[UUID]) -> None:
    assert reviews.take(connection, world.ada) == ids[1]


def queue_both(world: World, connection: sa.Connection, ids: list[UUID]) -> None:
    reviews.queue(connection, world.ada, ids[::-1])


def export_both(world: World, connection: sa.Connection, ids: list[UUID]) -> None:
    export_id = UUID(int=1)
    values = {"format": "trl_sft", "where_text": "", "directory": "/nowhere", "row_count": 2}
    connection.execute(tables.exports.insert().values(export_id=export_id, manifest={}, **values))
    rows = [
        {"export_id": export_id, "row_index": index, "evaluation_id": each}
        for index, each in enumerate(ids[::-1])
    ]
    connection.execute(tables.export_rows.insert().values(rows))


@pytest.mark.parametrize("act", [lock_the_second, take_the_second, queue_both, export_both])
def test_items_are_locked_in_the_order_of_their_ids(world: World, act: Act) -> None:
    ids = items(world)
    with world.database.begin() as connection:
        reviews.lock(connection, world.ada, ids[0])

    def acted() -> None:
        with world.database.begin() as connection:
            act(world, connection, ids)

    with world.database.begin() as connection:
        held = sa.select(_i.evaluation_id).where(_i.evaluation_id == ids[0])
        connection.execute(held.with_for_update())
        with started(acted) as later:
            waits_or_ends(world.database, later)
            assert not later.done()
            free = is_free(world.database, ids[1])
            connection.commit()
            later.result()
    assert free


def test_a_review_is_taken_back_while_the_item_held_before_is_judged(
    world: World, made: Callable[..., flask.Flask]
) -> None:
    reviewing.export(world, "suspect", "hack")
    review_id = world.say("suspect", Opinion.CLEAN)
    judged = world.ids["hack"]
    with world.database.begin() as connection:
        reviews.lock(connection, world.ada, judged)
        assert world.ada.user_id is not None
        secret = logins.open_(connection, world.ada.user_id)
    site = made().test_client()
    site.set_cookie(cookies.SESSION, secret)
    form = {"csrf_token": csrf(site, "/account")}
    with world.database.begin() as connection:
        evaluations.add_verdict(connection, judged, CLEAN)
        with started(lambda: site.post(f"/review/undo/{review_id}", data=form)) as later:
            waits_or_ends(world.database, later)
            stale_exports.mark(connection, judged, before="hack", after="clean", why="a test")
            connection.commit()
            answer = later.result()
    assert (answer.status_code, answer.location) == (302, f"/review/{world.ids['suspect']}")
