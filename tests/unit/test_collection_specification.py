"""Specifications of collections: errors name their key, and all survive JSON and TOML."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.domain.collection import spec as specs
from app.domain.collection.budgets import NAMES, Caps
from app.domain.collection.lines import Stops
from app.domain.request import RequestError
from tests.unit.test_collection_decide import specification


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"promts": {}}, "promts: unknown key; expected one of"),
        ({"strategy": {"name": "sequential", "turn": 3}}, "strategy.turn: unknown key"),
        ({"strategy": {"name": "random"}}, "strategy.name: expected one of independent"),
        (
            {"strategy": {"name": "sequential", "turns": 0}},
            "strategy.turns: expected at least 1, got 0",
        ),
        (
            {"budgets": {"collection": {"usd": 0}}},
            "budgets.collection.usd: expected a budget above 0",
        ),
        (
            {"budgets": {"collection": {"usd": -1.5}}},
            "budgets.collection.usd: expected a budget above 0",
        ),
        ({"budgets": {"call": {"wall_s": 5}}}, "wall_s: expected under budgets.collection alone"),
        (
            {"sampling": {"temperature": "hot"}},
            "sampling.temperature: expected a number, got 'hot'",
        ),
        ({"sampling": {"top_p": 0.0}}, "sampling.top_p: expected more than 0"),
        ({"problems": {}}, "expected one of source_set"),
        ({"problems": {"level": True}}, "problems.level: expected a whole number"),
        ({"options": {"deadline": 3}}, "options.deadline: unknown key"),
        ({"options": {"deadline_s": 1e9}}, "options.deadline_s: expected 1 to 3600"),
        ({"reward": "mine"}, "reward: unknown reward 'mine'"),
        ({"backend": "rust"}, "backend: expected one of triton"),
        ({"context": {"history": "all"}}, "context.history: expected one of whole"),
        ({"name": ""}, "name: expected letters"),
        ({"name": None}, "name: expected text, got None"),
    ],
)
def test_a_bad_specification_is_named_by_its_key(change: dict[str, object], named: str) -> None:
    with pytest.raises(RequestError) as error:
        specification("sequential", **change)
    assert named in str(error.value)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(RequestError, match=r"endpoint: expected a value, got none"):
        specs.parse(
            {"name": "x", "problems": {"source_set": "s"}, "strategy": {"name": "independent"}}
        )


def test_a_specification_survives_json_and_toml() -> None:
    spec = specification(
        "islands", budgets={"collection": {"tokens": 5, "usd": 1}}, stops={"target_speedup": 2}
    )
    assert specs.parse(spec.as_json()) == replace(spec, strategy=spec.as_json()["strategy"])
    assert specs.parse(spec.as_json()).sha256 == spec.sha256
    text = 'name = "a"\nendpoint = "e"\n[problems]\nlevel = 1\n[strategy]\nname = "sequential"\n'
    assert specs.parse(specs.mapping_of(text, toml=True)).stops == Stops()
    with pytest.raises(RequestError, match="expected TOML"):
        specs.mapping_of("{", toml=True)


def test_every_amount_can_be_capped() -> None:
    assert set(NAMES) < set(vars(Caps()))


@pytest.mark.parametrize(
    ("text", "toml"),
    [
        ("[" * 100_000, False),
        ('{"seed": ' + "1" * 5_000 + "}", False),
        ("seed = " + "1" * 5_000, True),
        ("seed = ", True),
    ],
)
def test_a_text_that_cannot_be_read_is_named(text: str, toml: bool) -> None:
    with pytest.raises(RequestError, match=f"expected {'TOML' if toml else 'JSON'}"):
        specs.mapping_of(text, toml=toml)


@pytest.mark.parametrize("text", ["1" * 5_000, "[" * 100_000])
def test_a_value_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(RequestError, match=r"strategy\.turns: expected JSON or text"):
        specs.put({}, "strategy.turns", text)
