"""`assay user` and `assay token`: the first admin, secrets that are shown once, and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import Result

from app import passwords
from app.cli import up
from app.settings import Settings
from app.store.postgres.database import Database
from app.store.user import logins, tokens, users
from app.web import serve
from tests.integration.cli import assay

Run = Callable[..., Result]


@pytest.fixture
def run(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(passwords, "METHOD", "scrypt:1024:8:1")

    return partial(assay, settings)


def test_users_and_their_tokens(run: Run, database: Database, tmp_path: Path) -> None:
    assert "no users" in run("user", "list").output
    file = tmp_path / "password"
    file.write_text("correct horse battery staple\n")
    assert run("user", "add", "ada", "--password-file", str(file), "--if-none").exit_code == 0
    assert "nothing was changed" in run("user", "add", "eve", "--generate", "--if-none").output
    assert run("user", "add", "vic", "--generate").exit_code == 2, "the second one says as what"
    added = run("user", "add", "vic", "--role", "viewer", "--generate")
    assert re.search(r"password, shown only now: [\w-]{20}\n", added.output)
    assert run("user", "role", "vic", "operator").exit_code == 0
    listed = json.loads(run("user", "list", "--json").output)
    assert [(each["name"], each["role"]) for each in listed] == [
        ("ada", "admin"),
        ("vic", "operator"),
    ]
    assert "password_hash" not in listed[0]
    made = run("token", "add", "vic", "trainer", "--scope", "read", "--days", "1")
    with database.begin() as connection:
        user = tokens.user_of(connection, made.stdout.strip())
    assert user
    assert (user.name, sorted(user.scopes)) == ("vic", ["read"])
    [token] = json.loads(run("token", "list", "--json").output)
    assert made.stdout.strip() not in json.dumps(token)
    assert run("token", "revoke", token["api_token_id"]).exit_code == 0
    assert run("token", "revoke", token["api_token_id"]).exit_code == 2
    [token] = json.loads(run("token", "list", "--json").output)
    assert token["revoked_at"] is not None
    assert token["api_token_id"] in run("token", "list").output


def test_answers_as_json(run: Run, database: Database) -> None:
    def answer(*arguments: str):
        return json.loads(run(*arguments, "--json").stdout)

    ada = answer("user", "add", "ada", "--generate")
    assert (ada["added"], ada["role"], len(ada["password"])) == (True, "admin", 20)
    assert answer("user", "add", "eve", "--if-none", "--generate") == {"added": False}
    assert answer("user", "add", "vic", "--role", "viewer", "--generate")["name"] == "vic"
    assert answer("user", "role", "vic", "operator") == {"name": "vic", "role": "operator"}
    assert answer("user", "password", "vic", "--generate")["password"]
    assert answer("user", "disable", "vic") == {"name": "vic", "disabled": True}
    assert answer("user", "enable", "vic") == {"name": "vic", "disabled": False}
    token = answer("token", "add", "vic", "trainer", "--days", "1")
    with database.begin() as connection:
        assert tokens.user_of(connection, token["token"]).name == "vic"
    revoked = {"api_token_id": token["api_token_id"], "revoked": True}
    assert answer("token", "revoke", token["api_token_id"]) == revoked
    assert answer("workers", "alive")["alive"] is False
    assert answer("db", "turns") == {"repaired": 0, "foreign": []}
    assert answer("db", "rollup", "--check") == {"differences": []}
    assert answer("db", "rollup").keys() == {"saved"}
    assert answer("db", "upgrade") == {"revision": "head"}


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        (["add", "ada", "--password-file", "-"], "short\n", "at least 12 characters"),
        (["add", "ada"], "", "expected a terminal to ask"),
        (
            ["add", "ada", "--role", "viewer", "--generate"],
            "",
            "expected 'admin' for the first user",
        ),
        (["disable", "ada"], "", "there is none yet"),
    ],
)
def test_refusals(run: Run, arguments: list[str], text: str, said: str) -> None:
    done = run("user", *arguments, text=text)
    assert done.exit_code == 2
    assert said in done.output
    assert "short" not in done.output


def test_public_addresses_are_refused_without_users(run: Run, settings: Settings) -> None:
    serve.check_closed(settings, "127.0.0.1")
    with pytest.raises(RuntimeError, match="expected a loopback address while there are no users"):
        serve.check_closed(settings, "0.0.0.0")
    assert "open to this machine" in up.admit(settings, "localhost")
    said = up.admit(settings, "0.0.0.0")
    assert re.search(r"admin, made now .* shown only now: [\w-]{20}$", said)
    assert up.admit(settings, "0.0.0.0") == "1; everybody logs in"
    serve.check_closed(settings, "0.0.0.0")


def test_a_new_password_ends_sessions(run: Run, database: Database) -> None:
    run("user", "add", "ada", "--generate")
    with database.begin() as connection:
        ada = users.find(connection, "ada")
        assert ada
        secret = logins.open_(connection, ada.user_id)
    assert run("user", "password", "ada", "--generate").exit_code == 0
    with database.begin() as connection:
        assert logins.user_of(connection, secret) is None
