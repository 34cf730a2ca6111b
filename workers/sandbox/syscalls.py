"""The few Linux calls that Python 3.11 does not wrap.  Every function raises OSError
with the attempted act.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_MOVE = 0x2000
MS_NODEV = 0x4
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_CAPGET = {"x86_64": 125, "aarch64": 90}
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def syscall(number: int, *arguments: Any, what: str) -> int:
    """syscall(2); integers are passed as longs.  Raises OSError that names the action."""
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *passed)
    if result < 0:
        _check(result, what)
    return result


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags`; with CLONE_NEWPID the next child is the
    first process of a new one.
    """
    _check(_libc.unshare(flags), f"unshare(0x{flags:x})")


def mount(source: str, target: Path | str, kind: str | None, flags: int, data: str = "") -> None:
    """mount(2)."""
    result = _libc.mount(
        source.encode(),
        str(target).encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(result, f"mount {kind or 'bind'} {source} on {target}")


def bind(source: Path | str, target: Path | str, *, read_only: bool = True) -> None:
    """Show `source` at `target`, without set-uid programs, and by default without writing."""
    mount(str(source), target, None, MS_BIND | MS_REC)
    if read_only:
        make_read_only(target)


def make_read_only(target: Path | str) -> None:
    """Remount the file system at `target`, for reading, and without set-uid programs."""
    mount(
        "none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | _locked_flags(target)
    )


def _locked_flags(target: Path | str) -> int:
    """Mount flags that a user namespace may not clear when it remounts
    (mount_namespaces(7), "locked").
    """
    mounted = os.statvfs(target).f_flag
    return mounted & (
        os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME
    )


def unmount(target: Path | str) -> None:
    """Unmount `target` as soon as it is unused."""
    _check(_libc.umount2(str(target).encode(), MNT_DETACH), f"umount2 {target}")


def pivot_root(new_root: Path) -> None:
    """Make `new_root` the root of this mount namespace and unmount the old one."""
    os.chdir(new_root)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    syscall(number, b".", b".", what=f"pivot_root({new_root})")
    unmount(".")
    os.chdir("/")


def release_free_heap() -> None:
    """Give memory that malloc has free back to the kernel, with glibc; elsewhere do nothing.

    glibc keeps freed blocks of up to 32 MB below the last one in use (mallopt(3)).
    """
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(ctypes.c_size_t(0))


def prctl(option: int, value: int) -> None:
    """prctl(2) with one argument."""
    zero = ctypes.c_ulong(0)
    _check(
        _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl({option}, {value})"
    )


def nice_session(value: int) -> None:
    """Set the weight of this session against others.  Where the kernel groups tasks by session
    (autogroup, sched(7)), the priority and class of a process count only among those of its own
    session.
    """
    autogroup = Path("/proc/self/autogroup")
    if autogroup.exists():
        autogroup.write_text(str(value))


class _CapabilityHeader(ctypes.Structure):
    """struct __user_cap_header_struct."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop_capabilities() -> None:
    """Empty the permitted, effective and inheritable sets (needed where the uid
    stays 0 in a user namespace).
    """
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    syscall(
        _SYS_CAPSET[os.uname().machine], ctypes.byref(header), ctypes.byref(data), what="capset"
    )


def effective_capabilities() -> int:
    """Effective capabilities of this process, as a bit mask."""
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    data = (
        ctypes.c_uint32 * 6
    )()  # effective, permitted, inheritable: the low halves, then the high ones
    syscall(
        _SYS_CAPGET[os.uname().machine], ctypes.byref(header), ctypes.byref(data), what="capget"
    )
    return data[0] | data[3] << 32
