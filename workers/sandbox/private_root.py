"""The private root of a sandbox: the system's libraries and this Python, read-only,
and nothing else of the host.

Without a mount namespace the same folders and devices list the files that Landlock
lets a process read (layers.py).
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from workers.sandbox import syscalls

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/ld.so.cache",
    "/etc/alternatives",
)
"""Folders and files of the system that confined processes see."""

_DEVICES = ("null", "zero", "full", "random", "urandom", "nvidia*")
"""Visible devices of /dev, by pattern."""


def enter() -> None:
    """Enter a root of read-only binds of the system's libraries and of this Python,
    and empty folders.
    """
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    # Built on top of /sys, which exists everywhere and of which nothing is shown.  A Python
    # below a 0700 home is reachable for any uid afterwards, because this process owns the
    # folders above it in the new root.
    root = Path("/sys")
    syscalls.mount(
        "assay-root", root, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=0755,size=16m"
    )
    for source in [*SYSTEM, *program_folders()]:
        _show(Path(source), root)
    for name in ("proc", "dev", "dev/shm", "tmp"):
        (root / name).mkdir(mode=0o755, exist_ok=True)
    for node in device_nodes():
        (root / "dev" / node.name).touch()
        syscalls.bind(node, root / "dev" / node.name, read_only=False)
    for name in ("cpuinfo", "meminfo"):
        (root / "proc" / name).touch()
        syscalls.bind(f"/proc/{name}", root / "proc" / name, read_only=False)
    syscalls.pivot_root(root)
    # Where the uid stays that of its owner, a candidate could leave something here for the next.
    syscalls.mount(
        "none",
        "/",
        None,
        syscalls.MS_REMOUNT
        | syscalls.MS_BIND
        | syscalls.MS_RDONLY
        | syscalls.MS_NOSUID
        | syscalls.MS_NODEV,
    )


def device_nodes() -> list[Path]:
    """Character devices of the host's /dev that confined processes see."""
    found = (node for pattern in _DEVICES for node in Path("/dev").glob(pattern))
    return [node for node in found if node.is_char_device()]


@functools.cache
def program_folders() -> list[str]:
    """Folders that this interpreter imports from (prefixes, and site-packages outside of them), and
    those of CUDA's compiler and libraries as this process's environment names them.
    """
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    folders |= {entry for entry in sys.path if "site-packages" in entry or "dist-packages" in entry}
    folders |= {
        os.environ.get("CUDA_HOME", ""),
        *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep),
    } - {""}
    real = sorted(
        {str(Path(folder).resolve()) for folder in folders if Path(folder).is_dir()} - {"/"}
    )
    kept: list[str] = []
    for folder in real:
        if not any(Path(folder).is_relative_to(parent) for parent in [*kept, "/usr", "/lib"]):
            kept.append(folder)
    return kept


def _show(source: Path, root: Path) -> None:
    """Make `source` visible below `root` at its own path, read-only; links stay links."""
    if not source.exists():
        return
    target = root / source.relative_to("/")
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    if source.is_dir():
        target.mkdir(mode=0o755, exist_ok=True)
    else:
        target.touch()
    syscalls.bind(source, target)
