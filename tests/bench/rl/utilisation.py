"""Share of the time in which a GPU computes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sampled(device: str) -> Iterator[list[float]]:
    """Percent of time with a kernel on the device, sampled by nvidia-smi; empty
    where there is none.
    """
    found: list[float] = []
    command = [
        "nvidia-smi",
        "--query-gpu=utilization.gpu",
        "--format=csv,noheader,nounits",
        "-lms",
        "500",
    ]
    try:
        process = (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            if device == "cuda"
            else None
        )
    except OSError:
        process = None
    try:
        yield found
    finally:
        if process is not None:
            process.terminate()
            told, _ = process.communicate()
            found += [float(line) for line in told.split() if line.isdigit()]
