"""Processes that the chaos bench kills: it must find them in every state in which
kills leave them.
"""

from __future__ import annotations

import subprocess
import sys

FOUND_AGAIN = """
import os, signal, subprocess, sys, time
from tests.bench import chaos_site
from tests.processes import children

chaos_site.adopt_orphans(adopt=True)
launch = (
    "import subprocess, sys, time;"
    "subprocess.Popen("
    "[sys.executable, '-c', 'import time; time.sleep(60)', 'workers.referee.serve'],"
    " start_new_session=True); time.sleep(60)"
)
worker = subprocess.Popen([sys.executable, "-c", f"import subprocess, sys, time;"
    f"subprocess.Popen([sys.executable, '-c', {launch!r}]); time.sleep(60)"])

def within(found):
    until = time.monotonic() + 20
    while not found():
        assert time.monotonic() < until
        time.sleep(0.02)
    return found()

try:
    (referee,) = within(lambda: chaos_site.referees([worker.pid]))
    (pool,) = children(worker.pid)
    os.kill(pool, signal.SIGKILL)
    within(lambda: not children(pool))
    assert within(lambda: chaos_site.referees([worker.pid])) == [referee], "its launcher has ended"
finally:
    worker.kill()
    for pid in children(os.getpid()):
        os.kill(pid, signal.SIGKILL)
"""


def test_a_referee_is_found_after_the_process_that_launched_it_has_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FOUND_AGAIN], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
