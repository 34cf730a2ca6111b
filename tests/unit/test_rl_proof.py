"""Grammar and figures of the RL bench (tests.bench.rl)."""

from __future__ import annotations

import ast
import re
from typing import Any, cast

import pytest

from app.domain.result import Result
from tests.bench.rl import figures
from tests.bench.rl.evaluations import ASSAY, Evaluations, key_of
from tests.bench.rl.grammar import CPU, GPU, HONEST, KEEP, Grammar


@pytest.mark.parametrize("cheating", [False, True])
@pytest.mark.parametrize("sizes", [CPU, GPU])
def test_every_source_is_a_module_with_the_entry_point(sizes, cheating):
    grammar = Grammar(sizes, cheating=cheating)
    sources = list(grammar.sources())
    assert len(set(sources)) == len(sources) > 10
    for problem, source in sources:
        names = {node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
        assert "ModelNew" in names
        assert "$" not in source
        assert source != grammar.reference(problem)


def test_edits_keep_what_they_do_not_name():
    grammar = Grammar(GPU)
    answer = ("fused", KEEP, "4", KEEP, "present")
    assert grammar.edited(grammar.base, answer) == ("fused", "128", "4", "1", "present")


def test_choices_without_effect_are_one_source():
    grammar = Grammar(GPU)
    one, other = (
        grammar.source("gated_norm", ("library", tile, "1", "1", "absent"))
        for tile in ("128", "512")
    )
    assert one == other
    fused = {
        grammar.source("gated_norm", ("fused", "128", warps, "1", "present"))
        for warps in ("1", "4")
    }
    assert len(fused) == 2


def test_tricks_and_library_code_are_known_by_construction():
    grammar = Grammar(GPU, cheating=True)
    assert grammar.trick(("fused", "128", "1", HONEST)) is None
    assert grammar.trick(("library", "128", "1", HONEST)) == "library_alone"
    assert grammar.trick(("fused", "128", "1", "skips_work")) == "skips_work"


def test_interval_of_a_mean_is_students():
    low, high = figures.interval([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.7764 * (2.5 / 5) ** 0.5  # quantile of t with 4 degrees of freedom
    assert (low, high) == pytest.approx((3 - half, 3 + half), rel=2e-3)
    assert figures.interval([1.0]) is None


def test_paired_difference_is_over_seeds():
    first = [[{"step": 1, "reward": value + 1}] for value in (1.0, 5.0, 9.0)]
    second = [[{"step": 1, "reward": value}] for value in (1.0, 5.0, 9.0)]
    assert figures.paired(first, second, "reward") == {"mean": 1.0, "interval": None}  # all alike
    second[0][0]["reward"] = 0.5
    found = figures.paired(first, second, "reward")
    low, high = found["interval"]
    assert found["mean"] == pytest.approx(7 / 6)
    assert low < 7 / 6 < high


def test_stored_evaluations_come_back(tmp_path):
    stored = Evaluations()
    stored.add(
        "p",
        b"source",
        ASSAY,
        cast("Result", {"score": 1.0, "job_id": "1", "valid": True}),
        seconds=2.0,
    )
    stored.add(
        "p", b"source", ASSAY, cast("Result", {"score": None, "job_id": "2", "valid": False})
    )
    stored.save(tmp_path / "evaluations.json")
    found = Evaluations.load(tmp_path / "evaluations.json")
    assert found.rows == stored.rows
    assert [each["score"] for each in found.of(key_of("p", b"source"), ASSAY)] == [1.0]


def test_a_plot_fills_its_width(tmp_path):
    curve: dict[str, list[Any]] = {"step": [1, 30, 60], "mean": [0.1, 0.4, 0.9]}
    curve["interval"] = [(0.0, 0.2)] * 3
    figures.save_plot(tmp_path / "plot.svg", {"TRLOO": curve}, title="t", y_label="y", top=1.0)
    text = (tmp_path / "plot.svg").read_text()
    drawn = re.findall(r'points="([^"]+)"', text)[:2]  # the interval, and the line
    for points in drawn:
        across = [float(point.split(",")[0]) for point in points.split()]
        assert (min(across), max(across)) == (figures.LEFT, figures.RIGHT)
    ticks = re.findall(r'<text x="([\d.]+)" y="252"', text)
    assert float(ticks[-1]) == figures.RIGHT
