"""BROWSE: users and their roles, all tokens, and the log of actions: for admins."""

from __future__ import annotations

from uuid import UUID

import flask
from werkzeug.wrappers import Response

from app import passwords
from app.domain.user import Role, Scope
from app.store.browse import audit_log, paging
from app.store.user import audit, tokens, users
from app.web import request_context, table_export
from app.web.identity import authentication
from app.web.table_view import Column, Listing

blueprint = flask.Blueprint("members", __name__)

USERS = Listing(
    endpoint="members.index",
    table="members.table",
    sort="name",
    columns=(
        Column(name="name", heading="Name", is_long=True, sorts=True, is_head=True),
        Column(name="role", heading="Role", sorts=True),
        Column(name="created_at", heading="Since", sorts=True, is_number=True),
        Column(name="change", heading="Change"),
    ),
)
PUBLIC = ("user_id", "name", "role", "disabled_at", "created_at")
"""Fields of an account that are data; not its password's hash."""
AUDIT = Listing(
    endpoint="members.events",
    table="members.events_table",
    key="audit_event_id",
    filters=("user", "action", "subject"),
    columns=(
        Column(name="action", heading="Action", is_head=True),
        Column(name="subject", heading="Changed object", is_long=True),
        Column(name="user", heading="User"),
        Column(name="details", heading="Details", is_long=True),
        Column(name="created_at", heading="Created", sorts=True, is_number=True),
    ),
)


@blueprint.get("/users")
@authentication.requires(Scope.ADMINISTER)
@USERS.reads()
def index() -> str:
    """Every user and every token."""
    return _page()


@blueprint.post("/users")
@authentication.requires(Scope.ADMINISTER)
@USERS.reads()
def add() -> Response | tuple[str, int]:
    """A new user with a password that is shown once, for them to change."""
    form = flask.request.form
    name, password = form.get("name", "").strip(), passwords.generated()
    try:
        with request_context.database().begin() as connection:
            stored = passwords.hashed(password, name=name)
            account = users.add(
                connection, name=name, role=Role(form.get("role", "")), password_hash=stored
            )
            audit.record(
                connection,
                authentication.current_user(),
                "user.add",
                f"user {name}",
                {"role": str(account.role)},
            )
    except ValueError as error:
        return _page(error=str(error)), 400
    response = flask.make_response(_page(new_user=name, new_password=password))
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.post("/users/<uuid:user_id>")
@authentication.requires(Scope.ADMINISTER)
@USERS.reads()
def change(user_id: UUID) -> Response | tuple[str, int]:
    """Another role, disabled, or enabled again."""
    action = flask.request.form.get("action", "")
    try:
        with request_context.database().begin() as connection:
            account = request_context.one(connection, "user", user_id, users.get)
            if action == "disable":
                users.disable(connection, user_id)
            elif action == "enable":
                users.enable(connection, user_id)
            else:
                users.set_role(connection, user_id, Role(action))
            audit.record(
                connection,
                authentication.current_user(),
                "user.change",
                f"user {account.name}",
                {"to": action},
            )
    except ValueError as error:
        return _page(error=str(error)), 400
    return flask.redirect(flask.url_for("members.index"))


@blueprint.post("/tokens/<uuid:token_id>/revoke")
@authentication.requires(Scope.ADMINISTER)
def revoke_token(token_id: UUID) -> Response:
    """Make anybody's token useless."""
    with request_context.database().begin() as connection:
        if not tokens.revoke(connection, token_id):
            request_context.missing("token that could be revoked", token_id)
        audit.record(connection, authentication.current_user(), "token.revoke", f"token {token_id}")
    return flask.redirect(flask.url_for("members.index"))


@blueprint.get("/audit")
@authentication.requires(Scope.ADMINISTER)
@AUDIT.reads()
def events() -> str:
    """Log of users' actions, newest first."""
    view = AUDIT.view()
    wanted = audit_log.Filter(**view.asked)
    with request_context.database().snapshot() as connection:
        page = audit_log.page(connection, wanted, view.window)
        total = audit_log.total(connection, wanted)
        actions = audit_log.actions(connection)
        people = [account.name for account in users.listed(connection)]
    return flask.render_template(
        "audit.html",
        view=view,
        rows=page.rows,
        total=total,
        actions=actions,
        people=people,
        **view.pages(page),
    )


@blueprint.get("/audit.<any(json,csv):kind>")
@authentication.requires(Scope.ADMINISTER)
@AUDIT.reads()
def events_table(kind: str) -> flask.Response:
    """The log as data."""
    view = AUDIT.view()
    with request_context.database().snapshot() as connection:
        page = audit_log.page(connection, audit_log.Filter(**view.asked), view.window)
    return view.data(kind, "events", page)


@blueprint.get("/users.<any(json,csv):kind>")
@authentication.requires(Scope.ADMINISTER)
@USERS.reads()
def table(kind: str) -> flask.Response:
    """The users as data."""
    with request_context.database().snapshot() as connection:
        accounts = USERS.view().arranged(users.listed(connection))
    return table_export.answer(
        kind, "users", [{name: getattr(each, name) for name in PUBLIC} for each in accounts]
    )


def _page(
    *, error: str | None = None, new_user: str | None = None, new_password: str | None = None
) -> str:
    view = USERS.view()
    with request_context.database().snapshot() as connection:
        accounts, listed = users.listed(connection), tokens.listed(connection)
    return flask.render_template(
        "users.html",
        view=view,
        total=paging.Total(number=len(accounts), is_exact=True),
        accounts=view.arranged(accounts),
        tokens=listed,
        roles=list(Role),
        error=error,
        new_user=new_user,
        new_password=new_password,
    )
