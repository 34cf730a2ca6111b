"""cudaMalloc of confined processes (workers/shims/device_malloc.c), over a driver
that only counts.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "workers" / "shims" / "device_malloc.c"

DRIVER = """
#include <stddef.h>
typedef unsigned long long u64;
static u64 next = 1ull << 40, budget = 1ull << 30;
int created, mapped, synchronized;
int cuMemCreate(u64 *handle, size_t size, const void *p, u64 f) {
    if (size > budget) return 2;
    budget -= size; *handle = size; ++created; return 0;
}
int cuMemRelease(u64 handle) { return 0; }
int cuMemAddressReserve(u64 *at, size_t size, size_t unit, u64 a, u64 f) {
    *at = next; next += size; return 0; }
int cuMemAddressFree(u64 at, size_t size) { return 0; }
int cuMemMap(u64 at, size_t size, size_t o, u64 handle, u64 f) { ++mapped; return 0; }
int cuMemUnmap(u64 at, size_t size) { --mapped; budget += size; return 0; }
int cuMemSetAccess(u64 at, size_t size, const void *access, size_t n) { return 0; }
int cuCtxSynchronize(void) { ++synchronized; return 0; }
"""

RUNTIME = """
#include <stddef.h>
int foreign;
int cudaMalloc(void **at, size_t size) { return 1; }
int cudaFree(void *at) { foreign += at != NULL; return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
"""

PROGRAM = """
import ctypes, json, sys
process, driver = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1")
def malloc(size):
    pointer = ctypes.c_void_p()
    failed = process.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size))
    return None if failed else pointer.value
def free(at): process.cudaFree(ctypes.c_void_p(at))
process.device_memory_number.restype = ctypes.c_ulonglong
def number(at): return process.device_memory_number(ctypes.c_ulonglong(at))
def count(name, library=driver): return ctypes.c_int.in_dll(library, name).value
print(json.dumps(eval(sys.stdin.read())))
"""

MIB = 1 << 20

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="it needs a C compiler")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    for name, text in (
        ("libcuda.so.1", DRIVER),
        ("libruntime.so", RUNTIME),
        ("libmalloc.so", SOURCE.read_text()),
    ):
        source = folder / f"{name}.c"
        source.write_text(text)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", folder / name, source, "-ldl", "-lpthread"],
            check=True,
        )
    return folder


def run(libraries: Path, expression: str) -> Any:
    """Value of an expression in a process with this cudaMalloc."""
    preload = f"{libraries}/libmalloc.so {libraries}/libruntime.so"
    environment = {**os.environ, "LD_PRELOAD": preload, "LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=expression,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_small_segments_are_neighbours_in_one_allocation(libraries: Path) -> None:
    found, created = run(libraries, f"[[malloc({2 * MIB}) for _ in range(17)], count('created')]")
    assert [at - found[0] for at in found[:16]] == [index * 2 * MIB for index in range(16)]
    assert created == 2
    assert len(set(found)) == 17


def test_larger_segments_have_allocations_of_their_own(libraries: Path) -> None:
    found, created = run(
        libraries, f"[[malloc({20 * MIB}), malloc({3 * MIB}), malloc({2 * MIB})], count('created')]"
    )
    assert len(set(found)) == created == 3


def test_a_freed_slice_is_used_again_and_the_last_one_frees_the_allocation(libraries: Path) -> None:
    again, mapped, left, synchronized = run(
        libraries,
        f"(lambda a, b: [(free(a), malloc({2 * MIB}) == a)[1], count('mapped'), (free(a), free(b),"
        f" count('mapped'))[2], count('synchronized')])(malloc({2 * MIB}), malloc({2 * MIB}))",
    )
    assert (again, mapped, left, synchronized) == (True, 1, 0, 3)


def test_a_slice_is_freed_once_and_others_memory_goes_to_the_runtime(libraries: Path) -> None:
    foreign, mapped = run(
        libraries,
        "(lambda a, b: [(free(a), free(a), free(b + 4096), free(12345), count('foreign',"
        f" process))[4], count('mapped')])(malloc({2 * MIB}), malloc({2 * MIB}))",
    )
    assert (foreign, mapped) == (3, 1)


def test_the_last_memory_of_a_device_goes_to_a_segment_of_its_own(libraries: Path) -> None:
    small, none = run(
        libraries,
        f"(lambda a: [malloc({2 * MIB}) is not None, malloc({30 * MIB})])(malloc({1010 * MIB}))",
    )
    assert small
    assert none is None


def test_memory_at_an_address_that_was_given_back_is_another_allocation(libraries: Path) -> None:
    """By its number, which the slices of an allocation share."""
    numbers, releases = run(
        libraries,
        f"(lambda a, b, c: [[number(a), number(b) == number(a), number(c + 4096), number(5),"
        f" (free(a), number(a))[1], (free(c), number(c))[1]], count('device_memory_releases',"
        f" process)])(malloc({2 * MIB}), malloc({2 * MIB}), malloc({20 * MIB}))",
    )
    assert numbers == [1, True, 2, 0, 1, 0]
    assert releases == 1
