"""Datasets are of one moment: what changes while they are made, or before they are made again,
changes no row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app import export
from app.domain.dataset.selection import Stale
from app.domain.review import Opinion
from app.domain.source.near_duplicates import Similarity
from app.domain.trajectory import Run
from app.domain.user import LOCAL
from app.domain.verdict import Label
from app.export import draft, text_facts, verify
from app.store import tables
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.review import reviews
from app.store.trajectory import trajectories
from tests.integration import dataset_seed
from tests.integration.dataset_seed import code, evaluate, problem, turn
from tests.integration.exported import funnel, rows_in


def same_again(database: Database, manifest: export.Manifest, out: Path) -> None:
    again, differences = export.reproduce(database, manifest.sealed(), out)
    assert differences == []
    assert again.content_sha256 == manifest.content_sha256
    assert verify(out) == []


def judged(database: Database, evaluation_id: UUID, label: Label) -> None:
    with database.begin() as connection:
        evaluations.add_verdict(connection, evaluation_id, dataset_seed.verdict(label))


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, *, before: Callable[[], object] = lambda: None, **after: Any
) -> None:
    """Something happens once, before or after the moment of the next draft is fixed."""
    begin, then = draft.begin, after.get("after", lambda: None)

    def begun(*given: Any, **more: Any) -> draft.Draft:
        monkeypatch.setattr(draft, "begin", begin)
        before()
        found = begin(*given, **more)
        then()
        return found

    monkeypatch.setattr(draft, "begin", begun)


def test_a_verdict_that_comes_while_facts_are_computed_counts_in_the_next_dataset(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = dataset_seed.fill(database)
    changed = stored["fast0"].evaluation_id
    meanwhile(monkeypatch, after=lambda: judged(database, changed, Label.HACK))
    spec = export.Spec(val_fraction=0)
    made = export.export(database, spec, tmp_path / "set")
    assert str(changed) in {row["evaluation_id"] for row in rows_in(tmp_path / "set")}
    same_again(database, made, tmp_path / "again")
    export.export(database, spec, tmp_path / "next")
    assert str(changed) not in {row["evaluation_id"] for row in rows_in(tmp_path / "next")}


def test_an_evaluation_that_comes_before_the_moment_has_its_facts(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its fingerprint it would be no near-duplicate, until the next export computes it."""

    def arrives() -> None:
        with database.begin() as connection:
            late = evaluate(connection, problem(0), f"# other\n{code('first')}".encode())
            [problem_id] = {late.problem_id}
            said = turn(("ask",), f"```python\n# other\n{code('first')}```", late)
            trajectories.add(connection, problem_id=problem_id, backend="triton", turns=[said])

    with database.begin() as connection:
        evaluate(connection, problem(0), code("first").encode())
    meanwhile(monkeypatch, before=arrives)
    spec = export.Spec(val_fraction=0, similarity=Similarity.NORMALISED)
    made = export.export(database, spec, tmp_path / "set")
    left = funnel(made.sealed())
    assert (left["extraction"], left["distinct"]) == (2, 1)
    same_again(database, made, tmp_path / "again")


def test_a_dataset_is_made_again_with_the_verdicts_of_its_own_detectors(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset_seed.fill(database)
    spec = export.Spec(val_fraction=0, stale=Stale.REJUDGE)
    made = export.export(database, spec, tmp_path / "set")
    newer = {name: version + 1 for name, version in text_facts.versions().items()}
    monkeypatch.setattr(text_facts, "versions", lambda: newer)
    before = dataset_seed.count(database, tables.verdicts)
    same_again(database, made, tmp_path / "again")
    assert dataset_seed.count(database, tables.verdicts) == before
    with pytest.raises(export.ExportError, match="stage 'judged'"):
        export.export(database, export.Spec(val_fraction=0), tmp_path / "now")


def test_a_dataset_is_made_again_of_the_device_class_that_it_took(
    database: Database, tmp_path: Path
) -> None:
    with database.begin() as connection:
        most = [
            evaluate(connection, problem(n), code(f"h{n}").encode(), device="h200")
            for n in range(2)
        ]
        evaluate(connection, problem(3), code("a").encode(), device="a100")
    spec = export.Spec(val_fraction=0, where="verdict = clean")
    made = export.export(database, spec, tmp_path / "set")
    assert made.snapshot["device"] == "h200"
    for one in most:
        judged(database, one.evaluation_id, Label.HACK)
    same_again(database, made, tmp_path / "again")


def test_pass_rates_of_a_run_are_those_of_the_moment(database: Database, tmp_path: Path) -> None:
    with database.begin() as connection:
        run_id = trajectories.add_run(connection, Run(name="r", model="m"))
        attempts = [evaluate(connection, problem(0), code(f"a{n}").encode()) for n in range(2)]
        for stored in attempts:
            trajectories.add(
                connection,
                problem_id=stored.problem_id,
                backend="triton",
                turns=[turn(("ask",), "an answer", stored)],
                run_id=run_id,
            )
    spec = export.spec_of(
        {"format": "trl_prompts", "source": "problems", "rate_run": "r", "val_fraction": 0}
    )
    made = export.export(database, spec, tmp_path / "set")
    judged(database, attempts[0].evaluation_id, Label.HACK)
    same_again(database, made, tmp_path / "again")
    assert [row["pass_rate"] for row in rows_in(tmp_path / "again")] == [1.0]
    export.export(database, spec, tmp_path / "now")
    assert [row["pass_rate"] for row in rows_in(tmp_path / "now")] == [0.5]


def test_a_review_that_comes_meanwhile_is_read_as_it_was(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = dataset_seed.fill(database)["slow1"]

    def reviewed() -> None:
        said = reviews.GivenReview(label=Opinion.HACK, reason="as the test wants")
        with database.begin() as connection:
            reviews.add(connection, LOCAL, stored.evaluation_id, said)

    meanwhile(monkeypatch, after=reviewed)
    made = export.export(database, export.Spec(val_fraction=0), tmp_path / "set")
    same_again(database, made, tmp_path / "again")
