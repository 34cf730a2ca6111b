"""The allocator of confined processes on a GPU: it is compiled, or expandable segments serve."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from workers.referee.host import device_memory


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "leases"
    monkeypatch.setattr(device_memory, "LOCK_FOLDER", found)
    return found


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


def test_it_is_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = device_memory.environment()
    monkeypatch.setattr(subprocess, "run", None)
    assert device_memory.environment() == first
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    "error", [FileNotFoundError("cc"), subprocess.CalledProcessError(1, "cc", stderr="no headers")]
)
def test_without_a_compiler_expandable_segments_serve(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    assert device_memory.environment() == device_memory.EXPANDABLE
    assert "expandable segments" in caplog.text


def test_a_folder_that_others_can_open_is_not_trusted(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    assert device_memory.environment() == device_memory.EXPANDABLE
    assert "only this user" in caplog.text
