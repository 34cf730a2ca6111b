"""Processes keep the memory of freed tensors, whatever they have computed before."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from workers.referee.host.device import open_device

FAULTS = """
import ctypes, resource
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
def call():
    tensors = [libc.malloc(4 << 20) for _ in range(3)]
    for tensor in tensors:
        libc.memset(tensor, 1, 4 << 20)
    for tensor in tensors:
        libc.free(tensor)
call()
call()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    call()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(environment: dict[str, str]) -> int:
    """Page faults of five calls that allocate three tensors of 4 MB each."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", FAULTS],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the limits are glibc's")
def test_memory_of_freed_tensors_is_kept_from_the_first_call_on() -> None:
    assert _faults({}) > 1000  # by default
    assert _faults(open_device("cpu", 0, 1).environment) < 50
