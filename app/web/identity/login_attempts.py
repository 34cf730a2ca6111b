"""BROWSE: attempts at a password: counted, made to wait, and one at a time from an address.

Hashing takes some 60 ms of a core on purpose.  It runs in a thread of gevent's pool where the
server is one, so that other requests go on; and attempts of one address queue, so that a flood of
them is refused by the count of failures instead of being hashed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import flask
from gevent import get_hub, monkey
from werkzeug.exceptions import TooManyRequests

from app import passwords
from app.store.user import audit, logins, users
from app.store.user.users import Account
from app.web import request_context

FORGIVEN = {"pair": 5, "address": 20, "name": 100}
"""Failures without a wait: of one name from one address, of an address, of a name.  The last is
generous, because a person who knows a name could keep its owner out.
"""

T = TypeVar("T")

_turns: dict[str, tuple[threading.Lock, int]] = {}
"""Address → the lock of its turn, and how many hold it or wait for it."""
_turns_lock = threading.Lock()


def checked(name: str, password: str, *, failure: str) -> Account | None:
    """The account with that password; None, counted and recorded as the action
    `failure`, for every other answer.

    Takes as long for a name that does not exist.  Raises TooManyRequests while
    failures have to be waited out.
    """
    address = flask.request.remote_addr or "unix"
    with _turn(address):
        subjects = {
            "pair": f"pair {address} {name}",
            "address": f"address {address}",
            "name": f"name {name}",
        }
        with request_context.database().begin() as connection:
            wait_s = logins.wait_s(
                connection, [(subject, FORGIVEN[kind]) for kind, subject in subjects.items()]
            )
            account = users.find(connection, name)
        if wait_s > 0:
            raise TooManyRequests(
                f"too many failed logins: try again in {wait_s:.0f} s", retry_after=int(wait_s) + 1
            )
        known = _aside(
            lambda: passwords.verify(account.password_hash if account else None, password)
        )
        with request_context.database().begin() as connection:
            if account is None or not known or account.disabled_at is not None:
                logins.failed(connection, list(subjects.values()))
                audit.record(
                    connection,
                    None,
                    failure,
                    f"user {name[:100]}",
                    {"address": flask.request.remote_addr},
                )
                return None
            logins.forgive(connection, subjects["pair"])
    return account


@contextmanager
def _turn(address: str) -> Iterator[None]:
    with _turns_lock:
        lock, users_of_it = _turns.get(address, (threading.Lock(), 0))
        _turns[address] = (lock, users_of_it + 1)
    try:
        with lock:
            yield
    finally:
        with _turns_lock:
            lock, users_of_it = _turns.pop(address)
            if users_of_it > 1:
                _turns[address] = (lock, users_of_it - 1)


def _aside(work: Callable[[], T]) -> T:
    """Computed while other requests go on."""
    if not monkey.is_module_patched("threading"):
        return work()
    result: T = get_hub().threadpool.apply(work)
    return result
