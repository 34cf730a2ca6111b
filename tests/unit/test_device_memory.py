"""The allocator of confined processes on a GPU: it is compiled, or expandable segments serve."""

import ctypes
import subprocess

import pytest

from workers.referee.host import device_memory


def test_the_library_defines_what_torch_allocates_with() -> None:
    library = ctypes.CDLL(device_memory.environment()["LD_PRELOAD"])
    assert library.cudaMalloc
    assert library.cudaFree


def test_without_the_cuda_runtime_an_allocation_fails_and_nothing_else_happens() -> None:
    library = ctypes.CDLL(device_memory.environment()["LD_PRELOAD"])
    pointer = ctypes.c_void_p()
    out_of_memory = 2
    assert library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1)) == out_of_memory
    assert library.cudaFree(None) == 0
    assert pointer.value is None


@pytest.mark.parametrize(
    "error", [FileNotFoundError("cc"), subprocess.CalledProcessError(1, "cc", stderr="no headers")]
)
def test_without_a_compiler_expandable_segments_serve(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    device_memory._library.cache_clear()
    monkeypatch.setattr(subprocess, "run", fail)
    assert device_memory.environment() == device_memory.EXPANDABLE
    device_memory._library.cache_clear()
    assert "expandable segments" in caplog.text
