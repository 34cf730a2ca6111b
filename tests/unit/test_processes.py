"""Processes that benches count."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from tests import processes
from tests.bench import footprint
from tests.bench.footprint import Allowance

SLEEPS = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")


def test_a_process_that_another_thread_started_is_a_child() -> None:
    started: list[subprocess.Popen[bytes]] = []
    up, over = threading.Event(), threading.Event()

    def start() -> None:
        started.append(subprocess.Popen(SLEEPS, stdout=subprocess.PIPE))
        up.set()
        over.wait()

    thread = threading.Thread(target=start)
    thread.start()
    try:
        assert up.wait(30)
        assert started[0].pid in processes.descendants(os.getpid())
    finally:
        over.set()
        thread.join()
        with started[0] as process:
            process.kill()


def test_a_footprint_is_flat_or_named_with_both_ends() -> None:
    samples = [{"files": 10.0, "bytes": 100.0 + 10 * number} for number in range(10)]
    allowances = {"files": Allowance(least=1), "bytes": Allowance(share=0.1)}
    assert footprint.grown(samples, allowances) == {"bytes": "150 → 180"}
    with pytest.raises(ValueError, match="at least 6 samples, got 5"):
        footprint.grown(samples[:5], allowances)
