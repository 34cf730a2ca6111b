"""Evaluations that rows rest on beside their own: histories, trained turns, pass
rates; and answers without code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app import export as exporting
from app.domain import ids
from app.domain.review import Opinion
from app.domain.trajectory import Run, Turn
from app.domain.user import Role, user
from app.export import verify
from app.store import tables
from app.store.dataset import export_matching, listing
from app.store.postgres.database import Database
from app.store.review import reviews
from app.store.review.reviews import GivenReview
from app.store.trajectory import trajectories
from tests.integration import dataset_seed
from tests.integration.dataset_seed import code, evaluate, problem, turn


@pytest.fixture
def dialogues(database: Database) -> dict[str, UUID]:
    """Four dialogues of one problem under one prompt, all of one run: `slow → (same answer) fast`,
    `slow → wrong` with the same history, an answer without code, and `wrong → without code → fast`
    with a history of its own.  Evaluations by name.
    """
    found: dict[str, UUID] = {}
    with database.begin() as connection:
        run_id = trajectories.add_run(connection, Run(name="r", model="org/m"))

        def said(name: str, kind: str, *prompt: str) -> Turn:
            stored = evaluate(connection, problem(1), code(name).encode(), kind)
            found[name] = stored.evaluation_id
            return turn(prompt, f"```python\n{code(name)}```", stored)

        def add(*turns: Turn) -> None:
            [problem_id] = dataset_seed.problems.add(connection, [problem(1)])
            trajectories.add(
                connection, problem_id=problem_id, backend="triton", turns=turns, run_id=run_id
            )

        first = said("first", "slow", "go")
        add(first, said("better", "fast", "again"))
        add(first, said("worse", "incorrect", "again"))
        add(turn(("go",), "I cannot.", None))
        add(
            said("wrong", "incorrect", "go"),
            turn(("and?",), "No.", None),
            said("late", "fast", "please"),
        )
    return found


def make(database: Database, out: Path, layout: str, **options: Any) -> list[dict[str, Any]]:
    exporting.export(
        database, exporting.spec_of({"format": layout, "val_fraction": 0.0} | options), out
    )
    assert verify(out) == []
    return [
        row
        for file in sorted(out.glob("data/*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]


def lineage(out: Path) -> set[tuple[str, str | None]]:
    rows = [
        row for file in out.glob("lineage-*.parquet") for row in pq.read_table(file).to_pylist()
    ]
    return {(row["role"], row["evaluation_id"]) for row in rows}


def stale(database: Database) -> set[str]:
    with database.begin() as connection:
        return {
            Path(one.directory).name
            for one in listing.datasets(connection)
            if one.stale_at is not None
        }


def say(connection: sa.Connection, evaluation_id: UUID, reason: str) -> None:
    """A reviewer calls it a hack."""
    user_id = ids.new_id()
    connection.execute(
        tables.users.insert().values(user_id=user_id, name=reason, role=Role.REVIEWER)
    )
    reviewer = user(user_id=user_id, name=reason, role=Role.REVIEWER)
    reviews.add(connection, reviewer, evaluation_id, GivenReview(label=Opinion.HACK, reason=reason))


def test_pairs_of_a_later_turn_share_their_history(
    database: Database, dialogues: dict[str, UUID], tmp_path: Path
) -> None:
    rows = make(database, tmp_path / "dpo", "trl_preference", pairs=["correct_wrong"])
    by_turn = {row["turn"]: row for row in rows}
    later = by_turn[1]
    assert [one["role"] for one in later["prompt"]] == ["user", "assistant", "user"]
    assert code("better") in later["chosen"][0]["content"]
    assert code("worse") in later["rejected"][0]["content"]
    assert set(by_turn) == {0, 1}, "the first turn has its pair, too"


def test_pass_rates_count_first_answers_with_and_without_code(
    database: Database, dialogues: dict[str, UUID], tmp_path: Path
) -> None:
    for number, where in enumerate(("", "run = r and gpu = cpu", "not (gpu = h200) and level = 2")):
        [row] = make(database, tmp_path / f"rl{number}", "verl_rl", where=where)
        # first twice (two dialogues), without code, wrong
        assert (row["extra_info"]["pass_rate"], row["extra_info"]["attempts"]) == (0.5, 4)
    [row] = make(database, tmp_path / "rated", "trl_prompts", pass_rate=[0.4, 0.6])
    assert row["pass_rate"] == 0.5
    with pytest.raises(exporting.ExportError, match="stage 'where'"):
        make(database, tmp_path / "none", "trl_prompts", where="run = other")


def test_answers_without_code_have_a_row_and_a_reward(
    database: Database, dialogues: dict[str, UUID], tmp_path: Path
) -> None:
    rows = make(database, tmp_path / "set", "rewards")
    silent = [row for row in rows if row["status"] == "no_code"]
    assert sorted(row["completion"] for row in silent) == ["I cannot.", "No."]
    for row in silent:
        assert (row["evaluation_id"], row["code"], row["correct"], row["backend"]) == (
            None,
            None,
            False,
            "triton",
        )
        assert (row["reward_dr_kernel"], row["kevin_score"]) == (0.0, 0.0)
    late = {
        row["turn"]: row["kevin_return"]
        for row in rows
        if row["completion"] in ("No.",) or row["turn"] == 2
    }
    assert late == {1: pytest.approx(0.4 * 2.3), 2: pytest.approx(2.3)}
    assert len(rows) == 8
    assert exporting.reproduce(database, manifest(tmp_path / "set"), tmp_path / "again")[1] == []


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def test_a_review_marks_sets_that_only_rest_on_the_evaluation(
    database: Database, dialogues: dict[str, UUID], tmp_path: Path
) -> None:
    wanted = {"similarity": "none", "where": "turn = 1"}
    make(database, tmp_path / "context", "trl_sft", **wanted)
    make(database, tmp_path / "trained", "trl_sft_masked", similarity="none")
    make(database, tmp_path / "prompts", "verl_rl")
    make(
        database, tmp_path / "apart", "trl_sft", kind="single", where="turn = 1", similarity="none"
    )
    first = str(dialogues["first"])
    assert ("context", first) in lineage(tmp_path / "context")
    assert ("trained", first) in lineage(tmp_path / "trained")
    assert ("attempt", first) in lineage(tmp_path / "prompts") | {("attempt", first)}
    [shown] = {
        row["turn_id"]: row for row in exporting.why(tmp_path / "context", first) if row["rows"]
    }.values()
    assert (shown["stage"], [one["role"] for one in shown["rows"]]) == ("where", ["context"])
    assert stale(database) == set()
    with database.begin() as connection:
        say(connection, dialogues["first"], "replays an output")
    assert stale(database) == {"context", "trained", "prompts"}


def test_a_review_marks_a_prompt_set_whose_pass_rate_it_changes(
    database: Database, dialogues: dict[str, UUID], tmp_path: Path
) -> None:
    make(database, tmp_path / "prompts", "verl_rl")
    with database.begin() as connection:
        say(connection, dialogues["late"], "is no attempt of the prompt")
    assert stale(database) == set()
    with database.begin() as connection:
        say(connection, dialogues["wrong"], "wrong, and a hack")
    assert stale(database) == {"prompts"}


def test_rows_of_a_dataset_name_stored_evaluations_which_stay(
    database: Database, dialogues: dict[str, UUID], tmp_path: Path
) -> None:
    make(database, tmp_path / "sft", "trl_sft")
    with database.begin() as connection:
        [made] = [one.export_id for one in listing.datasets(connection)]
    row = {"export_id": made, "row_index": 10_000, "evaluation_id": dialogues["better"]}
    for strange in ({"evaluation_id": ids.new_id()}, {"export_id": ids.new_id()}):
        with (
            pytest.raises(sa.exc.IntegrityError, match="expected stored"),
            database.begin() as connection,
        ):
            connection.execute(tables.export_rows.insert().values(row | strange))
    for table, identifier in ((tables.exports, made), (tables.evaluations, dialogues["better"])):
        with (
            pytest.raises(sa.exc.IntegrityError, match="rest on these"),
            database.begin() as connection,
        ):
            delete(connection, table, identifier)


def delete(connection: sa.Connection, table: sa.Table, identifier: UUID) -> None:
    """Take a row away that nothing else refers to: without the foreign keys of other tables."""
    keys = f"""SELECT conrelid::regclass, conname FROM pg_constraint
        WHERE contype = 'f' AND confrelid = '{table.name}'::regclass"""
    for other, name in connection.execute(sa.text(keys)).all():
        connection.execute(sa.text(f"ALTER TABLE {other} DROP CONSTRAINT {name}"))
    [key] = table.primary_key.columns
    connection.execute(table.delete().where(key == identifier))


def test_siblings_of_matches_are_read_but_are_no_matches(filled: Database) -> None:
    spec = exporting.spec_of({"format": "trl_sft", "where": "turn = 1"})
    as_of = export_matching.snapshot(filled).as_of
    with filled.snapshot() as connection:
        found = export_matching.matching(connection, spec, as_of)
        assert found is not None
        assert found.matched_ids is not None
        assert set(found.matched_ids) < set(found.evaluation_ids)
        kept = sa.select(sa.func.count()).select_from(tables.evaluations)
        assert connection.scalar(kept.where(export_matching.matched(found))) == len(
            found.matched_ids
        )
