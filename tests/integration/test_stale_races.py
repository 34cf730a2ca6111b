"""A label that changes while a dataset is recorded, or while another label of it changes: the
dataset is stale in any order.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
import sqlalchemy as sa

from app.domain.review import Opinion
from app.store import tables
from app.store.dataset import exports, label_changes
from app.store.postgres.database import Database
from app.store.review import reviews
from app.store.review.reviews import GivenReview
from tests.integration import reviewing
from tests.integration.overlap import started, waits_or_ends
from tests.integration.reviewing import World

HACK = GivenReview(label=Opinion.HACK, reason="line 7 returns the cache")


@pytest.fixture
def world(database: Database) -> World:
    return reviewing.seeded(database)


def test_a_label_that_comes_back_does_not_hide_another_change(world: World) -> None:
    export_id = reviewing.export(world, "clean", "suspect")
    review_id = world.say("suspect", Opinion.HACK)

    def taken_back() -> None:
        with world.database.begin() as connection:
            reviews.undo(connection, world.ada, review_id)

    with world.database.begin() as connection:
        reviews.add(connection, world.ben, world.ids["clean"], HACK)
        with started(taken_back) as later:
            waits_or_ends(world.database, later)
            connection.commit()
            later.result()
    assert reviewing.stale(world, export_id) is not None


def recorded(connection: sa.Connection, world: World, as_of: datetime) -> None:
    export_id = uuid4()
    exports.add(
        connection,
        export_id=export_id,
        format="trl_sft",
        where_text="",
        directory="/nowhere",
        manifest={"rows": 1},
        evaluation_ids=[world.ids["clean"]],
    )
    label_changes.mark(connection, export_id, as_of)


def test_a_dataset_is_recorded_while_a_label_changes(world: World) -> None:
    as_of = datetime.now(UTC)

    def reviewed() -> None:
        with world.database.begin() as connection:
            reviews.add(connection, world.ben, world.ids["clean"], HACK)

    with world.database.begin() as connection:
        recorded(connection, world, as_of)
        with started(reviewed) as later:
            waits_or_ends(world.database, later)
            connection.commit()
            later.result()
    with world.database.read() as connection:
        assert connection.scalar(sa.select(tables.exports.c.stale_reason)) is not None


def test_a_label_changes_while_a_dataset_is_recorded(world: World) -> None:
    as_of = datetime.now(UTC)

    def made() -> None:
        with world.database.begin() as connection:
            recorded(connection, world, as_of)

    with world.database.begin() as connection:
        reviews.add(connection, world.ben, world.ids["clean"], HACK)
        with started(made) as later:
            waits_or_ends(world.database, later)
            connection.commit()
            later.result()
    with world.database.read() as connection:
        assert connection.scalar(sa.select(tables.exports.c.stale_reason)) is not None
