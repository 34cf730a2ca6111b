"""Weights of a problem's tests, from stored evaluations to the command and the problem's page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import Result

from app.domain import aces
from app.domain.evaluation import Status
from app.domain.output_checks import Correctness, OutputCheck, Trial
from app.domain.verdict import Label
from app.settings import Settings
from app.store.postgres.database import Database
from app.web import create_app
from tests.integration import dataset_seed
from tests.integration.cli import assay

FAILING = {
    "right": (),
    "right too": (),
    "no maximum": ("scaled", "heavy_tailed"),
    "half": ("heavy_tailed", "scaled"),
    "all but one": ("scaled", "heavy_tailed", "sparse"),
    "odd": ("sparse",),
}
"""Variants on which each candidate is wrong."""


def correctness(wrong: tuple[str, ...]) -> Correctness:
    named = [("own", True)] * 5 + [(name, False) for name in wrong]
    trials = tuple(
        Trial(call=at, seed="0", ok=ok, outputs=(check(ok),), variant=name)
        for at, (name, ok) in enumerate(named)
    )
    return Correctness(calls=9, failed_calls=len(wrong), trials=trials, mode="train")


def check(ok: bool) -> OutputCheck:
    numbers: dict[str, Any] = {
        "rel_l2": 0.0,
        "rel_l2_limit": 1.0,
        "max_norm": 0.0,
        "max_norm_limit": 1.0,
    }
    return OutputCheck(
        index=0,
        dtype="float32",
        shape=(64, 32),
        ok=ok,
        nonfinite_mismatches=0,
        unwritten=0,
        stale_call=None,
        **numbers,
    )


@pytest.fixture
def problem_id(database: Database, monkeypatch: Any) -> str:
    with database.begin() as connection:
        for name, wrong in FAILING.items():
            whole, label = dataset_seed.KINDS["incorrect" if wrong else "fast"]
            found = replace(whole, correctness=correctness(wrong))
            monkeypatch.setitem(dataset_seed.KINDS, name, (found, label))
            stored = dataset_seed.evaluate(connection, dataset_seed.problem(0), name.encode(), name)
        cheat = replace(dataset_seed.KINDS["hack"][0], correctness=correctness(()))
        monkeypatch.setitem(dataset_seed.KINDS, "hack", (cheat, Label.HACK))
        dataset_seed.evaluate(connection, dataset_seed.problem(0), b"hack", "hack")
        early = Correctness(calls=1, failed_calls=1, trials=(), mode="train")
        monkeypatch.setitem(
            dataset_seed.KINDS,
            "none",
            (replace(dataset_seed.failed(Status.INCORRECT), correctness=early), Label.CLEAN),
        )
        dataset_seed.evaluate(connection, dataset_seed.problem(0), b"none", "none")
    return str(stored.problem_id)


def ranked(settings: Settings, *arguments: str) -> Result:
    return assay(settings, "tests", "rank", *arguments)


TESTS = ("own", "heavy_tailed", "scaled", "sparse")
ROWS = [tuple(name not in wrong for name in TESTS) for wrong in FAILING.values()]


def test_the_command_ranks_recorded_outcomes(settings: Settings, problem_id: str) -> None:
    ran = ranked(settings, "0_Op", "--json")
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert (found["problem_id"], found["candidates"]) == (problem_id, len(FAILING))  # no hack
    by_name = {one["test"]: one for one in found["tests"]}
    assert set(by_name) == set(TESTS)
    for name, expected in zip(TESTS, aces.rank(ROWS), strict=True):
        own = by_name[name]
        assert (own["loo_auc"], own["aces_c"], own["only_here"]) == (
            expected.loo_auc if expected.loo_auc is None else pytest.approx(expected.loo_auc),
            pytest.approx(expected.aces_c),
            expected.only_here,
        )
    assert by_name["own"]["outputs"] == "float32[64×32]"
    assert (
        by_name["scaled"]["aces_c"]
        == by_name["heavy_tailed"]["aces_c"]
        > by_name["sparse"]["aces_c"]
    )
    lines = ranked(settings, problem_id).stdout.splitlines()
    assert lines[1].split()[0] in ("scaled", "heavy_tailed")
    for arguments, said in (
        (("nun",), "got 'nun' of none"),
        (("00000000-0000-0000-0000-000000000000",), "of none"),
    ):
        refused = ranked(settings, *arguments)
        assert (refused.exit_code, said in refused.output) == (2, True)


def test_the_page_shows_the_same(settings: Settings, problem_id: str) -> None:
    app = create_app(settings)
    page = app.test_client().get(f"/problems/{problem_id}").get_data(as_text=True)
    section = page[page.index("Tests that tell candidates apart") :].split("</section>")[0]
    weights = [f"{100 * one.aces_c:.1f}" for one in aces.rank(ROWS)]
    assert section.index("scaled") < section.index(">own<")
    assert all(weight in section for weight in weights if weight != "0.0")
    assert "Outcomes of 6 candidates" in section
    parts = app.extensions["assay"]
    parts["watch"].close()
    parts["database"].dispose()
