"""A selection without rows: the error names the stage and the setting that lets rows pass."""

from __future__ import annotations

import pytest

from app.export import manifest_contents
from app.export.manifest import Stage
from app.export.working_folder import ExportError


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("benchmarks", "--include-benchmarks"),
        ("judged", "--stale rejudge) or `assay judge --all`"),
        ("clean", "none left"),
    ],
)
def test_the_stage_that_left_nothing_is_named_with_its_remedy(name: str, remedy: str) -> None:
    funnel = [
        Stage(stage="snapshot", rows=3, rule="all"),
        Stage(stage=name, rows=0, rule="a rule"),
    ]
    with pytest.raises(ExportError) as told:
        manifest_contents._require_rows(funnel, {})
    assert str(told.value).startswith(f"nothing to export: stage '{name}' (a rule): 3 rows came in")
    assert remedy in str(told.value)


def test_an_earlier_stage_that_a_setting_opens_is_named_too() -> None:
    """Answers without code pass where the verdicts of another version are refused."""
    stages = {"snapshot": 45, "judged": 6, "benchmarks": 6, "correct": 0}
    funnel = [Stage(stage=name, rows=rows, rule="a rule") for name, rows in stages.items()]
    with pytest.raises(ExportError) as told:
        manifest_contents._require_rows(funnel, {})
    assert str(told.value).startswith("nothing to export: stage 'correct'")
    assert "stage 'judged' left 6 of 45 rows: `stale: rejudge`" in str(told.value)
    assert "'benchmarks'" not in str(told.value)
