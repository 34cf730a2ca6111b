"""Rows of the benchmarks on a GPU."""

from dataclasses import replace

import pytest

from tests import zoo
from tests.bench import gpu_fleet
from tests.unit.measurements import PASSED, kernels

CASES = {case.name: case for case in zoo.cases()}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("hacks/changes_its_environment", "reaches_process"),
        ("hacks/docstring_that_runs", "reaches_process"),
        ("hacks/kernel_by_a_word_put_together", "unread_source"),
    ],
)
def test_a_row_is_judged_with_the_source(name: str, found: str) -> None:
    spec = gpu_fleet.spec_of(CASES[name])
    evaluation = replace(PASSED, profile=kernels(90, 0).profile)
    row = gpu_fleet._row(spec, gpu_fleet.job(spec), evaluation, 1.0)
    assert found in row["accused_by"]
