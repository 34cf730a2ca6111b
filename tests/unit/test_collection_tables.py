"""Lines that tell of a collection on a terminal."""

import pytest

from app.cli import collection_tables


@pytest.mark.parametrize(
    ("state", "reason", "ends", "expected"),
    [
        ("finished", "", {"endpoint_error": 2, "evaluator_error": 1}, True),
        ("finished", "", {"endpoint_error": 2, "max_turns": 1}, False),
        ("finished", "", {"budget": 1}, False),
        ("paused", "endpoint local: HTTP 401: bad key", {}, True),
        ("paused", "by root", {}, False),
        ("stopped", "by root", {"stopped": 3}, False),
    ],
)
def test_faults_alone_are_no_result(state, reason, ends, expected):
    assert collection_tables.at_fault({"state": state, "reason": reason, "ends": ends}) is expected
