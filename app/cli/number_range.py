"""Numbers with bounds on the command line."""

from __future__ import annotations

import math
from typing import Any

import click


class NumberRange(click.FloatRange):
    """`click.FloatRange` without infinity, and without NaN, which every comparison lets pass."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number.  Raises click.BadParameter."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"expected a finite number, got {value}", param, ctx)
        return found
