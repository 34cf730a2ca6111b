"""Forbidden acts, attempted by a confined process: the inner half of the self-test
(selftest.py is the outer).

Every act runs in a fork of its own, so that the next one still runs if one hangs or is killed.  An
act that returns has succeeded; one that raises OSError was refused.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workers.sandbox import seccomp, syscalls

OUTCOME = struct.Struct("<Ii")
"""Index of the act; 0: it succeeded, above: refused with this errno, below: ended by this signal.

UNSEEN and UNFINISHED are no errno."""

UNSEEN = 250
"""The act was not refused, and did not reach its target."""
UNFINISHED = 251
"""The act did not end in time, which proves nothing."""

LIMIT = 4711
"""Limit set by `limit a process`, chosen to be recognisable."""

ACT_TIMEOUT_S = 20.0
"""Seconds for one act; one that takes longer proves nothing."""
MESSAGE_BYTES = 4096
"""Longest message with the targets of the acts."""

_TIMER_SETTIME = {"x86_64": 223, "aarch64": 110}
"""System-call numbers of timer_settime, which is not refused and is useless without a timer."""


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Objects prepared by the outer half, which must stay out of reach."""

    token: str
    """Unique text: the content of every canary."""
    file: str
    """A world-readable file."""
    folder: str
    """A world-writable folder."""
    outer_pid: int
    """Pid of the outer half itself."""
    address: int
    """Address of the token in its memory."""
    descriptor: int
    """Descriptor of the file, open there."""
    worker_pids: list[int]
    """Processes of the worker's uid with the token in their environment: one each to
    trace, kill and limit.
    """
    neighbour_pids: list[int]
    """Other confined processes: one each to trace and kill."""
    tcp_port: int
    udp_port: int
    abstract: str
    """Name of an abstract socket that listens."""
    socket: str
    """Path of a socket that listens."""
    memory_bytes: int
    """More than may be allocated."""
    processes: int
    """More than may be started."""


def serve(channel: socket.socket, scratch: Path) -> None:  # noqa: ARG001 (as every role)
    """Attempt every act against the targets in the one request; one message an act."""
    targets = Targets(**json.loads(channel.recv(MESSAGE_BYTES)))
    for index, act in enumerate(ACTS.values()):
        channel.send(OUTCOME.pack(index, _attempt(act, targets)))
    channel.recv(1)  # until the outer half closes it


def _attempt(act: Callable[[Targets], None], targets: Targets) -> int:
    """See OUTCOME."""
    pid = os.fork()
    if pid == 0:
        try:
            act(targets)
        except OSError as error:
            os._exit(error.errno or UNSEEN)
        except (ValueError, MemoryError):  # Python raises these for some refusals
            os._exit(UNSEEN)
        os._exit(0)
    deadline = time.monotonic() + ACT_TIMEOUT_S
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return UNFINISHED
        time.sleep(0.0005)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _call(name: str, *arguments: object) -> int:
    return syscalls.syscall(seccomp.number(name, os.uname().machine), *arguments, what=name)


def _unseen(what: str) -> OSError:
    return OSError(UNSEEN, what)


def _read(path: str, expected: str) -> None:
    with Path(path).open("rb") as file:
        if expected.encode() not in file.read(1 << 20):
            raise _unseen(path)


def _read_file(targets: Targets) -> None:
    _read(targets.file, targets.token)


def _read_environment(targets: Targets) -> None:
    _read(f"/proc/{targets.worker_pids[0]}/environ", targets.token)


def _read_command_line(targets: Targets) -> None:
    _read(f"/proc/{targets.worker_pids[0]}/cmdline", targets.token)


def _open_memory(targets: Targets) -> None:
    with Path(f"/proc/{targets.outer_pid}/mem").open("rb") as memory:
        memory.seek(targets.address)
        if memory.read(len(targets.token)) != targets.token.encode():
            raise _unseen("other memory")


