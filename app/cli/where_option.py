"""The option `--where`: a filter that is read before anything is started."""

from __future__ import annotations

from typing import Any

import click

from app.domain import filter_language as filters


class Filter(click.ParamType[str]):
    """Text of a filter; one that cannot be read is refused by the name of the option."""

    name = "filter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as given."""
        try:
            filters.parse(value)
        except filters.WhereError as error:
            self.fail(str(error), param, ctx)
        return str(value)
