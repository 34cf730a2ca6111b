"""`assay token`: API tokens for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from uuid import UUID

import click

from app.cli import accounts, output
from app.cli.group import Group
from app.domain.user import Scope
from app.settings import Settings
from app.store.user import audit, tokens


@click.group("token", cls=Group)
def command() -> None:
    """API tokens for programs: `Authorization: Bearer …`, `Client(url=…, token=…)`, or
    `http://token:…@host` where a program takes only a URL.

    \b
    assay token add ada trainer --scope read --scope submit --days 90
    assay token list
    assay token revoke 01a1fd3a-…
    """


@command.command("add")
@click.argument("user")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([str(each) for each in Scope]),
    help="Scope; by default read and submit.  May be repeated.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    help="For how long it is good; by default until it is revoked.",
)
@output.json_option("Print the token with its id, scopes and end as JSON.")
@click.pass_obj
def add(
    settings: Settings,
    user: str,
    name: str,
    scopes: tuple[str, ...],
    days: int | None,
    as_json: bool,
) -> None:
    """Make a token for USER and print it, alone and only now, on standard output.
    NAME describes its use.
    """
    chosen = [Scope(each) for each in scopes] or [Scope.READ, Scope.SUBMIT]
    until = datetime.now(UTC) + timedelta(days=days) if days else None
    with accounts.database(settings) as connection:
        account = accounts.found(connection, user)
        token_id, text = tokens.add(
            connection, user_id=account.user_id, name=name, scopes=chosen, expires_at=until
        )
        details = {
            "user": user,
            "name": name,
            "scopes": [str(each) for each in chosen],
            **accounts.operator(),
        }
        audit.record(connection, None, "token.add", f"token {token_id}", details)
    click.echo(
        f"token {token_id} of {user} for {', '.join(chosen)}; it is not shown again", err=True
    )
    fields = {
        "api_token_id": str(token_id),
        "token": text,
        "user": user,
        "name": name,
        "scopes": [str(each) for each in chosen],
        "expires_at": until and until.isoformat(),
    }
    output.answer_out(text, fields, as_json=as_json)


@command.command("list")
@output.json_option("Print the tokens as JSON.")
@click.pass_obj
def listed(settings: Settings, as_json: bool) -> None:
    """List tokens, revoked ones included, without their secrets."""
    with accounts.database(settings) as connection:
        known = tokens.listed(connection)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in known], default=str))
        return
    rows = [
        (
            *(str(each.api_token_id), each.user, each.name, ", ".join(each.scopes)),
            output.minute(each.last_used_at) if each.last_used_at else "never",
            (
                "revoked"
                if each.revoked_at
                else f"{each.expires_at:%Y-%m-%d}"
                if each.expires_at
                else "no end"
            ),
        )
        for each in known
    ]
    output.list_out("id", "user", "name", "for", "last used", "until", rows=rows)


@command.command("revoke")
@click.argument("token_id", type=click.UUID)
@output.json_option()
@click.pass_obj
def revoke(settings: Settings, token_id: UUID, as_json: bool) -> None:
    """Make a token useless; within two seconds everywhere."""
    with accounts.database(settings) as connection:
        if not tokens.revoke(connection, token_id):
            raise LookupError(f"expected a token that is good, got {token_id} (`assay token list`)")
        audit.record(connection, None, "token.revoke", f"token {token_id}", accounts.operator())
    fields = {"api_token_id": str(token_id), "revoked": True}
    output.answer_out(f"revoked {token_id}", fields, as_json=as_json)
