"""OS account of the embedded servers: the caller's, or an unprivileged one for root
(PostgreSQL refuses root).
"""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

UNPRIVILEGED = ("postgres", "nobody")
"""Existing users to become instead of root, in this order; none is ever added."""


class Identity(TypedDict, total=False):
    """Arguments of subprocess.Popen."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, kw_only=True)
class Account:
    """A user of this system."""

    name: str
    uid: int
    gid: int

    def popen(self) -> Identity:
        """Arguments of Popen that run a subprocess as this account."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, folder: Path) -> None:
        """Make a folder that only this account (and root) can use."""
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != self.uid:
            os.chown(folder, self.uid, self.gid)

    def check_reach(self, folder: Path) -> None:
        """Raise PermissionError where the account cannot come to that folder."""
        done = subprocess.run(
            ["/bin/ls", "-d", f"{folder}/."], capture_output=True, check=False, **self.popen()
        )
        if done.returncode:
            raise PermissionError(
                f"{folder}: expected a folder that user {self.name!r} can reach (the servers refuse"
                " to run as root); make it passable (chmod 711) or set ASSAY_STATE_DIR to one"
                " below /var/tmp"
            )


def choose() -> Account:
    """Ourselves, or the first unprivileged user that exists where we are root.

    Raises RuntimeError where there is no suitable entry in the password database:
    PostgreSQL insists on one.
    """
    if os.geteuid() != 0:
        return _lookup(os.geteuid())
    for name in UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise RuntimeError(
        f"expected one of the users {', '.join(UNPRIVILEGED)} to run PostgreSQL as, found none"
    )


def _lookup(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise RuntimeError(
            f"uid {uid} has no name in the password database: PostgreSQL refuses to run as it"
        ) from None
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)
