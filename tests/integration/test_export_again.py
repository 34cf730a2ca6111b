"""Datasets that are made again: reproduced, taken up after an interruption, explained, compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app import export, rejudging
from app.domain import policy as policies
from app.domain.dataset.selection import Context, Kind, Reasoning, Stale
from app.domain.source import near_duplicates
from app.domain.source.near_duplicates import Similarity
from app.domain.verdict import Label
from app.export import (
    ExportError,
    Spec,
    build,
    render,
    render_pool,
    render_worker,
    text_cache,
    text_facts,
    verify,
    working_folder,
)
from app.store import tables
from app.store.dataset import export_matching, export_texts, listing, text_features
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from tests.integration import dataset_seed
from tests.integration.dataset_seed import code, problem
from tests.integration.rendering import render_here

SPEC = Spec(similarity=Similarity.RAW, context=Context.WRONG, val_fraction=0.4)


@pytest.fixture
def own(database: Database) -> Database:
    dataset_seed.fill(database)
    return database


def test_a_manifest_gives_the_same_rows_although_the_world_went_on(
    own: Database, tmp_path: Path
) -> None:
    made = export.export(own, SPEC, tmp_path / "set")
    with own.begin() as connection:
        stored = dataset_seed.evaluate(connection, problem(0), code("later").encode())
        answers = [
            one["evaluation_id"]
            for one in pq.read_table(tmp_path / "set/lineage-00000.parquet").to_pylist()
        ]
        first = min(one for one in answers if answers.count(one) == 1)  # not the one of two runs
        evaluations.add_verdict(connection, first, dataset_seed.verdict(Label.HACK))
    again, differences = export.reproduce(own, made.sealed(), tmp_path / "again")
    assert (differences, again.content_sha256) == ([], made.content_sha256)
    assert verify(tmp_path / "again") == []
    now = export.export(own, SPEC, tmp_path / "now")
    assert now.content_sha256 != made.content_sha256
    assert export.why(tmp_path / "set", str(stored.evaluation_id)) == []
    [hack] = export.why(tmp_path / "now", str(first))
    assert (hack["stage"], hack["rule"], hack["rows"]) == (
        "clean",
        "neither suspect nor hack, nor is another evaluation of the source a hack",
        [],
    )
    found = export.diff(tmp_path / "set", tmp_path / "now")
    assert (found["added"], found["removed"]) == (1, 1)


class Killed(BaseException):
    """An end that no `except Exception` sees, like a signal."""


def test_an_interrupted_export_goes_on_with_the_parts_that_are_missing(
    own: Database, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(build, "PART_ROWS", 5)
    monkeypatch.setattr(render_pool.Pool, "_submit", render_here)
    rendered: list[int] = []
    part = render.Renderer.part

    def counted(self: render.Renderer, number: int, plan_sha256: str) -> render.Part:
        if number == 2 and not rendered.count(2):
            rendered.append(2)
            raise Killed
        rendered.append(number)
        return part(self, number, plan_sha256)

    monkeypatch.setattr(render.Renderer, "part", counted)
    with pytest.raises(Killed):
        export.export(own, SPEC, tmp_path / "set")
    assert not (tmp_path / "set").exists()
    with own.begin() as connection:  # not seen: the moment of the draft is kept
        dataset_seed.evaluate(connection, problem(0), code("later").encode())
    before = list(rendered)
    made = export.export(own, SPEC, tmp_path / "set")
    assert verify(tmp_path / "set") == []
    assert (before, rendered[len(before) :]) == ([0, 1, 2], [2, 3])
    assert made.rows == dataset_seed.CORRECT_AND_CLEAN
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_processes_of_their_own_write_what_one_process_writes(
    own: Database, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(build, "PART_ROWS", 6)
    made = export.export(own, SPEC, tmp_path / "set")
    assert verify(tmp_path / "set") == []
    assert made.rows == dataset_seed.CORRECT_AND_CLEAN
    assert len(list((tmp_path / "set").glob("lineage-*.parquet"))) == 3


def test_a_process_that_renders_says_what_went_wrong_and_that_it_was_killed(
    own: Database, tmp_path: Path
) -> None:
    url = own.url.render_as_string(hide_password=False)
    how: dict[str, Any] = {
        "format": "trl_sft",
        "kind": Kind.TURN,
        "reasoning": Reasoning.KEEP,
        "held_out": (),
    }
    alone = render_worker.RenderWorker(render.Job(database_url=url, root=tmp_path, **how))
    with pytest.raises(
        render_worker.RenderWorkerError, match=r"part 3: FileNotFoundError: .*plan-00003"
    ):
        alone.part(3, "")
    alone._process.kill()
    with pytest.raises(
        render_worker.RenderWorkerError, match="part 4: the process that rendered it ended with -9"
    ):
        alone.part(4, "")
    alone.end(at_once=True)


def test_texts_are_read_once_for_as_long_as_they_are_wanted(
    own: Database, monkeypatch: Any
) -> None:
    asked: list[int] = []
    read = export_texts.sources

    def counted(connection: Any, ids: list[str]) -> dict[str, bytes]:
        asked.append(len(ids))
        return read(connection, ids)

    monkeypatch.setattr(export_texts, "sources", counted)
    with own.begin() as connection:
        ids = [
            str(one)
            for one in connection.scalars(sa.select(tables.candidates.c.candidate_id).limit(4))
        ]
        problem_id = str(connection.scalars(sa.select(tables.problems.c.problem_id)).first())
        library = text_cache.Library(Kind.TURN, sources=True)
        for wanted in (ids[:3], ids[1:], ids[:1]):
            library.turn_to(connection, _plan(wanted, problem_id, None))
    assert asked == [3, 1, 1]


def test_sources_are_read_where_a_row_shows_them(own: Database, monkeypatch: Any) -> None:
    """Sources are read for a candidate that came alone, or has a turn without
    messages; else the answer is shown.
    """
    asked: list[str] = []
    monkeypatch.setattr(export_texts, "sources", lambda _, ids: asked.extend(ids) or {})
    silent = [export_texts.Turn(0, b"[]", b"x")]
    told = [export_texts.Turn(0, b'[{"role": "user", "content": "go"}]', b"x")]
    monkeypatch.setattr(export_texts, "dialogues", lambda *_: {"silent": silent, "told": told})
    with own.begin() as connection:
        for kind, expected in (
            (Kind.TURN, ["alone", "of silent"]),
            (Kind.SINGLE, ["alone", "of silent", "of told"]),
        ):
            library = text_cache.Library(kind, sources=False)
            asked.clear()
            library.turn_to(connection, _plan(["of told"], ALONE, "told"))
            library.turn_to(connection, _plan(["of silent"], ALONE, "silent"))
            library.turn_to(connection, _plan(["alone"], ALONE, None))
            assert sorted(asked) == expected


ALONE = "00000000-0000-0000-0000-000000000000"


def _plan(candidate_ids: list[str], problem_id: str, trajectory_id: str | None) -> pa.Table:
    rows = [
        {
            "problem_id": problem_id,
            "candidate_id": each,
            "trajectory_id": trajectory_id,
            "turn": trajectory_id and 0,
        }
        for each in candidate_ids
    ]
    nothing = {f"rejected_{name}": None for name in rows[0]}
    return pa.Table.from_pylist([row | nothing for row in rows])


def test_a_secret_that_json_hides_is_found() -> None:
    hidden = json.dumps([{"role": "user", "content": "hf_" + "a1B2" * 9}]).replace(
        "hf_", "\\u0068f_"
    )
    turns = {
        "clean": [export_texts.Turn(0, b'[{"role": "user", "content": "go"}]', b"done")],
        "hidden": [
            export_texts.Turn(0, b"[]", b"x"),
            export_texts.Turn(1, hidden.encode(), b"done"),
        ],
        "odd": [export_texts.Turn(0, b'[{"role": "user", "content": "\\ud800"}]', b"done")],
    }
    found = text_cache._exchanges(turns)
    assert found["clean"].secret.within(1) is None
    assert [found["hidden"].secret.within(turns) for turns in (1, 2)] == [
        None,
        "Hugging Face token",
    ]
    assert found["odd"].said[0].content == "\ufffd" * 3
    assert found["odd"].sanitized.within(1) is not None


@pytest.mark.parametrize("many", [3, 1_000])
def test_fingerprints_are_stored_batch_by_batch(own: Database, monkeypatch: Any, many: int) -> None:
    monkeypatch.setattr(text_facts, "BATCH", 2)
    monkeypatch.setattr(text_facts, "MANY", many)
    seen: list[tuple[int, int]] = []
    text_facts.candidates(own, lambda _, done, total: seen.append((done, total)))
    with own.begin() as connection:
        assert text_features.candidates_left(connection, near_duplicates.VERSION, sa.true()) == 0
        stored = connection.scalar(
            sa.select(sa.func.count()).select_from(tables.candidate_features)
        )
    assert stored is not None
    assert stored > 2
    assert [done for done, _ in seen] == [*range(0, stored, 2), stored]


def test_two_never_write_one_folder(own: Database, tmp_path: Path) -> None:
    with (
        working_folder.folder(tmp_path / "set"),
        pytest.raises(ExportError, match="another export is writing it"),
    ):
        export.export(own, SPEC, tmp_path / "set")


def test_pairs_labels_masks_and_rewards_come_from_real_rows(own: Database, tmp_path: Path) -> None:
    rows = {}
    for layout in (
        "trl_preference",
        "trl_kto",
        "openai_sft",
        "rewards",
        "kernelbench_results",
        "llamafactory_sft",
    ):
        how: dict[str, Any] = (
            {} if layout in ("rewards", "kernelbench_results") else {"similarity": Similarity.RAW}
        )
        spec = Spec(format=layout, val_fraction=0, **how)
        rows[layout] = export.export(own, spec, tmp_path / layout).rows
        assert verify(tmp_path / layout) == []
    assert (
        rows["trl_preference"] == 7 * 5
    )  # per problem: fast over slow, wrong and hack; slow over wrong and hack
    assert rows["rewards"] == rows["kernelbench_results"] == dataset_seed.ATTEMPTS - 7
    results = {
        str(path.parent.relative_to(tmp_path / "kernelbench_results"))
        for path in (tmp_path / "kernelbench_results").glob("runs/*/*/eval_results.json")
    }
    assert {"runs/no_run/level1-cpu", "runs/three/level1-cpu", "runs/first/level2-cpu"} < results
    assert (tmp_path / "llamafactory_sft/dataset_info.json").is_file()


def test_the_funnel_and_a_preview_write_nothing(own: Database, tmp_path: Path) -> None:
    found = export.funnel(own, SPEC)
    assert found["rows"] == dataset_seed.CORRECT_AND_CLEAN
    assert found["stages"][0]["rows"] == dataset_seed.ATTEMPTS
    assert sum(one["rows"] for one in found["problems"]) == found["rows"]
    shown = export.preview(own, SPEC, rows=3).rows
    assert [one["row"]["completion"][-1]["role"] for one in shown] == ["assistant"] * 3
    assert dataset_seed.count(own, tables.exports) == 0


def test_stale_verdicts_are_refused_or_judged_again(
    own: Database, tmp_path: Path, monkeypatch: Any
) -> None:
    with own.begin() as connection:
        connection.execute(sa.update(tables.verdicts).values(detectors={"old": 1}))
    with pytest.raises(ExportError, match="stage 'judged'"):
        export.export(own, SPEC, tmp_path / "set")
    monkeypatch.setattr(rejudging, "judge", lambda *_: dataset_seed.verdict(Label.CLEAN))
    made = export.export(
        own, export.spec_of({"similarity": "raw", "stale": "rejudge"}), tmp_path / "set"
    )
    assert made.rows > dataset_seed.CORRECT_AND_CLEAN


@pytest.mark.parametrize(
    ("where", "judged"),
    [
        ("problem = '1_Op' and verdict = clean", {"1_Op"}),
        ("problem = '1_Op' or verdict = clean", None),
        ("verdict = clean", None),
        ("problem = 'none'", set()),
    ],
)
def test_only_what_the_filter_may_keep_is_judged_again(
    own: Database, monkeypatch: Any, where: str, judged: set[str] | None
) -> None:
    with own.begin() as connection:
        connection.execute(sa.update(tables.verdicts).values(detectors={"old": 1}))
    monkeypatch.setattr(rejudging, "judge", lambda *_: dataset_seed.verdict(Label.CLEAN))
    export.funnel(own, replace(SPEC, where=where, stale=Stale.REJUDGE))
    v, c = tables.verdicts.c, tables.problems.c
    names = (
        sa.select(c.name)
        .select_from(tables.problems.join(tables.jobs).join(tables.evaluations))
        .join(tables.verdicts, v.evaluation_id == tables.evaluations.c.evaluation_id)
    )
    with own.begin() as connection:
        every = set(connection.scalars(names))
        again = set(connection.scalars(names.where(v.is_current, v.detectors != {"old": 1})))
    assert again == (every if judged is None else judged)


def test_a_changed_verdict_marks_every_dataset_that_used_it(
    database: Database, tmp_path: Path, monkeypatch: Any
) -> None:
    changed = str(dataset_seed.fill(database)["slow0"].evaluation_id)
    specs = {
        "taught": SPEC,
        "paired": replace(SPEC, format="trl_preference"),
        "rejected": replace(SPEC, format="trl_preference", min_speedup=1.5),
        "labelled": replace(SPEC, format="trl_kto"),
        "elsewhere": replace(SPEC, where="problem = '1_Op'"),
    }
    made = {
        export.export(database, spec, tmp_path / name).export_id: name
        for name, spec in specs.items()
    }
    with database.begin() as connection:
        old = sa.update(tables.verdicts).where(tables.verdicts.c.evaluation_id == changed)
        connection.execute(old.values(detectors={"old": 1}))
    monkeypatch.setattr(rejudging, "judge", lambda *_: dataset_seed.verdict(Label.HACK))
    assert text_facts.rejudge_stale(database, policies.DEFAULT) == 1
    with database.begin() as connection:
        stale = {
            made[str(one.export_id)]: one.stale_reason
            for one in listing.datasets(connection)
            if one.stale_reason
        }
    used = {
        name for name in specs if any(one["rows"] for one in export.why(tmp_path / name, changed))
    }
    assert stale.keys() == used == {"taught", "paired", "rejected", "labelled"}
    [worse] = export.why(tmp_path / "rejected", changed)
    assert {row["role"] for row in worse["rows"]} == {"rejected"}
    assert all(
        reason.startswith(f"evaluation {changed}: clean → hack under ") for reason in stale.values()
    )


def test_a_held_out_set_takes_its_families_out(own: Database, tmp_path: Path) -> None:
    with own.begin() as connection:
        dataset_seed.evaluate(connection, problem(3, "held"), code("held").encode())
    made = export.export(own, Spec(similarity=Similarity.RAW, held_out=("held",)), tmp_path / "set")
    stages = {stage.stage: stage.rows for stage in made.funnel}
    assert (len(made.contaminated), stages["extraction"] - stages["decontaminated"]) == (2, 3)
    assert "held/3_Op" in (tmp_path / "set/README.md").read_text()
    with pytest.raises(ValueError, match="nowhere"):
        export.export(own, Spec(held_out=("nowhere",)), tmp_path / "other")


def test_as_of_waits_for_open_transactions(own: Database) -> None:
    with own.begin() as writing:
        evaluation = dataset_seed.evaluate(writing, problem(9), code("open").encode())
        began = writing.execute(sa.select(sa.func.now())).scalar_one()
        assert export_matching.snapshot(own).as_of <= began
    assert evaluation.evaluation_id


def test_a_dataset_that_is_read_holds_back_no_other(own: Database) -> None:
    with export_matching.reading(own) as connection:
        began = connection.execute(sa.select(sa.func.now())).scalar_one()
        assert export_matching.snapshot(own).as_of > began
