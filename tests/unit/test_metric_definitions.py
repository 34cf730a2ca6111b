"""Every measured column of a dataset is defined on its card."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pyarrow as pa
import pytest

from app.export.manifest import METRICS
from app.formats.rewards import Rewards

MEASURED = [
    field.name
    for field in Rewards.schema
    if pa.types.is_floating(field.type) or field.name == "correct"
]


@pytest.mark.parametrize("column", MEASURED)
def test_a_measured_column_has_a_definition(column: str) -> None:
    name = column.removesuffix("_low").removesuffix("_high")
    assert [
        text
        for key, text in METRICS.items()
        if any(fnmatchcase(name, each) for each in key.split(", "))
    ]
