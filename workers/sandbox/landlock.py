"""Landlock: restricts file access, TCP, signals and abstract sockets (landlock(7)).

It needs no privilege and no namespace, so it also works in containers that refuse those.  A
restricted process can neither trace nor inspect a process that is not under the same restriction or
a further one: not the referee, and not another candidate, even with the same uid.

This does not guard against sockets in the file system (seccomp forbids connecting), reading names
and sizes of files (stat is not mediated), UDP (seccomp).
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from workers.sandbox import syscalls

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_CREATE_VERSION = 1
_RULE_PATH_BENEATH = 1
_LOG_SAME_EXEC_OFF = 1
"""ABI 7: do not log refusals of this process in the host's audit log."""

NEWEST = 7
"""Newest supported ABI; later ones add rights that this file does not know."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_RIGHTS = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
"""Rights to files, by the ABI that introduced them."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""Rights that a rule for a file (not a folder) may name."""

READ = _EXECUTE | _READ_FILE | _READ_DIR
WRITE = READ | _WRITE_FILE | _TRUNCATE
"""Rights to existing files."""
DEVICE = _READ_FILE | _WRITE_FILE | _IOCTL_DEV
EVERYTHING = -1
"""All rights that the kernel's ABI has."""

_NET_TCP = 0b11  # bind, connect
_SCOPE_SOCKETS_AND_SIGNALS = 0b11


class _Ruleset(ctypes.Structure):
    """struct landlock_ruleset_attr."""

    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def probe() -> int:
    """The kernel's ABI, at most NEWEST.  Raises OSError without Landlock."""
    null, size = ctypes.c_void_p(None), ctypes.c_size_t(0)
    return min(
        NEWEST, syscalls.syscall(_CREATE_RULESET, null, size, _CREATE_VERSION, what="Landlock")
    )


def describe(abi: int) -> tuple[str, list[str]]:
    """Name of the layer under `abi`, and the protections that it lacks."""
    later = {4: "TCP", 6: "signals and abstract sockets"}
    parts = ["files", *(what for needed, what in later.items() if abi >= needed)]
    lacks = [
        f"Landlock for {what} (ABI {abi}, needs {needed})"
        for needed, what in later.items()
        if abi < needed
    ]
    return f"Landlock ABI {abi}: {', '.join(parts)}", lacks


def restrict(abi: int, rules: Iterable[tuple[Path, int]]) -> None:
    """Restrict this thread and all that it starts to the files of `rules` (path,
    rights) and those below them.

    Paths that do not exist are skipped.  Needs no_new_privs.  Raises OSError.
    """
    files = sum(rights for needed, rights in _RIGHTS.items() if abi >= needed)
    ruleset = _Ruleset(
        files, _NET_TCP if abi >= 4 else 0, _SCOPE_SOCKETS_AND_SIGNALS if abi >= 6 else 0
    )
    size = ctypes.c_size_t(24 if abi >= 6 else 16 if abi >= 4 else 8)
    fd = syscalls.syscall(
        _CREATE_RULESET, ctypes.byref(ruleset), size, 0, what="landlock_create_ruleset"
    )
    try:
        for path, rights in rules:
            _allow(fd, path, rights & files)
        flags = _LOG_SAME_EXEC_OFF if abi >= 7 else 0
        syscalls.syscall(_RESTRICT_SELF, fd, flags, what="landlock_restrict_self")
    finally:
        os.close(fd)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= _OF_FILES
        rule = _PathBeneath(rights, parent)
        syscalls.syscall(
            _ADD_RULE,
            ruleset,
            _RULE_PATH_BENEATH,
            ctypes.byref(rule),
            0,
            what=f"Landlock rule for {path}",
        )
    finally:
        os.close(parent)
