"""Groups of commands, which list each command with the whole first sentence of its help."""

from __future__ import annotations

import difflib
import re

import click

_FIRST = re.compile(r".*?(?=[.:;](\s|$))|.+", re.DOTALL)
"""Text up to the end of a clause."""


class Group(click.Group):
    """A group with a list in which nothing is cut: click ends each line where the terminal does."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is refused with similar ones, or with all."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            similar = difflib.get_close_matches(name, known)
            ctx.fail(
                f"unknown command {name!r}; expected {'one of ' if len(similar) != 1 else ''}"
                f"{', '.join(similar or known)}"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.summary(ctx, name)) for name in self.list_commands(ctx)]
            )

    def summary(self, ctx: click.Context, name: str) -> str:
        """Line of a command in the list: its short help, else the first sentence of its help."""
        command = self.get_command(ctx, name)
        assert command is not None
        if command.short_help:
            return command.short_help
        found = _FIRST.match(" ".join((command.help or "").split()))
        return f"{found[0]}." if found else ""


class Renamed(click.Option):
    """An option whose earlier name works, and is not listed: names after the first
    are earlier ones.
    """

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of `--help`, without earlier names."""
        names, self.opts = self.opts, self.opts[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names