def _copy_memory(targets: Targets) -> None:
    length = len(targets.token)
    buffer = ctypes.create_string_buffer(length)
    ours, theirs = _Span(ctypes.addressof(buffer), length), _Span(targets.address, length)
    _call("process_vm_readv", targets.outer_pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    if buffer.raw != targets.token.encode():
        raise _unseen("other memory")


class _Span(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _trace(pid: int) -> None:
    """Trace a process that then dies with this one: the outer half can see that."""
    seize, exit_kill = 0x4206, 0x100000
    _call("ptrace", seize, pid, 0, exit_kill)


def _trace_worker(targets: Targets) -> None:
    _trace(targets.worker_pids[0])


def _trace_neighbour(targets: Targets) -> None:
    _trace(targets.neighbour_pids[0])


def _take_descriptor(targets: Targets) -> None:
    process = os.pidfd_open(targets.outer_pid)
    taken = _call("pidfd_getfd", process, targets.descriptor, 0)
    if os.pread(taken, len(targets.token), 0) != targets.token.encode():
        raise _unseen("another file")


def _kill_worker(targets: Targets) -> None:
    os.kill(targets.worker_pids[1], signal.SIGKILL)


def _kill_neighbour(targets: Targets) -> None:
    os.kill(targets.neighbour_pids[1], signal.SIGKILL)


def _limit_worker(targets: Targets) -> None:
    resource.prlimit(targets.worker_pids[2], resource.RLIMIT_CORE, (LIMIT, LIMIT))


def _connect(family: int, address: tuple[str, int] | str) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(1.0)
        stream.connect(address)


def _connect_tcp(targets: Targets) -> None:
    _connect(socket.AF_INET, ("127.0.0.1", targets.tcp_port))


def _send_udp(targets: Targets) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(targets.token.encode(), ("127.0.0.1", targets.udp_port))


def _connect_abstract(targets: Targets) -> None:
    _connect(socket.AF_UNIX, "\0" + targets.abstract)


def _connect_socket(targets: Targets) -> None:
    _connect(socket.AF_UNIX, targets.socket)


def _open_netlink(targets: Targets) -> None:  # noqa: ARG001
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()


def _write_outside(targets: Targets) -> None:
    """Write into a folder that other users could read.  Raises the last refusal if all refused."""
    refusal = _unseen("no such place")
    for folder in (
        targets.folder,
        "/",
        "/etc",
        "/usr",
        "/var/tmp",
        "/run",
        str(Path(__file__).parent),
    ):
        try:
            (Path(folder) / targets.token).touch()
        except OSError as error:
            refusal = error if error.errno != errno.ENOENT else refusal
            continue
        return
    raise refusal


def _write_shared_memory(targets: Targets) -> None:
    Path("/dev/shm", targets.token).write_text(targets.token)


def _leave_shared_memory(targets: Targets) -> None:  # noqa: ARG001
    create = 0o1666
    segment = _call("shmget", 0x41535359, 4096, create)
    _call("shmctl", segment, 0, ctypes.c_void_p(None))


def _leave_key(targets: Targets) -> None:
    user_keyring, revoke = -4, 3
    token = targets.token.encode()
    key = _call("add_key", b"user", token, token, ctypes.c_size_t(len(token)), user_keyring)
    _call("keyctl", revoke, key)


def _watch_keyring(targets: Targets) -> None:  # noqa: ARG001
    get_id, session_keyring = 0, -3
    _call("keyctl", get_id, session_keyring, 1)


def _open_perf(targets: Targets) -> None:  # noqa: ARG001
    kind_software, size, exclude_kernel_and_hypervisor = 1, 64, 0x60
    attributes = struct.pack("<II32xQ16x", kind_software, size, exclude_kernel_and_hypervisor)
    _call("perf_event_open", attributes, 0, -1, -1, 0)


def _set_up_io_uring(targets: Targets) -> None:  # noqa: ARG001
    _call("io_uring_setup", 1, ctypes.create_string_buffer(120))


def _open_userfaultfd(targets: Targets) -> None:  # noqa: ARG001
    user_mode_only = 1
    _call("userfaultfd", user_mode_only)


def _load_bpf(targets: Targets) -> None:  # noqa: ARG001
    map_create, array = 0, 2
    _call("bpf", map_create, struct.pack("<IIII112x", array, 4, 8, 1), 128)


def _enter_namespace(targets: Targets) -> None:  # noqa: ARG001
    syscalls.unshare(syscalls.CLONE_NEWUSER)


def _mount(targets: Targets) -> None:  # noqa: ARG001
    syscalls.mount("none", "/tmp", "tmpfs", 0)


def _hold_capability(targets: Targets) -> None:  # noqa: ARG001
    if not syscalls.effective_capabilities():
        raise _unseen("none")


def _go_first(targets: Targets) -> None:  # noqa: ARG001
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _outlive(targets: Targets) -> None:  # noqa: ARG001
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, 0)


def _continue_by_timer(targets: Targets) -> None:  # noqa: ARG001
    """Stop, and be woken by a timer: the process would run while the referee takes
    it for frozen.
    """
    signal.signal(signal.SIGCONT, lambda *_: None)
    monotonic, by_signal, every_ns = 1, 0, 1_000_000
    event = struct.pack("<Qii48x", 0, signal.SIGCONT, by_signal)  # struct sigevent
    timer = ctypes.c_int()
    _call("timer_create", monotonic, event, ctypes.byref(timer))
    set_time = _TIMER_SETTIME[os.uname().machine]
    syscalls.syscall(
        set_time, timer, 0, struct.pack("<4q", 0, every_ns, 0, every_ns), None, what="timer_settime"
    )
    os.kill(os.getpid(), signal.SIGSTOP)


def _continue_by_descriptor(targets: Targets) -> None:  # noqa: ARG001
    """Have SIGCONT sent where a pipe becomes ready."""
    reading, writing = os.pipe()
    try:
        fcntl.fcntl(reading, fcntl.F_SETSIG, signal.SIGCONT)
    finally:
        os.close(reading)
        os.close(writing)


def _continue_by_child(targets: Targets) -> None:  # noqa: ARG001
    """Start a child that sends SIGCONT at its end."""
    if _call("clone", signal.SIGCONT, 0, 0, 0, 0) == 0:
        os._exit(0)


def _find_descriptor(targets: Targets) -> None:  # noqa: ARG001
    channel = 3
    for descriptor in range(channel + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            return
    raise _unseen("none")


def _start_many(targets: Targets) -> None:
    held, release = os.pipe()
    for _ in range(targets.processes):
        if os.fork() == 0:
            os.close(release)
            os.read(held, 1)  # until the parent is gone
            os._exit(0)


def _allocate_much(targets: Targets) -> None:
    mmap.mmap(-1, targets.memory_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()


ACTS: dict[str, Callable[[Targets], None]] = {
    "read a file of the worker's": _read_file,
    "read the worker's environment": _read_environment,
    "read the worker's command line": _read_command_line,
    "open the worker's memory": _open_memory,
    "copy the worker's memory (process_vm_readv)": _copy_memory,
    "trace the worker (ptrace)": _trace_worker,
    "trace another candidate (ptrace)": _trace_neighbour,
    "take a descriptor of the worker's (pidfd_getfd)": _take_descriptor,
    "find a descriptor that was left open": _find_descriptor,
    "kill a process of the worker's": _kill_worker,
    "kill another candidate": _kill_neighbour,
    "limit a process of the worker's (prlimit)": _limit_worker,
    "connect over TCP": _connect_tcp,
    "send over UDP": _send_udp,
    "connect to an abstract socket": _connect_abstract,
    "connect to a socket in the file system": _connect_socket,
    "open a netlink socket": _open_netlink,
    "write outside the scratch folder": _write_outside,
    "write to shared memory of the host's": _write_shared_memory,
    "leave a System V segment": _leave_shared_memory,
    "leave a key": _leave_key,
    "use a keyring": _watch_keyring,
    "watch events (perf_event_open)": _open_perf,
    "set up io_uring": _set_up_io_uring,
    "handle page faults (userfaultfd)": _open_userfaultfd,
    "load BPF": _load_bpf,
    "enter a new user namespace": _enter_namespace,
    "mount": _mount,
    "hold a capability": _hold_capability,
    "run before everybody else (SCHED_FIFO)": _go_first,
    "outlive the worker (prctl)": _outlive,
    "go on while it is stopped (timer_create)": _continue_by_timer,
    "go on while it is stopped (fcntl, F_SETSIG)": _continue_by_descriptor,
    "go on when a child ends (clone)": _continue_by_child,
    "allocate more than allowed": _allocate_much,
    "start more processes than allowed": _start_many,
}
"""Acts by name, as reports show it.  The last one leaves so many dead that nothing
more can be started.
"""
