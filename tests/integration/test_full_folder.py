"""Exports and backups into a folder without room: the reason, exit code 3, and
nothing that looks like a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import errors
from app.export import build, verify
from app.settings import Settings
from app.store.postgres.database import Database
from tests.integration import small_disk
from tests.integration.cli import assay

SPARE_BYTES = (0, 4_096, 65_536, 100_000)
"""Room for nothing, the draft, a part, and some of the parts of a dataset that needs 300 kB."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk.mounted(tmp_path / "disk", 8) as mounted:
        yield mounted


@pytest.mark.parametrize("layout", ["trl_sft", "openai_sft"])
def test_no_dataset_is_left_of_an_export_without_room(
    own: Database, settings: Settings, disk: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "PART_ROWS", 3)  # most parts are made by processes of their own
    command = ("export", "--format", layout, "--similarity", "none", "--out", str(disk / "set"))
    for spare_bytes in SPARE_BYTES:
        filler = small_disk.fill(disk, spare_bytes=spare_bytes)
        refused = assay(settings, *command)
        assert (refused.exit_code, [path.name for path in disk.iterdir()]) == (
            errors.INFRASTRUCTURE,
            ["fill"],
        )
        assert (
            f"{disk}/set: no room left on its disk, and nothing is left of the dataset"
            in refused.stderr
        )
        filler.unlink()
    assert assay(settings, *command).exit_code == 0
    assert verify(disk / "set") == []


def test_no_backup_is_left_without_room(settings: Settings, disk: Path) -> None:
    for spare_bytes in (0, 30_000):
        filler = small_disk.fill(disk, spare_bytes=spare_bytes)
        refused = assay(settings, "db", "backup", str(disk / "assay.dump"))
        assert (refused.exit_code, [path.name for path in disk.iterdir()]) == (
            errors.INFRASTRUCTURE,
            ["fill"],
        )
        assert f"{disk}/assay.dump: pg_dump ended with 1" in refused.stderr
        assert "No space left on device" in refused.stderr
        filler.unlink()
