"""Users, roles and scopes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class Scope(StrEnum):
    """One kind of thing to do.  A token names those that it is good for."""

    READ = "read"
    """Look at everything."""
    REVIEW = "review"
    """Confirm and override verdicts, comment, save filters."""
    SUBMIT = "submit"
    """Have candidates evaluated, and cancel them."""
    EXPORT = "export"
    """Have datasets made."""
    OPERATE = "operate"
    """Drain, quarantine and resume devices."""
    ADMINISTER = "administer"
    """Users, other people's tokens, the audit log."""


class Role(StrEnum):
    """Role of a user; each has the scopes of those before it."""

    VIEWER = "viewer"
    REVIEWER = "reviewer"
    OPERATOR = "operator"
    ADMIN = "admin"


_REVIEWER = frozenset({Scope.READ, Scope.REVIEW})
_OPERATOR = _REVIEWER | {Scope.SUBMIT, Scope.EXPORT, Scope.OPERATE}

SCOPES: dict[Role, frozenset[Scope]] = {
    Role.VIEWER: frozenset({Scope.READ}),
    Role.REVIEWER: _REVIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: frozenset(Scope),
}


@dataclass(frozen=True, kw_only=True)
class User:
    """Author of a request."""

    user_id: UUID | None
    """None for `LOCAL`."""
    name: str
    role: Role
    scopes: frozenset[Scope]
    """Scopes of the role, cut to those of the token if one was sent."""

    def may(self, needed: Role | Scope) -> bool:
        """True if this user, in this request, has the scope, or every scope of the role."""
        return (SCOPES[needed] if isinstance(needed, Role) else {needed}) <= self.scopes


def user(*, user_id: UUID, name: str, role: str, only: frozenset[str] | None = None) -> User:
    """The user of that role; `only` are the scopes of the token that speaks for them."""
    known = Role(role)
    scopes = SCOPES[known]
    if only is not None:
        scopes = frozenset(scope for scope in scopes if scope.value in only)
    return User(user_id=user_id, name=name, role=known, scopes=scopes)


LOCAL = User(user_id=None, name="local", role=Role.ADMIN, scopes=frozenset(Scope))
"""Requests from this machine while the database has no users: all scopes."""
