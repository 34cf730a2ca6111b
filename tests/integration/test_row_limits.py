"""Limits of a selection count rows: of pairs and labelled answers, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.embedded import Services
from app.export.writers import rows_of
from app.store.postgres.database import Database
from app.store.trajectory import trajectories
from tests.conftest import fresh
from tests.integration import dataset_seed, exported

ANSWERS = {
    "first": "fast",
    "second": "slow",
    "wrong": "incorrect",
    "third": "incorrect",
    "planted": "hack",
}
"""Answer to one prompt → its outcome: six pairs, two right answers, three failures."""

Make = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def make(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    with fresh(services) as settings:
        database = Database(settings.database_url or "")
        with database.begin() as connection:
            for name, kind in ANSWERS.items():
                of, code = dataset_seed.problem(1), dataset_seed.code(name)
                stored = dataset_seed.evaluate(connection, of, code.encode(), kind)
                turn = dataset_seed.turn(("go",), f"```python\n{code}```", stored)
                trajectories.add(
                    connection, problem_id=stored.problem_id, backend="triton", turns=[turn]
                )

        def made(layout: str, **options: Any) -> list[dict[str, Any]]:
            out = tmp_path_factory.mktemp("limits") / "rows"
            manifest = exported.make(database, out, "", layout, val_fraction=0, **options)
            rows = [row for file in sorted(out.glob("data/*")) for row in rows_of(file)]
            assert exported.funnel(manifest)["rows"] == len(rows)
            return rows

        yield made
        database.dispose()


def test_a_problem_has_as_many_pairs_as_allowed(make: Make) -> None:
    every = make("trl_preference")
    assert len(every) > 4
    for most in range(1, len(every) + 2):
        rows = make("trl_preference", max_per_problem=most)
        assert len(rows) == min(most, len(every))
        assert all(row in every for row in rows)
    assert len(make("trl_preference", max_per_family=3)) == 3
    assert len(make("trl_preference", balance=1)) == 1


def test_labelled_answers_are_limited_alternately(make: Make) -> None:
    for most, expected in {1: {True: 1}, 2: {True: 1, False: 1}, 5: {True: 2, False: 3}}.items():
        rows = make("trl_kto", max_per_problem=most)
        assert Counter(row["label"] for row in rows) == expected
