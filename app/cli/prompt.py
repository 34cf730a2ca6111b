"""`assay prompt`: prompt templates of collections."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import click

from app.cli import accounts, errors, output
from app.cli.group import Group
from app.domain.collection import templates
from app.domain.collection.templates import Template
from app.domain.request import RequestError
from app.settings import Settings
from app.store.collection import prompt_templates
from app.store.collection.prompt_templates import StoredTemplate

SHORT = 12
"""Digits of a template's SHA-256 that are shown."""
kind_option = click.option(
    "--kind",
    type=click.Choice(list(templates.PLACEHOLDERS)),
    default=templates.PROBLEM,
    show_default=True,
    help="Opening of a conversation (system, problem), or the answer to an attempt (feedback).",
)


@click.group("prompt", cls=Group)
def command() -> None:
    """Prompt templates of collections.  A version is known by the hash of its text and never
    changes; a collection keeps the versions that it began with.  `assay`, `dr_kernel` and
    `kernelbench` come with Assay.

    \b
    assay prompt list
    assay prompt show assay --kind feedback
    assay prompt add mine --file prompt.txt
    assay prompt diff assay mine
    """


@command.command("list")
@output.json_option()
@click.pass_obj
def listed(settings: Settings, as_json: bool) -> None:
    """List all versions, the newest of each template first."""
    with accounts.database(settings) as connection:
        known = prompt_templates.listed(connection)
    output.records_out(known, _COLUMNS, as_json=as_json, plain=_row)


@command.command("show")
@click.argument("name")
@kind_option
@output.json_option()
@click.pass_obj
def show(settings: Settings, name: str, kind: str, as_json: bool) -> None:
    """Print the template NAME, or NAME@HASH for one version."""
    template = _found(settings, name, kind)
    if as_json:
        output.json_out(_row(StoredTemplate(template=template, created_at=None)))
    else:
        click.echo(output.safe(template.body))


@command.command("add")
@click.argument("name")
@kind_option
@click.option(
    "--file",
    "path",
    required=True,
    type=click.File("r", encoding="utf-8"),
    help="Its text; - for stdin.",
)
@output.json_option()
@click.pass_obj
def add(settings: Settings, name: str, kind: str, path: Any, as_json: bool) -> None:
    """Store a version of the template NAME.  An unknown placeholder is refused, with
    the known ones.
    """
    try:
        body = path.read()
    except UnicodeDecodeError as error:
        raise RequestError(f"file: expected text in UTF-8: {error}") from error
    template = Template(name=name, kind=kind, body=body.rstrip("\n"))
    with accounts.database(settings) as connection:
        new = prompt_templates.add(connection, template)
    sentence = f"{_short(template)} {'stored' if new else 'was stored already'}"
    fields = {"name": name, "kind": kind, "sha256": template.sha256, "new": new}
    output.answer_out(sentence, fields, as_json=as_json)


@command.command("diff")
@click.argument("old")
@click.argument("new")
@kind_option
@output.json_option()
@click.pass_context
def diff(ctx: click.Context, old: str, new: str, kind: str, as_json: bool) -> None:
    """Compare two templates, or two versions (NAME@HASH).  Exit code 1: they differ."""
    first, second = (_found(ctx.obj, name, kind) for name in (old, new))
    before, after = (one.body.splitlines() for one in (first, second))
    lines = list(difflib.unified_diff(before, after, _short(first), _short(second), lineterm=""))
    fields = {"old": first.sha256, "new": second.sha256, "differ": bool(lines), "diff": lines}
    if lines or as_json:
        output.answer_out(output.safe("\n".join(lines)), fields, as_json=as_json)
    ctx.exit(errors.NO if lines else errors.OK)


def _found(settings: Settings, name: str, kind: str) -> Template:
    with accounts.database(settings) as connection:
        return prompt_templates.find(connection, name, kind)


def _short(template: Template) -> str:
    return f"{template.name}@{template.sha256[:SHORT]}"


_COLUMNS: dict[str, Callable[[StoredTemplate], output.Cell]] = {
    "name": lambda one: one.template.name,
    "kind": lambda one: one.template.kind,
    "hash": lambda one: one.template.sha256[:SHORT],
    "stored": lambda one: output.minute(one.created_at) if one.created_at else "comes with Assay",
    "characters": lambda one: str(len(one.template.body)),
}


def _row(one: StoredTemplate) -> dict[str, Any]:
    template = one.template
    return {
        "name": template.name,
        "kind": template.kind,
        "sha256": template.sha256,
        "placeholders": sorted(templates.placeholders(template)),
        "created_at": one.created_at and one.created_at.isoformat(),
        "body": template.body,
    }
