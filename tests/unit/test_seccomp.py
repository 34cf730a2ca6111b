"""The filter of system calls: its answer to each call, on each architecture."""

import errno
import re
import struct
from pathlib import Path

import pytest

from workers.sandbox import (
    seccomp,
)

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


I386 = 0x40000003


ALLOW, KILL = 0x7FFF0000, 0x80000000


HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+) (\d+)"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+) (\d+)"),
}


def refused(error: int) -> int:
    return 0x00050000 | error


def answer(
    machine: str, number: int, *arguments: int, architecture: int | None = None, bound: bool = False
) -> int:
    """The filter's answer to a call: an interpreter of its eight instructions."""
    data = struct.pack(
        "<IIQ6Q",
        number,
        architecture or ARCHITECTURES[machine],
        0,
        *(*arguments, 0, 0, 0, 0, 0, 0)[:6],
    )
    code = list(struct.iter_unpack("<HBBI", seccomp.program(machine, bound=bound)))
    accumulator = at = 0
    while True:
        operation, if_true, if_false, constant = code[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, constant)
            case 0x54:
                accumulator &= constant
            case 0x15:
                at += if_true if accumulator == constant else if_false
            case 0x35:
                at += if_true if accumulator >= constant else if_false
            case 0x45:
                at += if_true if accumulator & constant else if_false
            case 0x06:
                return int(constant)
            case _:
                raise AssertionError(hex(operation))


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_what_is_denied_is_denied_whatever_the_arguments(machine: str) -> None:
    column = list(ARCHITECTURES).index(machine)
    for name, numbers in seccomp.DENIED.items():
        number = numbers[column]
        if number is not None:
            assert answer(machine, number) == refused(errno.EPERM), name


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_a_process_bound_to_a_core_stays_there(machine: str) -> None:
    number = seccomp.number("sched_setaffinity", machine)
    assert answer(machine, number, 0, 128, 4096, bound=True) == refused(errno.EPERM)
    assert answer(machine, number, 0, 128, 4096) == ALLOW


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_numbers_are_those_of_the_kernel_s_headers(machine: str) -> None:
    path, form = HEADERS[machine]
    if not path.exists():
        pytest.skip(f"no {path}")
    known = {name: int(number) for name, number in re.findall(form, path.read_text())}
    column = list(ARCHITECTURES).index(machine)
    ours = {
        name: numbers[column]
        for name, numbers in (seccomp.DENIED | seccomp.BOUND | seccomp.FILTERED).items()
    }
    same = [name for name, number in ours.items() if name in known and known[name] == number]
    newer = [name for name in ours if name not in known and ours[name] is not None]
    assert {name for name in ours if name in known} == set(same)
    assert len(same) > 50
    assert set(newer) <= {
        "statmount",
        "listmount",
        "lsm_set_self_attr",
        "name_to_handle_at",
        "open_by_handle_at",
    }


CLONE_THREAD = 0x003D0F00  # the flags of pthread_create


CLONE_NEWUSER, CLONE_PARENT, SIGCHLD, SIGCONT, VFORK = 0x10000000, 0x8000, 17, 18, 0x4100


F_SETSIG, F_DUPFD_CLOEXEC, TIOCSCTTY = 10, 1030, 0x540E


UNIX, INET, NETLINK, STREAM, DATAGRAM, SEQPACKET, CLOEXEC = 1, 2, 16, 1, 2, 5, 0o2000000


CLOSER_LOOKS = [
    ("clone", (CLONE_THREAD,), ALLOW),
    ("clone", (SIGCHLD,), ALLOW),
    ("clone", (VFORK | SIGCHLD,), ALLOW),
    ("clone", (CLONE_NEWUSER | SIGCHLD,), refused(errno.EPERM)),
    ("clone", (CLONE_PARENT,), refused(errno.EPERM)),
    ("clone", (SIGCONT,), refused(errno.EPERM)),
    ("clone", (CLONE_THREAD | SIGCONT,), refused(errno.EPERM)),
    ("clone3", (), refused(errno.ENOSYS)),
    ("socket", (UNIX, STREAM), ALLOW),
    ("socket", (UNIX, SEQPACKET | CLOEXEC), ALLOW),
    ("socket", (UNIX, DATAGRAM), refused(errno.EPERM)),
    ("socket", (INET, STREAM), refused(errno.EPERM)),
    ("socket", (NETLINK, 3), refused(errno.EPERM)),
    ("socket", (UNIX | 1 << 32, STREAM), ALLOW),
    ("socketpair", (UNIX, STREAM), ALLOW),
    ("socketpair", (UNIX, DATAGRAM | CLOEXEC), refused(errno.EPERM)),
    ("connect", (3,), refused(errno.ECONNREFUSED)),
    ("sendto", (3, 1, 1, 0, 0), ALLOW),
    ("sendto", (3, 1, 1, 0, 1), refused(errno.EPERM)),
    ("sendto", (3, 1, 1, 0, 1 << 32), refused(errno.EPERM)),
    ("prctl", (1, 0), refused(errno.EPERM)),
    ("prctl", (36, 0), refused(errno.EPERM)),
    ("prctl", (15, 1), ALLOW),
    ("ioctl", (0, 0x5412), refused(errno.EPERM)),
    ("ioctl", (3, 0xC0104600 | 0x2A), ALLOW),
    ("prlimit64", (0, 7), ALLOW),
    ("prlimit64", (4711, 7), refused(errno.EPERM)),
    ("personality", (0xFFFFFFFF,), ALLOW),
    ("personality", (0x0400000,), refused(errno.EPERM)),
    ("fcntl", (3, F_SETSIG, SIGCONT), refused(errno.EPERM)),
    ("fcntl", (3, F_DUPFD_CLOEXEC, 0), ALLOW),
    ("ioctl", (0, TIOCSCTTY), refused(errno.EPERM)),
]


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(("name", "arguments", "expected"), CLOSER_LOOKS)
def test_calls_that_are_looked_at_more_closely(
    machine: str, name: str, arguments: tuple[int, ...], expected: int
) -> None:
    assert answer(machine, seccomp.number(name, machine), *arguments) == expected


def test_another_architecture_s_entry_kills_and_what_is_newer_does_not_exist() -> None:
    assert answer("x86_64", 20, architecture=I386) == KILL
    assert answer("x86_64", 0x40000000 + 520) == KILL
    assert answer("aarch64", 172, architecture=ARCHITECTURES["x86_64"]) == KILL
    assert answer("x86_64", seccomp.LAST_KNOWN + 1) == refused(errno.ENOSYS)
    with pytest.raises(OSError, match="no table of system calls for riscv64"):
        seccomp.program("riscv64")


MMAP, MLOCK, FUTEX, MEMFD, EVENTFD, EXECVE, MBIND = 9, 149, 202, 319, 290, 59, 237


@pytest.mark.parametrize("number", [MMAP, MLOCK, FUTEX, MEMFD, EVENTFD, EXECVE, MBIND])
def test_what_cuda_and_compilers_need_stays_open(number: int) -> None:
    assert answer("x86_64", number) == ALLOW
