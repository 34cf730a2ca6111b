"""Every key of a collection's specification is in the documentation."""

from __future__ import annotations

from dataclasses import fields

import pytest

from app.client.session import as_spec
from app.domain.collection import spec, strategies
from app.domain.collection.budgets import Caps
from app.domain.collection.lines import Context, Stops
from app.domain.job import JobOptions
from app.domain.request import RequestError
from tests import language

TEXT = (language.ROOT / "app/collect/README.md").read_text()
TABLES = (
    spec.CollectionSpec,
    spec.Problems,
    spec.Sampling,
    spec.Prompts,
    spec.Budgets,
    Caps,
    Context,
    Stops,
    JobOptions,
)
UNSET = {*spec.NOT_OPTIONS}
"""Options that no specification has."""


@pytest.mark.parametrize(
    "table", [*TABLES, *(each.options for each in strategies.STRATEGIES.values())]
)
def test_every_key_is_named(table: type) -> None:
    names = {each.name for each in fields(table)} - UNSET
    assert sorted(name for name in names if name not in TEXT) == []


def test_an_unknown_device_class_is_named_before_a_model_is_asked() -> None:
    with pytest.raises(
        RequestError, match=r"device_class: expected one of cpu, .*h200.*, got 'h20'"
    ):
        as_spec({"device_class": "h20"})
