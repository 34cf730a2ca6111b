"""Passwords: rules for accepting one, and the hash that is kept.

scrypt with N = 2^15, r = 8, p = 1 and a salt for each: 32 MiB and some 60 ms a guess.  It
does not guard against a database that is read together with weak passwords; hence the least
length, and no default anywhere.
"""

from __future__ import annotations

import secrets
from functools import lru_cache

from werkzeug.security import check_password_hash, generate_password_hash

METHOD = "scrypt:32768:8:1"
LEAST_CHARACTERS = 12
"""Least length of a password."""
MOST_BYTES = 1024
"""A longer one is refused before it is hashed."""


class PasswordError(ValueError):
    """Error for an unacceptable password: states the rule, never the password."""


def hashed(password: str, *, name: str) -> str:
    """Hash to store for the user of that name.  Raises PasswordError."""
    counted = len(password.casefold().replace(name.casefold(), ""))
    if counted < LEAST_CHARACTERS:
        raise PasswordError(
            f"password: expected at least {LEAST_CHARACTERS} characters besides the user's name,"
            f" got {counted}"
        )
    if not 0 < len(_bytes(password)) <= MOST_BYTES:
        raise PasswordError(f"password: expected UTF-8 text of at most {MOST_BYTES} bytes")
    if len(set(password)) < 5:
        raise PasswordError("password: expected at least 5 different characters")
    return generate_password_hash(password, METHOD)


def verify(stored: str | None, password: str) -> bool:
    """Return whether the password is right.  As slow where there is no user or no password,
    so that the time tells nothing.
    """
    if not 0 < len(_bytes(password)) <= MOST_BYTES:
        return False
    return check_password_hash(stored or _unknown_password(), password) and stored is not None


def generated() -> str:
    """A password of 120 bits, to be shown once."""
    return secrets.token_urlsafe(15)


def _bytes(password: str) -> bytes:
    """Empty for invalid text (lone surrogates)."""
    try:
        return password.encode()
    except UnicodeEncodeError:
        return b""


@lru_cache(maxsize=1)
def _unknown_password() -> str:
    """Hash of a password that is not known, compared where there is none."""
    return generate_password_hash(secrets.token_hex(16), METHOD)
