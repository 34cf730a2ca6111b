"""Checks of this host: Python, libraries, GPU, sandbox, disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from app import gpus
from app.cli.doctor_check import Check, Checks, CheckStatus, judged
from app.settings import Settings

PYTHONS = ((3, 11), (3, 13))
"""Oldest and newest that are tested."""
LIBRARIES = ("celery", "redis", "sqlalchemy", "psycopg", "flask")
KERNEL_LIBRARIES = ("torch", "triton", "numpy")
"""Needed where kernels are evaluated."""
LITTLE_BYTES, TOO_LITTLE_BYTES = 5 << 30, 1 << 30
"""Free room of a disk: less than the first is a warning, less than the second a failure."""
LITTLE_SHM_BYTES = 1 << 30
"""Size of /dev/shm below which a warning is given: tensors go through it on the CPU device."""
SELFTEST_TIMEOUT_S = 60.0
"""Seconds for the sandbox's self-test, which takes a few."""


def python_and_libraries() -> Checks:
    """Versions of Python and of the libraries."""
    version, (oldest, newest) = sys.version_info[:2], PYTHONS
    yield judged(
        "python",
        f"{sys.version.split()[0]} at {sys.executable}",
        fail=version < oldest,
        warn=version > newest,
        todo=f"use Python {'.'.join(map(str, oldest))} to {'.'.join(map(str, newest))}",
    )
    yield judged("libraries", ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES))
    found = {name: _version(name) for name in KERNEL_LIBRARIES}
    missing = [name for name, version in found.items() if version is None]
    yield judged(
        "kernel libraries",
        ", ".join(f"{name} {version or 'is missing'}" for name, version in found.items()),
        warn=bool(missing),
        todo="needed only where kernels are evaluated: pip install 'kernel-assay[kernels]'",
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def gpu() -> Checks:
    """GPUs of this host, and the driver."""
    try:
        listed = gpus.listed()
    except gpus.NvidiaSmiError as error:
        yield Check(
            name="gpu",
            outcome=CheckStatus.FAIL,
            found=str(error),
            todo="look at `nvidia-smi` and `dmesg`",
        )
        return
    if not listed:
        yield Check(
            name="gpu",
            outcome=CheckStatus.SKIP,
            found="no NVIDIA GPU: this machine serves the class cpu",
        )
        return
    torch = _version("torch") or ""
    yield judged(
        "gpu",
        f"{', '.join(gpu.name for gpu in listed)}; driver {gpus.driver()}; torch"
        f" {torch or 'is missing'}",
        fail=not torch or torch.endswith("+cpu"),
        todo="install a torch that was built with CUDA",
    )


def sandbox() -> Checks:
    """Checks of the sandbox: forbidden acts are attempted in another process,
    because only workers can.
    """
    command = [sys.executable, "-m", "workers.sandbox.selftest", "--json"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SELFTEST_TIMEOUT_S
        )
        report = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        last = (
            type(error).__name__
            if isinstance(error, subprocess.TimeoutExpired)
            else done.stderr.strip()[-300:]
        )
        yield Check(
            name="sandbox",
            outcome=CheckStatus.FAIL,
            found=f"the self-test did not run: {last}",
            todo="this host cannot evaluate: python -m workers.sandbox.selftest",
        )
        return
    succeeded = [act["name"] for act in report["acts"] if act["succeeded"]]
    found = (
        f"{len(report['acts'])} forbidden acts, {len(succeeded)} succeeded; {len(report['active'])}"
        " layers in force"
    )
    missing = f"; missing: {', '.join(report['missing'])}" if report["missing"] else ""
    yield judged(
        "sandbox",
        f"{found}{missing}",
        fail=bool(succeeded),
        todo=f"a candidate could {'; '.join(succeeded)}: run as root, or allow user namespaces",
    )


def disk(settings: Settings) -> Checks:
    """Free room of the state folder and of /dev/shm."""
    folder = settings.state_dir
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    yield judged(
        "disk",
        f"{free / 1e9:.1f} GB free at {folder}",
        fail=free < TOO_LITTLE_BYTES,
        warn=free < LITTLE_BYTES,
        todo="make room, or `assay db prune --profiles-older-than 30d`",
    )
    memory = Path("/dev/shm")  # noqa: S108 (looked at, not written to)
    size = shutil.disk_usage(memory).total if memory.exists() else 0
    yield judged(
        "shared memory",
        f"{size / 1e9:.1f} GB at {memory}",
        warn=size < LITTLE_SHM_BYTES,
        todo="give containers more: --shm-size 2g",
    )
