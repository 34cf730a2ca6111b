"""The NVIDIA GPUs of this machine, as nvidia-smi lists them, and binding a process to one."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from app import routing

TIMEOUT_S = 30.0
"""Seconds for nvidia-smi, which may have to load the driver first."""

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_NO_GPU = frozenset({6, 9, 12})
"""Exit codes of nvidia-smi where there is no GPU: no device found, no driver loaded, no NVML."""


class NvidiaSmiError(RuntimeError):
    """nvidia-smi gives an unexpected answer, or none.  To overlook a GPU would be to
    evaluate elsewhere.
    """


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One of them."""

    index: int
    """GPUs in the order of nvidia-smi, that of the PCI bus; CUDA's own order may be another."""
    uuid: str
    name: str

    @property
    def device_class(self) -> str:
        """`NVIDIA H200` → `h200`; `gpu` where no class is named so."""
        words = self.name.lower().replace("-", " ").split()
        return next((word for word in words if word in routing.DEVICE_CLASSES), "gpu")


def listed() -> list[Gpu]:
    """All of them; none where nvidia-smi is absent, or finds no driver or no GPU.  Raises
    NvidiaSmiError where it fails otherwise, for example after an update of the driver alone.
    """
    command = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
        ).stdout
    except FileNotFoundError:
        return []
    except subprocess.CalledProcessError as error:
        if error.returncode in _NO_GPU:
            return []
        message = " ".join(f"{error.stdout} {error.stderr}".split())[:300]
        raise NvidiaSmiError(f"nvidia-smi: exit code {error.returncode}: {message}") from error
    except subprocess.TimeoutExpired as error:
        raise NvidiaSmiError(f"nvidia-smi: expected an answer within {TIMEOUT_S:g} s") from error
    return [_parsed(line) for line in said.splitlines() if line.strip()]


def driver() -> str:
    """Version of the driver; empty where it does not say.  Raises NvidiaSmiError."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
        ).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ""
    except subprocess.TimeoutExpired as error:
        raise NvidiaSmiError(f"nvidia-smi: expected an answer within {TIMEOUT_S:g} s") from error
    return said.split("\n", 1)[0].strip()


def visible() -> list[Gpu]:
    """GPUs that CUDA_VISIBLE_DEVICES allows, by index or by the beginning of the
    UUID; all without it.
    """
    allowed = os.environ.get(_VISIBLE)
    if allowed is None:
        return listed()
    names = [name.strip() for name in allowed.split(",") if name.strip()]
    return [gpu for gpu in listed() if any(_named(gpu, name) for name in names)]


def binding(index: int) -> dict[str, str]:
    """The variables of a process that is to see the GPU of that index and no other.

    By UUID, because CUDA counts the fastest first and nvidia-smi by PCI bus.  A binding to one GPU
    that is already there stays: in a container the host's third GPU is the first and only one.
    """
    chosen = os.environ.get(_VISIBLE, "")
    if chosen and "," not in chosen:
        return {_VISIBLE: chosen}
    uuid = next((gpu.uuid for gpu in listed() if gpu.index == index), None)
    return {_VISIBLE: uuid or str(index)}


def _parsed(line: str) -> Gpu:
    try:
        index, uuid, name = line.split(",", 2)
        return Gpu(index=int(index), uuid=uuid.strip(), name=name.strip())
    except ValueError:
        raise NvidiaSmiError(f"nvidia-smi: expected 'index, uuid, name', got {line!r}") from None


def _named(gpu: Gpu, name: str) -> bool:
    return name == str(gpu.index) or (name.startswith("GPU-") and gpu.uuid.startswith(name))
