"""`assay user`: users and their roles."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from uuid import UUID

import click

from app.cli import accounts, output
from app.cli.group import Group
from app.domain.user import SCOPES, Role
from app.settings import Settings
from app.store.postgres.database import Connection
from app.store.user import audit, users

_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
_password_file = click.option(
    "--password-file",
    "file",
    type=_FILE,
    help="Read the password from a file; - is standard input.",
)
_generate = click.option("--generate", is_flag=True, help="Make a password up and print it, once.")


@click.group("user", cls=Group)
def command() -> None:
    """Users and their roles.  Without users, requests from this machine have all rights and others
    are refused; the first user, an admin, ends that.

    \b
    assay user add ada --role admin
    assay user add trainer --role operator --generate
    assay user list
    assay user role ada reviewer
    assay user password ada
    assay user disable ada; assay user enable ada
    """


@command.command("add")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([str(each) for each in Role]),
    help="Role; the first user is an admin.",
)
@_password_file
@_generate
@click.option(
    "--if-none",
    is_flag=True,
    help="Do nothing where there is a user already: for start-up scripts.",
)
@output.json_option()
@click.pass_obj
def add(
    settings: Settings,
    name: str,
    role: str | None,
    file: Path | None,
    generate: bool,
    if_none: bool,
    as_json: bool,
) -> None:
    """Add a user.  The password is asked for, unless it comes from a file or is made up.

    Viewers look; reviewers also judge; operators also submit, export and look after
    devices; admins may do everything.

    \b
    assay user add ada --role admin
    assay user add admin --role admin --password-file /run/secrets/admin --if-none
    """
    with accounts.database(settings) as connection:
        if if_none and users.exist(connection):
            said = "there are users already; nothing was changed"
            output.answer_out(said, {"added": False}, as_json=as_json)
            return
        if role is None and users.exist(connection):
            raise click.UsageError(f"--role: expected one of {', '.join(Role)}, got none")
        role = role or Role.ADMIN.value
        stored, made = accounts.password(name, file, generate)
        users.add(connection, name=name, role=Role(role), password_hash=stored)
        audit.record(
            connection, None, "user.add", f"user {name}", {"role": role, **accounts.operator()}
        )
    sentence = f"added {name} ({role})"
    if made is not None:
        sentence += f"\npassword, shown only now: {made}"
    fields = {"added": True, "name": name, "role": role, "password": made}
    output.answer_out(sentence, fields, as_json=as_json)


@command.command("list")
@output.json_option("Print the users as JSON.")
@click.pass_obj
def listed(settings: Settings, as_json: bool) -> None:
    """List users."""
    with accounts.database(settings) as connection:
        known = users.listed(connection)
    if as_json:
        plain = [
            {name: value for name, value in asdict(each).items() if name != "password_hash"}
            for each in known
        ]
        click.echo(json.dumps(plain, default=str))
        return
    if not known:
        click.echo(
            "no users: requests from this machine have all rights; `assay user add NAME` adds an"
            " admin"
        )
        return
    rows = [
        (
            *(each.name, each.role, ", ".join(sorted(SCOPES[each.role]))),
            f"{each.created_at:%Y-%m-%d}",
            "disabled" if each.disabled_at else "",
        )
        for each in known
    ]
    output.list_out("name", "role", "may", "since", "", rows=rows)


@command.command("password")
@click.argument("name")
@_password_file
@_generate
@output.json_option()
@click.pass_obj
def password(
    settings: Settings, name: str, file: Path | None, generate: bool, as_json: bool
) -> None:
    """Give a user another password; their sessions end."""
    with accounts.database(settings) as connection:
        account = accounts.found(connection, name)
        stored, made = accounts.password(name, file, generate)
        users.set_password(connection, account.user_id, stored)
        audit.record(connection, None, "user.password", f"user {name}", accounts.operator())
    sentence = (
        f"changed the password of {name}"
        if made is None
        else f"password of {name}, shown only now: {made}"
    )
    output.answer_out(sentence, {"name": name, "password": made}, as_json=as_json)


@command.command("role")
@click.argument("name")
@click.argument("role", type=click.Choice([str(each) for each in Role]))
@output.json_option()
@click.pass_obj
def role(settings: Settings, name: str, role: str, as_json: bool) -> None:
    """Give a user another role, from their next request on."""
    _change(
        settings,
        name,
        role,
        lambda connection, user_id: users.set_role(connection, user_id, Role(role)),
    )
    output.answer_out(f"{name} is {role}", {"name": name, "role": role}, as_json=as_json)


@command.command("disable")
@click.argument("name")
@output.json_option()
@click.pass_obj
def disable(settings: Settings, name: str, as_json: bool) -> None:
    """Let a user in no more, by password, session or token.  Their audit entries stay."""
    _change(settings, name, "disabled", users.disable)
    output.answer_out(f"disabled {name}", {"name": name, "disabled": True}, as_json=as_json)


@command.command("enable")
@click.argument("name")
@output.json_option()
@click.pass_obj
def enable(settings: Settings, name: str, as_json: bool) -> None:
    """Let a user in again."""
    _change(settings, name, "enabled", users.enable)
    output.answer_out(f"enabled {name}", {"name": name, "disabled": False}, as_json=as_json)


def _change(
    settings: Settings, name: str, to: str, act: Callable[[Connection, UUID], object]
) -> None:
    """Act on the user of that name, and record it."""
    with accounts.database(settings) as connection:
        act(connection, accounts.found(connection, name).user_id)
        audit.record(
            connection, None, "user.change", f"user {name}", {"to": to, **accounts.operator()}
        )
