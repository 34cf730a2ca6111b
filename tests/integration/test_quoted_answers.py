"""Datasets of collections whose prompts quote earlier attempts: what they show, and what counts as
an attempt of the problem's own prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app import export as exporting
from app.domain.collection.call import ModelAnswer, ModelRequest
from app.embedded import Services
from app.store import tables
from tests.integration.collecting import Site, exported, opened, said, specification

WRONG = "```python\n# wrong {0}\nimport triton\nclass ModelNew: pass\n```"
RIGHT = "```python\n# passes {0}\nimport triton\nclass ModelNew: pass\n```"
ANSWERS = (WRONG, WRONG, RIGHT, RIGHT)
"""By turn; with a window of one attempt the third quotes the second, which is wrong, and the fourth
the third.
"""


class Scripted:
    """A model that gives the answers in their order."""

    def __init__(self) -> None:
        self.turn = 0

    def __call__(self, request: ModelRequest) -> ModelAnswer:
        self.turn += 1
        return said(ANSWERS[self.turn - 1].format(self.turn))


@pytest.fixture
def site(services: Services) -> Iterator[Site]:
    """One rollout of four turns, each of which sees the attempt before it."""
    with opened(services, Scripted()) as (site, _):
        site.start(
            specification(
                strategy={"name": "sequential", "turns": 4},
                context={"history": "window", "window": 1},
            )
        )
        site.run()
        yield site


def answers(found: list[dict[str, Any]]) -> list[str]:
    return sorted(row["completion"][0]["content"].splitlines()[1] for row in found)


def test_a_prompt_that_quotes_a_wrong_answer_needs_the_context_for_it(
    site: Site, tmp_path: Path
) -> None:
    clean = exported(site, tmp_path / "clean", format="trl_sft", similarity="none", context="clean")
    assert answers(clean) == ["# passes 4"]
    wrong = exported(site, tmp_path / "wrong", format="trl_sft", similarity="none", context="wrong")
    assert answers(wrong) == ["# passes 3", "# passes 4"]


def test_a_quoted_hack_needs_the_widest_context(site: Site, tmp_path: Path) -> None:
    with site.database.begin() as connection:
        third = sa.select(tables.nodes.c.job_id).where(tables.nodes.c.turn == 2)
        connection.execute(
            sa.update(tables.evaluations)
            .where(tables.evaluations.c.job_id == third.scalar_subquery())
            .values(human_verdict="hack")
        )
    for context in ("clean", "wrong"):
        with pytest.raises(exporting.ExportError, match="nothing to export: stage 'context'"):
            exported(site, tmp_path / context, format="trl_sft", similarity="none", context=context)
    assert answers(
        exported(site, tmp_path / "any", format="trl_sft", similarity="none", context="any")
    ) == ["# passes 4"]


def test_an_answer_to_a_quoted_attempt_is_no_attempt_of_the_prompt(
    site: Site, tmp_path: Path
) -> None:
    [row] = exported(site, tmp_path / "rl", format="trl_prompts", pass_rate=[0.0, 1.0])
    assert row["prompt"] == [vars(message) for message in site.asked[0].messages]
    assert row["pass_rate"] == 0.0
    told = {"source": "problems", "rate_run": "a", "format": "trl_prompts"}
    [row] = exported(site, tmp_path / "problems", **told)
    assert row["pass_rate"] == 0.0
