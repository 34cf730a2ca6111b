"""Imitates hosts that allow less than this one, and runs a command there.

    python -m tests.hosts docker COMMAND…      a default Docker container: its capabilities, its
                                               system-call filter
    python -m tests.hosts nobody COMMAND…      an unprivileged user
    python -m tests.hosts rootless COMMAND…    both: an unprivileged user in a default
                                               Docker container
    python -m tests.hosts old COMMAND…         a default Docker container on a kernel
                                               without Landlock

Needs root.  Imitated of Docker are the facts that matter to a sandbox: no namespaces, no mounts, no
SYS_ADMIN (its default seccomp profile and capabilities as of version 28).  Not imitated: AppArmor,
masked files in /proc and /sys.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import tempfile
from pathlib import Path

from workers.sandbox import syscalls

CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
"""CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW
SYS_CHROOT MKNOD AUDIT_WRITE SETFCAP.
"""

REFUSED = {
    "x86_64": (
        272,
        308,
        165,
        166,
        155,
        248,
        249,
        250,
        298,
        321,
        323,
        425,
        426,
        427,
        428,
        429,
        430,
        431,
        432,
        304,
    ),
    "aarch64": (
        97,
        268,
        40,
        39,
        41,
        217,
        218,
        219,
        241,
        280,
        282,
        425,
        426,
        427,
        428,
        429,
        430,
        431,
        432,
        265,
    ),
}
"""unshare setns mount umount2 pivot_root add_key request_key keyctl perf_event_open bpf userfaultfd
io_uring_* open_tree move_mount fsopen fsconfig fsmount open_by_handle_at.
"""

_LOAD, _JUMP, _TEST, _GIVE = 0x20, 0x15, 0x45, 0x06
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3, _LANDLOCK_CREATE_RULESET = 435, 444
_CLONE_NEW = 0x7E020000
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_PR_SET_SECCOMP, _MODE_FILTER, _PR_CAPBSET_DROP, _LAST_CAPABILITY = 22, 2, 24, 40
_NOBODY = 65534


def _show_python() -> None:
    """Make this interpreter readable for others where it lies below a user's home,
    as in an image.
    """
    prefix = Path(sys.base_prefix).resolve()
    closed = [folder for folder in prefix.parents if folder.stat().st_mode & 0o005 != 0o005]
    if not closed:
        return
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    with tempfile.TemporaryDirectory() as aside:
        syscalls.bind(prefix, aside)
        syscalls.mount("none", closed[-1], "tmpfs", 0, "mode=0755")
        prefix.mkdir(parents=True)
        syscalls.bind(aside, prefix)
        syscalls.unmount(aside)


def enter_docker() -> None:
    """Lose the rights that a container lacks; takes full effect with the next exec."""
    for capability in set(range(_LAST_CAPABILITY + 1)) - CAPABILITIES:
        syscalls.prctl(_PR_CAPBSET_DROP, capability)
    machine = os.uname().machine
    code = _refusals(dict.fromkeys(REFUSED[machine], _EPERM) | {_CLONE3: _ENOSYS})
    code += [
        (_JUMP, 0, 3, _CLONE[machine]),
        (_LOAD, 0, 0, 16),
        (_TEST, 0, 1, _CLONE_NEW),
        (_GIVE, 0, 0, _EPERM),
    ]
    _filter(code)


def enter_old_kernel() -> None:
    """Lose Landlock."""
    _filter(_refusals({_LANDLOCK_CREATE_RULESET: _ENOSYS}))


def _refusals(answers: dict[int, int]) -> list[tuple[int, int, int, int]]:
    refused = [((_JUMP, 0, 1, number), (_GIVE, 0, 0, answer)) for number, answer in answers.items()]
    return [(_LOAD, 0, 0, 0), *(step for pair in refused for step in pair)]


def _filter(code: list[tuple[int, int, int, int]]) -> None:
    """Take the answers of this program for system calls, and allow the rest."""
    steps = [*code, (_GIVE, 0, 0, _ALLOW)]
    buffer = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


def enter_nobody() -> None:
    """Become an unprivileged user."""
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


HOSTS = {
    "docker": (enter_docker,),
    "nobody": (enter_nobody,),
    "rootless": (enter_docker, enter_nobody),
    "old": (enter_old_kernel, enter_docker),
}

if __name__ == "__main__":
    _show_python()
    for enter in HOSTS[sys.argv[1]]:
        enter()
    os.execvp(sys.argv[2], sys.argv[2:])
