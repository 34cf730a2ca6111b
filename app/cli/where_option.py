"""The option `--where`: a filter that is read before anything is started."""

from __future__ import annotations

import click

from app.domain import filter_language as filters
from app.domain import filter_tokens


def readable(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Callback of the option: the text as given.  Raises BadParameter, which names the option,
    for a filter that cannot be read.
    """
    try:
        filters.parse(value or "")
    except filter_tokens.WhereError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from error
    return value
