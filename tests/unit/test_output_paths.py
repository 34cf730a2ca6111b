"""`--out` at a place where nothing can be made is refused before the command begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import main
from app.cli.output_path import OutputPath

LONG = "n" * 300
COMMANDS: dict[str, list[str]] = {
    "export": ["export", "--out"],
    "demo": ["demo", "--out"],
    "reproduce": ["reproduce", "given", "--out"],
    "tokens": ["collect", "tokens", "c", "--out"],
    "atif": ["collect", "atif", "c", "--out"],
    "batch": ["eval", "--batch", "given", "--out"],
    "advantages": ["advantages", "--out"],
    "backup": ["db", "backup"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file `given`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given").write_text("{}\n")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("given/out.jsonl", "Not a directory"),
        (f"{LONG}/out.jsonl", "File name too long"),
        ("/proc/none/out.jsonl", "cannot be made"),
        ("/dev/null", "expected a file or a folder, got neither"),
    ],
)
def test_an_impossible_path_is_bad_input(folder: Path, command: str, out: str, told: str) -> None:
    ran = CliRunner().invoke(main, [*COMMANDS[command], out])
    assert (ran.exit_code, told in ran.output) == (2, True), ran.output
    assert list(folder.iterdir()) == [folder / "given"]


def test_a_possible_path_is_left_as_it_is(folder: Path) -> None:
    for name in ("new.jsonl", "a/b/c.jsonl", "given", str(folder / "new.jsonl")):
        assert OutputPath().convert(name, None, None) == Path(name)
    assert OutputPath(folder=True).convert("/", None, None) == Path("/")
    assert list(folder.iterdir()) == [folder / "given"]


def test_a_link_stands_for_its_target(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "given")
    (folder / "null").symlink_to("/dev/null")
    (folder / "loop").symlink_to("loop")
    assert OutputPath().convert("link", None, None) == folder / "given"
    for name in ("null", "loop"):
        ran = CliRunner().invoke(main, ["advantages", "--out", name])
        assert ran.exit_code == 2, ran.output
