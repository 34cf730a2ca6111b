"""A system-call filter for untrusted processes: classic BPF, assembled here
(seccomp(2), seccomp_data in seccomp.h).

Nearly every refused call fails with an error and does not kill the process: honest libraries try to
use a profiler, an io_uring or a network interface and continue without, and a killed process would
look like a crash.  Only calls through another architecture's entry kill: honest code
never makes them, and their numbers mean other calls.

The calls that CUDA, torch and Triton are known to need stay open: ioctl, mmap and mlock on
/dev/nvidia*, memfd_create, eventfd, poll, sched_*, mbind and set_mempolicy, threads by clone,
AF_UNIX sockets (the driver listens on an abstract one, to pass descriptors), vfork and execve for
compilers.  CUDA does without all calls that Docker's default profile refuses.

This does not guard against vulnerabilities in the calls that stay open, above all in the ioctls of
the NVIDIA driver.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from workers.sandbox import syscalls

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
"""Set in the numbers of x32, which come under x86_64's architecture (seccomp(2), "caveats")."""

LAST_KNOWN = 462
"""mseal, of Linux 6.10.  Calls with higher numbers are newer than this list: they do
not exist here.
"""

_OTHERS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
}  # fmt: skip
"""Calls that access another process."""

_NAMESPACES = {
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457), "listmount": (458, 458),
}  # fmt: skip
"""Calls that make namespaces and mounts, in which a process is root and reaches kernel code that
was never meant for unprivileged users.
"""

_SURFACE = {
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "memfd_secret": (447, 447),
    "modify_ldt": (154, None),
    "uselib": (134, None), "lsm_set_self_attr": (460, 460),
}  # fmt: skip
"""Calls into parts of the kernel with frequent vulnerabilities that no candidate needs; some of
them (perf_event_open, userfaultfd) also observe or stop other processes.
"""

_CHANNELS = {
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}  # fmt: skip
"""Calls that create objects which outlive a process (keyrings, System V and POSIX IPC): a later
candidate could find data there.
"""

_MACHINE = {
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116), "acct": (163, 89), "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None), "ioperm": (173, None), "vhangup": (153, 58),
}  # fmt: skip
"""Calls that affect the whole machine, including its clocks."""

_SIGNALS = {"timer_create": (222, 107), "mq_notify": (244, 184)}
"""Calls that make the kernel send a signal of the caller's choice later: with SIGCONT, a process
that is stopped while its inputs are written would continue and see them before the clock starts.
setitimer, alarm and timerfd stay open: they send SIGALRM, SIGVTALRM, SIGPROF or nothing, none of
which continues a stopped process.
"""

BOUND = {"sched_setaffinity": (203, 122)}
"""Calls that are refused to a process bound to a core: both sides are measured on that core, and a
candidate that leaves it would have all cores of the host.
"""

DENIED = {**_OTHERS, **_NAMESPACES, **_SURFACE, **_CHANNELS, **_MACHINE, **_SIGNALS}
"""Calls that are refused with any arguments: name → number on x86_64 and on aarch64 (None: it has
no such call).
"""

FILTERED = {
    "clone": (56, 220), "clone3": (435, 435), "socket": (41, 198), "socketpair": (53, 199),
    "connect": (42, 203),
    "sendto": (44, 206), "prctl": (157, 167), "ioctl": (16, 29), "prlimit64": (302, 261),
    "personality": (135, 92),
    "fcntl": (72, 25),
}  # fmt: skip
"""Calls that are refused with some arguments (`_argument_rules`); same form."""

_CLONE_NEW = 0x7E020000
"""Every CLONE_NEW* that clone(2) takes; CLONE_NEWTIME only exists in unshare and clone3."""
_CLONE_PARENT = 0x00008000
"""Flag of clone for a sibling of the caller, which `freeze` would not find among its descendants.
"""
_CLONE_SIGNAL = 0xFF
"""Mask, in clone's flags, of the signal that the parent gets when the child ends.  0
(threads) and SIGCHLD are usual; with SIGCONT, a child that is about to end when all are
stopped would wake its parent.
"""
_SIGCHLD = 17
_F_SETSIG = 10
"""Command of fcntl that selects the signal for a descriptor that is ready, a broken lease or a
changed folder (O_ASYNC, FIOASYNC, F_SETLEASE, F_NOTIFY).  With SIGCONT, the referee's own request
could continue the process.  Without this command the signal is SIGIO.
"""

_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 1, 5, 0xF
_PRCTL_DENIED = (
    1,  # PR_SET_PDEATHSIG: candidates must be killed when the warden ends
    35,  # PR_SET_MM
    36,  # PR_SET_CHILD_SUBREAPER: orphans must stay among the candidate's descendants
    62,  # PR_SCHED_CORE: would keep others off the core's other hardware thread
)
_IOCTL_DENIED = (0x5412, 0x541C, 0x540E)
"""TIOCSTI and TIOCLINUX: typing into another user's terminal.  TIOCSCTTY: a process with a terminal
gets SIGCONT when it hangs up.
"""
_PERSONALITY_QUERY = 0xFFFFFFFF

