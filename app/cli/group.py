"""Groups of commands, which list each command with the whole first sentence of its help."""

from __future__ import annotations

import re

import click

_FIRST = re.compile(r".*?(?=[.:;](\s|$))|.+", re.DOTALL)
"""Text up to the end of a clause."""


class Group(click.Group):
    """A group with a list in which nothing is cut: click ends each line where the terminal does."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(command)) for name, command in commands if command is not None])


def summary(command: click.Command) -> str:
    """First sentence of a command's help."""
    if command.short_help:
        return command.short_help
    found = _FIRST.match(" ".join((command.help or "").split()))
    return f"{found[0]}." if found else ""
