"""Values on the command line that look like one and are none: refused before a server starts."""

from __future__ import annotations

import click
import pytest

from app.cli.number_range import NumberRange
from tests.unit.test_cli_help import COMMANDS
from tests.unit.test_cli_verbs import JOB, run


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "x"])
def test_a_wait_is_a_number(number: str) -> None:
    told = run("result", str(JOB), "--wait", number)
    assert (told.exit_code, "--wait" in told.output) == (2, True)


def test_no_bounded_number_takes_nan() -> None:
    """Every comparison with it is false."""
    loose = [
        f"{path} {each.name}"
        for path, (command, _) in COMMANDS.items()
        for each in command.params
        if isinstance(each.type, click.FloatRange) and not isinstance(each.type, NumberRange)
    ]
    assert loose == []


@pytest.mark.parametrize("action", ["drain", "quarantine"])
@pytest.mark.parametrize("reason", ["", "  "])
def test_a_device_is_taken_out_of_service_with_a_reason(action: str, reason: str) -> None:
    told = run("workers", action, "box", "--reason", reason)
    assert (told.exit_code, "expected a reason" in told.output) == (2, True)


def test_a_setting_that_is_neither_number_nor_auto_is_named() -> None:
    told = run("status", ASSAY_SLOTS="many")
    assert (told.exit_code, told.output) == (
        2,
        "error: ASSAY_SLOTS: expected a whole number or auto, got 'many'\n",
    )