_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_LD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NR, _ARCH, _ARGS = 0, 4, 16

_SET_MODE_FILTER = 1
_FLAG_SPEC_ALLOW = 4
"""Without it, kernels before 5.16 switch off speculative store bypass in every
filtered process, and measure slower.
"""
_SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}

Instruction = tuple[int, int, int, int]
"""Operation, jump if true, jump if false (both relative to the next), constant."""


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def program(machine: str, *, bound: bool = False) -> bytes:
    """The filter for `machine` (as in uname), default allow; `bound`: refuse to change cores.
    Raises OSError for a machine that has no table here.
    """
    if machine not in _AUDIT_ARCH:
        raise OSError(
            errno.ENOSYS,
            f"no table of system calls for {machine}, only for {', '.join(_AUDIT_ARCH)}",
        )
    column = list(_AUDIT_ARCH).index(machine)
    code: list[Instruction] = [
        (_LD, 0, 0, _ARCH), (_JEQ, 1, 0, _AUDIT_ARCH[machine]), (_RET, 0, 0, _KILL_PROCESS),
        (_LD, 0, 0, _NR),
    ]  # fmt: skip
    if machine == "x86_64":
        code += [(_JGE, 0, 1, _X32_BIT), (_RET, 0, 0, _KILL_PROCESS)]
    code += [(_JGE, 0, 1, LAST_KNOWN + 1), _refuse(errno.ENOSYS)]
    for numbers in (DENIED | (BOUND if bound else {})).values():
        if (denied := numbers[column]) is not None:
            code += [(_JEQ, 0, 1, denied), _refuse(errno.EPERM)]
    for name, body in _argument_rules().items():
        code += [(_JEQ, 0, len(body), FILTERED[name][column]), *body]
    code.append((_RET, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def number(name: str, machine: str) -> int:
    """Number of a system call that this module names.  Raises KeyError for any other, OSError
    if `machine` has no such call.
    """
    found = (DENIED | BOUND | FILTERED)[name][list(_AUDIT_ARCH).index(machine)]
    if found is None:
        raise OSError(errno.ENOSYS, f"{machine} has no {name}")
    return found


def _refuse(error: int) -> Instruction:
    return (_RET, 0, 0, _ERRNO | error)


def _argument(index: int, *, high: bool = False) -> Instruction:
    """Load half of an argument.  Of an int the kernel reads the low half only."""
    return (_LD, 0, 0, _ARGS + 8 * index + 4 * high)


def _argument_rules() -> dict[str, list[Instruction]]:
    """Instructions for each call of FILTERED; every path ends in a return."""
    allow = (_RET, 0, 0, _ALLOW)
    forbid = _refuse(errno.EPERM)
    stream = [
        _argument(0), (_JEQ, 0, 4, _AF_UNIX), _argument(1), (_AND, 0, 0, _SOCK_TYPE_MASK),
        (_JEQ, 2, 0, _SOCK_STREAM), (_JEQ, 1, 0, _SOCK_SEQPACKET), forbid, allow,
    ]  # fmt: skip
    return {
        "clone": [
            _argument(0), (_JSET, 0, 1, _CLONE_NEW | _CLONE_PARENT), forbid,
            (_AND, 0, 0, _CLONE_SIGNAL), (_JEQ, 2, 0, 0), (_JEQ, 1, 0, _SIGCHLD), forbid, allow,
        ],
        # clone3 has its flags in memory, which no filter can read; glibc falls back to clone.
        "clone3": [_refuse(errno.ENOSYS)],
        # The receiver of a datagram is in memory as well.  Candidates need neither
        # datagrams nor connections.
        "socket": stream,
        "socketpair": stream,
        "connect": [_refuse(errno.ECONNREFUSED)],
        "sendto": [_argument(4), (_JEQ, 0, 2, 0), _argument(4, high=True), (_JEQ, 1, 0, 0), forbid,
        allow],
        "prctl": [_argument(0), *_none_of(_PRCTL_DENIED), allow],
        "ioctl": [_argument(1), *_none_of(_IOCTL_DENIED), allow],
        "prlimit64": [_argument(0), (_JEQ, 1, 0, 0), forbid, allow],
        "personality": [_argument(0), (_JEQ, 2, 0, 0), (_JEQ, 1, 0, _PERSONALITY_QUERY), forbid,
        allow],
        "fcntl": [_argument(1), *_none_of((_F_SETSIG,)), allow],
    }  # fmt: skip


def _none_of(values: tuple[int, ...]) -> list[Instruction]:
    return [step for value in values for step in ((_JEQ, 0, 1, value), _refuse(errno.EPERM))]


def install(code: bytes) -> None:
    """Filter this thread and all that it starts, for good.  Needs no_new_privs.  Raises OSError."""
    length = len(code) // struct.calcsize("<HBBI")
    filtered = _Program(length, code)
    syscalls.syscall(
        _SYS_SECCOMP[os.uname().machine],
        _SET_MODE_FILTER,
        _FLAG_SPEC_ALLOW,
        ctypes.byref(filtered),
        what="seccomp",
    )
