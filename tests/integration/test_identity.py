"""Users, sessions, tokens and forms: admission, roles, and acts that other sites cannot cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import flask
import pytest
from flask.testing import FlaskClient

from app import passwords
from app.domain.user import Role, Scope
from app.settings import Settings
from app.store.postgres.database import Database
from app.store.user import logins, tokens, users
from app.web import create_app
from app.web.identity import authentication, cookies, current_user, login_attempts, requires
from tests.integration import audited
from tests.integration.login_form import CHEAP, PASSWORD, STORED, csrf, log_in


@pytest.fixture
def app(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[flask.Flask]:
    monkeypatch.setattr(authentication, "LOOK_S", 0.0)
    monkeypatch.setattr(authentication, "TOKEN_S", 0.0)
    monkeypatch.setattr(passwords, "METHOD", CHEAP)  # the real one is slow on purpose
    made = create_app(settings)

    @made.post("/tried")
    @requires("reviewer")
    def tried() -> str:
        return current_user().name

    yield made
    made.extensions["assay"]["database"].dispose()


@pytest.fixture
def site(app: flask.Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def add(database: Database) -> Callable[..., UUID]:
    def add(name: str, role: Role = Role.ADMIN) -> UUID:
        with database.begin() as connection:
            return users.add(connection, name=name, role=role, password_hash=STORED).user_id

    return add


def token(
    database: Database, user_id: UUID, *scopes: Scope, until: datetime | None = None
) -> tuple[UUID, str]:
    with database.begin() as connection:
        return tokens.add(connection, user_id=user_id, name="t", scopes=scopes, expires_at=until)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def actions(database: Database) -> list[tuple[str, str | None]]:
    with database.begin() as connection:
        return [(event.action, event.user) for event in audited.events(connection)]


def test_the_first_user_closes_it(site: FlaskClient, add: Callable[..., UUID]) -> None:
    assert site.get("/account").status_code == 200
    add("ada")
    response = site.get("/account?a=b", headers={"Accept": "text/html"})
    assert (response.status_code, response.location) == (302, "/login?next=/account?a%3Db")
    answer = site.get("/account", headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json["error"]["kind"]) == (401, "unauthorized")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_the_first_user_has_to_be_an_admin(add: Callable[..., UUID]) -> None:
    with pytest.raises(users.UserError, match="expected 'admin' for the first user"):
        add("vic", Role.VIEWER)


def test_in_and_out(site: FlaskClient, add: Callable[..., UUID]) -> None:
    add("ada")
    response = log_in(site, next="/problems")
    assert (response.status_code, response.location) == (302, "/problems")
    cookie = next(
        each for each in response.headers.getlist("Set-Cookie") if each.startswith(cookies.SESSION)
    )
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert site.get("/account").status_code == 200
    assert site.post("/logout").status_code == 403  # without the token of a page
    assert site.post("/logout", data={"csrf_token": csrf(site, "/account")}).status_code == 302
    assert site.get("/account").status_code == 401
    site.set_cookie(cookies.SESSION, cookie.split("=")[1].split(";")[0])
    assert site.get("/account").status_code == 401, "the session ended at the server, too"


@pytest.mark.parametrize(
    "where", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x"]
)
def test_a_login_leads_nowhere_else(
    site: FlaskClient, add: Callable[..., UUID], where: str
) -> None:
    add("ada")
    assert log_in(site, next=where).location == "/"


def test_wrong_passwords_say_nothing_and_soon_have_to_wait(
    site: FlaskClient, add: Callable[..., UUID], database: Database
) -> None:
    add("ada")
    answers = {
        log_in(site, name, "wrong").text.replace(f'value="{name}"', "") for name in ("ada", "eve")
    }
    tokens_cut = {re.sub(r'value="[0-9a-f]{64}"', "", answer) for answer in answers}
    assert len(tokens_cut) == 1
    for _ in range(4):
        assert log_in(site, "ada", "wrong").status_code == 401
    refused = log_in(site)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 3
    assert log_in(site, "eve", "wrong").status_code == 401, "others are not kept out"
    with database.begin() as connection:
        logins.forgive(connection, "pair 127.0.0.1 ada")
    assert log_in(site).status_code == 302
    assert ("login.fail", None) in actions(database)


def test_forms_of_other_sites_are_refused(site: FlaskClient, add: Callable[..., UUID]) -> None:
    # a request without login, at a machine without users: its rights are as good as a cookie
    good = {"csrf_token": csrf(site, "/users"), "name": "ada", "role": "admin"}
    assert site.post("/users", data=good | {"csrf_token": "0" * 64}).status_code == 403
    assert (
        site.post("/users", data=good, headers={"Origin": "https://evil.example"}).status_code
        == 403
    )
    assert (
        site.post("/users", data=good, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    )
    assert site.post("/users", data='{"a": 1}', content_type="text/plain").status_code == 403
    added = site.post("/users", data=good, headers={"Origin": "http://localhost"})
    assert added.status_code == 200
    assert "not shown again" in added.text


def test_roles_and_scopes(site: FlaskClient, add: Callable[..., UUID], database: Database) -> None:
    add("ada")
    vic, rev = add("vic", Role.VIEWER), add("rev", Role.REVIEWER)
    allowed = [
        (token(database, vic, *Scope)[1], 403),
        (token(database, rev, *Scope)[1], 200),
        (token(database, rev, Scope.READ)[1], 403),
    ]
    for text, status in allowed:
        assert site.post("/tried", headers=bearer(text)).status_code == status
    refused = site.post("/tried", headers=bearer(allowed[0][0]))
    assert "got vic (viewer: read)" in refused.json["error"]["message"]


def test_tokens_end(site: FlaskClient, add: Callable[..., UUID], database: Database) -> None:
    ada = add("ada")
    token_id, text = token(database, ada, Scope.READ)
    late = token(database, ada, Scope.READ, until=datetime.now(UTC) - timedelta(seconds=1))[1]
    assert site.get("/account", headers=bearer(text)).status_code == 200
    assert site.get("/account", auth=("anything", text)).status_code == 200
    for bad in (late, text[:-1], "assay_", "", "x" * 10_000, "\udce9"):
        assert site.get("/account", headers=bearer(bad)).status_code == 401, bad
    other = site.get("/v1/runs", headers={"Authorization": f"Token {text}"})
    assert "expected `Bearer TOKEN`, got no token" in other.json["error"]["message"]
    with database.begin() as connection:
        [used] = [each for each in tokens.listed(connection, ada) if each.api_token_id == token_id]
        assert used.last_used_at is not None
        assert tokens.revoke(connection, token_id)
    assert site.get("/account", headers=bearer(text)).status_code == 401


def test_disabled_users_are_out_at_once(
    site: FlaskClient, add: Callable[..., UUID], database: Database
) -> None:
    add("ada")
    rev = add("rev", Role.REVIEWER)
    text = token(database, rev, Scope.READ)[1]
    assert log_in(site, "rev").status_code == 302
    with database.begin() as connection:
        users.disable(connection, rev)
    assert site.get("/account").status_code == 401
    assert site.get("/account", headers=bearer(text)).status_code == 401
    assert log_in(site, "rev").status_code == 401


def test_the_last_admin_stays(add: Callable[..., UUID], database: Database) -> None:
    ada = add("ada")
    with (
        database.begin() as connection,
        pytest.raises(users.UserError, match="expected another admin"),
    ):
        users.disable(connection, ada)
    bob = add("bob")
    with database.begin() as connection:
        users.set_role(connection, ada, Role.VIEWER)
    with database.begin() as connection, pytest.raises(users.UserError):
        users.set_role(connection, bob, Role.OPERATOR)


def test_ones_account(site: FlaskClient, add: Callable[..., UUID], database: Database) -> None:
    add("ada")
    log_in(site)
    made = site.post(
        "/account/tokens",
        data={
            "csrf_token": csrf(site, "/account"),
            "name": "trainer",
            "scope": ["read", "submit"],
            "days": "30",
        },
    )
    text = re.search(r"assay_[\w-]{43}", made.text)
    assert text
    assert made.headers["Cache-Control"] == "no-store"
    assert site.get("/account", headers=bearer(text[0])).status_code == 200
    listed = site.get("/account").text
    assert text[0] not in listed
    [revoke] = re.findall(r'action="(/account/tokens/[^"]*/revoke)"', listed)
    assert site.post(revoke, data={"csrf_token": csrf(site, "/account")}).status_code == 302
    assert site.get("/account", headers=bearer(text[0])).status_code == 401
    changed = {"csrf_token": csrf(site, "/account"), "old": PASSWORD, "new": "short"}
    assert "at least 12" in site.post("/account/password", data=changed).text
    assert (
        site.post("/account/password", data=changed | {"new": "a completely other one"}).status_code
        == 302
    )
    assert site.get("/account").status_code == 200, "the session that changed it goes on"
    assert [name for name, user in actions(database) if user == "ada"][:3] == [
        "user.password",
        "token.revoke",
        "token.add",
    ]


def test_every_route_says_what_it_wants(app: flask.Flask) -> None:
    silent = {
        rule.endpoint
        for rule in app.url_map.iter_rules()
        if rule.endpoint not in authentication.ASKS_NOBODY
        and authentication.wants(app.view_functions[rule.endpoint]) is None
    }
    assert not silent
    public = {
        name for name, view in app.view_functions.items() if authentication.wants(view) == "public"
    }
    assert public == {"account.login", "account.log_in", "api.serve", "health.check", "health.live"}


def test_a_view_that_says_nothing_wants_read(
    app: flask.Flask, add: Callable[..., UUID], database: Database
) -> None:
    app.add_url_rule("/forgotten", "forgotten", lambda: "everything")
    ada = add("ada")
    for scope in Scope:
        text = token(database, ada, scope)[1]
        status = app.test_client().get("/forgotten", headers=bearer(text)).status_code
        assert status == (200 if scope is Scope.READ else 403), scope


def test_a_token_without_read_reads_nothing(
    app: flask.Flask, add: Callable[..., UUID], database: Database
) -> None:
    text = token(database, add("ada"), *(set(Scope) - {Scope.READ}))[1]
    site = app.test_client()
    read = []
    for rule in app.url_map.iter_rules():
        wanted = authentication.wants(app.view_functions[rule.endpoint])
        if (
            "GET" not in (rule.methods or ())
            or wanted == "public"
            or rule.endpoint in authentication.ASKS_NOBODY
        ):
            continue
        values: dict[str, Any] = dict.fromkeys(
            rule.arguments, "01890a5d-ac96-774b-bcce-b302099a8057"
        )
        values |= {
            "kind": "json",
            "what": "queues",
            "name": "blocks",
            "turn_index": 0,
            "on": "problem",
            "number": 1,
        }
        path = app.url_map.bind("localhost").build(
            rule.endpoint, {each: values[each] for each in rule.arguments}
        )
        if site.get(path, headers=bearer(text)).status_code != 403:
            read.append(path)
    assert not read


def test_ones_password_is_asked_of_a_session_and_guesses_are_counted(
    site: FlaskClient, add: Callable[..., UUID], database: Database
) -> None:
    text = token(database, add("ada"), *Scope)[1]
    guess = {"old": PASSWORD, "new": "a completely other one"}
    refused = site.post("/account/password", data=guess, headers=bearer(text))
    assert (refused.status_code, refused.headers.get("Set-Cookie")) == (403, None)
    log_in(site)
    form = {"csrf_token": csrf(site, "/account"), "new": guess["new"]}
    wrong = [
        site.post("/account/password", data=form | {"old": f"wrong {n}"}).status_code
        for n in range(6)
    ]
    assert wrong == [400] * 5 + [429]
    assert site.post("/account/password", data=form | {"old": PASSWORD}).status_code == 429, (
        "the right one waits, too"
    )
    assert [name for name, _ in actions(database)].count("user.password_fail") == 5


@pytest.mark.parametrize("path", ["/logout", "/account/password", "/account/tokens"])
def test_a_token_changes_no_account(
    site: FlaskClient, add: Callable[..., UUID], database: Database, path: str
) -> None:
    text = token(database, add("ada"), *Scope)[1]
    assert site.post(path, headers=bearer(text)).status_code == 403


def test_attempts_of_one_address_take_turns(
    app: flask.Flask, add: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood is refused by the count of failures; before, each of it was hashed first."""
    add("ada")
    hashed: list[str] = []
    monkeypatch.setattr(passwords, "verify", lambda stored, password: bool(hashed.append(password)))

    def guess(number: int) -> int:
        site = app.test_client()
        form = {"name": "ada", "password": str(number), "csrf_token": csrf(site)}
        return site.post("/login", data=form).status_code

    with ThreadPoolExecutor(12) as pool:
        codes = list(pool.map(guess, range(24)))
    assert sorted(codes) == [401] * 5 + [429] * 19
    assert len(hashed) == 5
    assert not login_attempts._turns


def test_members_are_for_admins(
    site: FlaskClient, add: Callable[..., UUID], database: Database
) -> None:
    add("ada")
    vic = add("vic", Role.VIEWER)
    log_in(site, "vic")
    assert site.get("/users").status_code == 403
    assert site.get("/audit").status_code == 403
    log_in(site, "ada")
    form = {"csrf_token": csrf(site, "/users"), "action": "operator"}
    assert site.post(f"/users/{vic}", data=form).status_code == 302
    assert site.post(f"/users/{vic}", data=form | {"action": "emperor"}).status_code == 400
    with database.begin() as connection:
        found = users.get(connection, vic)
    assert found
    assert found.role is Role.OPERATOR
    assert "user.change" in site.get("/audit").text


@pytest.mark.parametrize(
    "password", ["short", "aaaaaaaaaaaaaaaa", "adaadaada a b c d", "x" * 2000, "\ud800" * 20]
)
def test_bad_passwords(password: str) -> None:
    with pytest.raises(passwords.PasswordError) as refused:
        passwords.hashed(password, name="ada")
    assert password not in str(refused.value)
