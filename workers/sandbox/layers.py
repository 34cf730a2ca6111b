"""The layers around untrusted code, each used if the host allows it and reported if it does not.

`confine_zygote` runs once in the zygote: a private root with Python, its packages and nothing else,
and no network. `confine_candidate` runs in every fork: own scratch folder and uid, limits, no new
privileges, Landlock, system-call filter.

Most attacks are stopped by two layers, because hosts differ: a Docker container refuses namespaces
and mounts, so the uid, Landlock and the system-call filter stand alone there; an unprivileged user
has no second uid, so the namespaces and Landlock do.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from workers.sandbox import landlock, private_root, seccomp, syscalls

FIRST_UID = 210_000
"""First uid of candidates, one for each process in flight; no account has a uid this high."""

SCRATCH_BYTES = 512 << 20
"""Size of the scratch folder (/tmp) and of /dev/shm, each."""

SCRATCH_INODES = 32_768
"""Files and folders in each of them.  A file costs the kernel a kilobyte that no size limit counts;
torch's compiler and Triton leave some hundreds of files.
"""

MAX_PROCESSES = 128
"""Processes and threads of one candidate.  CUDA and a compiler need some twenty."""

_PROC = tuple(
    f"/proc/{name}"
    for name in ("cpuinfo", "meminfo", "stat", "devices", "filesystems", "driver/nvidia")
)
"""Visible files of the host's /proc, without a private one: CUDA reads its driver's
parameters, libraries count processors.
"""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Resource limits of one process."""

    memory_bytes: int
    """Address space; 0 for unlimited (CUDA reserves far more than it uses)."""
    data_bytes: int
    """Private writable memory, which is the memory in use even with CUDA."""
    cpu_s: int
    file_bytes: int = 256 << 20
    open_files: int = 1024
    processes: int = MAX_PROCESSES
    """Processes and threads of the process's uid."""
    cpus: tuple[int, ...] = ()
    """Cores to run on; empty for no change."""


@dataclass(kw_only=True)
class Layers:
    """Layers in force, and those that this host does not allow."""

    active: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def attempt(self, name: str, step: object, *arguments: object) -> bool:
        """Run `step(*arguments)`; record the layer as active or, if the host refuses
        it, as missing.
        """
        try:
            step(*arguments)  # type: ignore[operator]
        except OSError as error:
            self.missing.append(f"{name} ({error.strerror or error})")
            return False
        self.active.append(name)
        return True


class WeakSandboxError(RuntimeError):
    """The host allows too little to run untrusted code."""


def confine_zygote(layers: Layers) -> None:
    """Give this process and all its children private mounts, network, IPC and host name.

    Root makes the namespaces directly; other users make them within a user namespace.  Raises
    WeakSandboxError if a root process can neither hide its files nor show them to another uid.
    """
    if os.geteuid() != 0:
        layers.attempt("user namespace", _enter_user_namespace)
    layers.attempt("network namespace", syscalls.unshare, syscalls.CLONE_NEWNET)
    layers.attempt("ipc namespace", syscalls.unshare, syscalls.CLONE_NEWIPC)
    layers.attempt("uts namespace", syscalls.unshare, syscalls.CLONE_NEWUTS)
    if layers.attempt("mount namespace", syscalls.unshare, syscalls.CLONE_NEWNS):
        layers.attempt("private root", private_root.enter)
    if (
        os.geteuid() == 0
        and "private root" not in layers.active
        and not _readable_by_others(Path(sys.prefix))
    ):
        raise WeakSandboxError(
            f"{sys.prefix} cannot be read by other users and this host allows no mount namespace: "
            "install Assay in a folder that every user may read, or allow CAP_SYS_ADMIN"
        )


def _enter_user_namespace() -> None:
    uid, gid = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def _readable_by_others(folder: Path) -> bool:
    """Test whether any uid can enter and read `folder`."""
    return all(part.stat().st_mode & 0o005 == 0o005 for part in [folder, *folder.parents])


def enter_process_namespace(layers: Layers) -> None:
    """Make the warden's next child the first process of a new namespace, so that
    killing it kills all its descendants.
    """
    layers.attempt("process namespace", syscalls.unshare, syscalls.CLONE_NEWPID)


def make_scratch(layers: Layers) -> Path:
    """Make, in the warden, the only folder that its candidate may write; it will be
    its current folder.
    """
    if "private root" in layers.active:
        return Path("/tmp")  # mounted anew by the candidate, and gone with it
    layers.missing.append("bounded scratch folder (no mounts)")
    return Path(tempfile.mkdtemp(prefix="assay-scratch-"))


def remove_scratch(layers: Layers, scratch: Path) -> None:
    """Remove the scratch folder, in the warden, after the candidate's end.  Files that
    cannot be removed stay, unreadable.
    """
    if "private root" not in layers.active:
        shutil.rmtree(scratch, ignore_errors=True)


