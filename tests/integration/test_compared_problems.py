"""Two evaluations side by side: whether they are of one problem."""

from __future__ import annotations

from dataclasses import replace

from app.settings import Settings
from app.store.postgres.database import Database
from tests.integration.dataset_seed import code, evaluate, problem
from tests.integration.page_text import page
from tests.integration.web_app import opened

DIFFERENT = "They were measured on different problems."


def test_a_problem_is_the_same_in_another_source_set(
    settings: Settings, database: Database
) -> None:
    own = problem(1)
    with database.begin() as connection:
        first, again, renamed, other = (
            evaluate(connection, each, code(f"{number}").encode()).evaluation_id
            for number, each in enumerate(
                (own, replace(own, source_set="mine"), replace(own, entry_point="Net"), problem(2))
            )
        )
    with opened(settings, testing=True) as app:
        site = app.test_client()
        shown = {
            each: page(site, f"/compare?a={first}&b={each}") for each in (again, renamed, other)
        }
    assert DIFFERENT not in shown[again]
    assert DIFFERENT in shown[renamed]
    assert DIFFERENT in shown[other]
