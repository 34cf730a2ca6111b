"""The bench that compares two devices' results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench import device_agreement


def row(name: str, status: str, label: str = "clean") -> dict[str, Any]:
    return {
        "name": name,
        "status": status,
        "label": label,
        "findings": [],
        "message": f"{name} said",
    }


CPU = [
    row("right", "passed"),
    row("wrong", "incorrect"),
    row("else", "passed"),
    row("gone", "invalid"),
    row("a", "passed"),
]
GPU = [
    row("right", "passed"),
    row("wrong", "incorrect"),
    row("else", "incorrect"),
    row("gone", "passed"),
    {"name": "a", "status": "passed", "verdict": "suspect", "findings": ["decoy_kernel"]},
    row("more", "passed"),
]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["device_agreement", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        device_agreement.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_differences_are_named_and_those_that_did_not_run_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "cpu.json", tmp_path / "gpu.json"
    first.write_text(json.dumps({"rows": CPU}))
    second.write_text(json.dumps({"rows": GPU}))

    assert run(monkeypatch, first, second) == 1
    said = capsys.readouterr().out
    assert "5 in both files, 4 ran on both: 75.00% agree" in said
    assert "2 passed on both, 1 with another label" in said
    assert "not run: 1 × invalid, passed" in said
    assert "✗ else: passed clean else said | incorrect clean else said" in said
    assert "✗ a: passed clean a said | passed suspect (decoy_kernel)" in said
    assert run(monkeypatch, first, second, "--least", 0.7) == 0


def test_nothing_to_compare_is_no_agreement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "cpu.json", tmp_path / "gpu.json"
    first.write_text(json.dumps({"rows": CPU[:1]}))
    second.write_text(json.dumps({"rows": []}))

    assert run(monkeypatch, first, second) == 1
    second.write_text("[]")
    assert run(monkeypatch, first, second) == 2