def confine_candidate(layers: Layers, limits: Limits, uid: int, scratch: Path) -> None:
    """Confine the candidate's process before any of its code runs: scratch folder, limits,
    uid, no new privileges, filters.

    Raises OSError if a mandatory layer fails: nothing runs then.
    """
    if "private root" in layers.active:
        _mount_scratch(layers)
    os.setsid()
    # Raised priority is optional: it may be forbidden, and without CAP_SYS_ADMIN
    # changed ten times a second at most.
    with contextlib.suppress(PermissionError, BlockingIOError):
        syscalls.nice_session(os.getpriority(os.PRIO_PROCESS, 0))
    others = _drop_privileges(layers, uid, scratch)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)  # after setresuid, which clears it
    syscalls.prctl(
        syscalls.PR_SET_CHILD_SUBREAPER, 1
    )  # orphans stay below it, where `freeze` finds them
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    layers.active.append("no new privileges")
    _limit(replace(limits, processes=limits.processes + others))
    layers.active.append("resource limits")
    os.chdir(scratch)
    _restrict_files(layers, scratch)
    bound = bool(limits.cpus)
    layers.attempt(
        "system-call filter", _filter_calls, bound
    )  # last: it forbids calls that the layers above need


def _mount_scratch(layers: Layers) -> None:
    """Mount /tmp, /dev/shm and, in a process namespace, /proc of its own."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    options = f"mode=0700,size={SCRATCH_BYTES},nr_inodes={SCRATCH_INODES}"
    below = [
        folder for folder in private_root.program_folders() if Path(folder).is_relative_to("/tmp")
    ]
    for (
        folder
    ) in below:  # a checkout in /tmp: its folders are stacked on /dev/shm and moved back afterwards
        syscalls.bind(folder, "/dev/shm")
    syscalls.mount("assay-tmp", "/tmp", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, options)
    for folder in reversed(below):
        Path(folder).mkdir(mode=0o755, parents=True)
        syscalls.mount("/dev/shm", folder, None, syscalls.MS_MOVE)
    syscalls.mount(
        "assay-shm",
        "/dev/shm",
        "tmpfs",
        syscalls.MS_NOSUID | syscalls.MS_NODEV,
        options.replace("0700", "1777"),
    )
    layers.active.append("own mounts")
    if "process namespace" in layers.active:
        layers.attempt(
            "own /proc",
            syscalls.mount,
            "proc",
            "/proc",
            "proc",
            syscalls.MS_NOSUID | syscalls.MS_NODEV,
        )


def _drop_privileges(layers: Layers, uid: int, scratch: Path) -> int:
    """Become `uid` if allowed (0: no uid is available), in any case a process without capabilities.

    Returns the number of processes and threads that the uid has already."""
    if os.geteuid() == 0 and "user namespace" not in layers.active and uid != 0:
        os.chown(scratch, uid, uid)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        layers.active.append("own uid")
        return 0
    layers.missing.append("own uid (not started as root, or with no uid to spare)")
    if os.geteuid() == 0:  # in a user namespace, which counts its processes separately
        syscalls.drop_capabilities()
        layers.active.append("no capabilities")
        return 0
    return _threads_of(os.getuid())


def _threads_of(uid: int) -> int:
    """Number of threads of all visible processes of the uid."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if process.stat().st_uid == uid:
                count += sum(1 for _ in (process / "task").iterdir())
    return count


def _restrict_files(layers: Layers, scratch: Path) -> None:
    """Apply Landlock, as far as this kernel supports it."""
    try:
        abi = landlock.probe()
        landlock.restrict(abi, [*_visible(layers), (scratch, landlock.EVERYTHING)])
    except OSError as error:
        layers.missing.append(f"Landlock ({error.strerror or error})")
        return
    name, lacking = landlock.describe(abi)
    layers.active.append(name)
    layers.missing.extend(lacking)


def _visible(layers: Layers) -> list[tuple[Path, int]]:
    """Readable paths and devices.  A private root contains only these; without one
    they are listed for Landlock.
    """
    devices = [(node, landlock.DEVICE) for node in private_root.device_nodes()]
    if "private root" in layers.active:
        own_proc = landlock.WRITE if "own /proc" in layers.active else landlock.READ
        private = [(Path("/dev/shm"), landlock.EVERYTHING), (Path("/proc"), own_proc)]
        return [(Path("/"), landlock.READ), *private, *devices]
    shown = [*private_root.SYSTEM, *private_root.program_folders(), *_PROC, "/proc/self"]
    return [*((Path(path), landlock.READ) for path in shown), *devices]


def _filter_calls(bound: bool) -> None:
    seccomp.install(seccomp.program(os.uname().machine, bound=bound))


def _limit(limits: Limits) -> None:
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_DATA, limits.data_bytes),
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_AS, limits.memory_bytes or resource.RLIM_INFINITY),
    ):
        resource.setrlimit(kind, (value, value))
    if limits.cpus:
        os.sched_setaffinity(0, limits.cpus)
