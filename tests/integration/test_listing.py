"""`assay datasets` and `assay reviews`: stale datasets, and the reason, without the pages."""

from __future__ import annotations

import json
from pathlib import Path

from app.export import export, spec_of
from app.settings import Settings
from app.store.dataset import stale_exports
from app.store.postgres.database import Database
from tests.integration import dataset_seed
from tests.integration.cli import assay


def test_stale_datasets_and_their_reasons_are_listed(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    stored = dataset_seed.fill(database)
    manifest = export(database, spec_of({"similarity": "none", "kind": "single"}), tmp_path / "set")

    def asked(*arguments: str) -> str:
        ran = assay(settings, *arguments)
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    assert json.loads(asked("datasets", "--stale", "--json")) == []
    with database.begin() as connection:
        stale_exports.mark(
            connection,
            stored["fast0"].evaluation_id,
            before="clean",
            after="hack",
            why="said the test",
        )
    [one] = json.loads(asked("datasets", "--stale", "--json"))
    reason = f"evaluation {stored['fast0'].evaluation_id}: clean → hack said the test"
    assert (one["export_id"], one["stale_reason"]) == (manifest.export_id, reason)
    assert reason in asked("datasets")
    assert json.loads(asked("reviews", "--json")) == []
