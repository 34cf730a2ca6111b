"""Candidates that hide, poison, break the conversation or reach for others' things:
nothing is left of them.
"""

import os
import textwrap
import threading
from pathlib import Path

import pytest

from app.domain.evaluation import Status
from tests.bench import fuzz_control
from tests.integration.isolated import HONEST, in_forward, job, run
from tests.waiting import until
from workers.worker import referee_client


def test_nothing_is_left_running_and_the_next_candidate_is_unharmed(
    device_referee: referee_client.RefereeClient,
) -> None:
    leaver = in_forward("""
        import os, sys, time
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                open("/proc/self/comm", "w").write("assay-leftover")
                time.sleep(600)
    """)
    run(device_referee, leaver)
    _require_gone("assay-leftover")
    assert run(device_referee, HONEST).status is Status.PASSED


def _processes_named(name: str) -> list[str]:
    found = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().strip() == name:
                found.append(comm.parent.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


HIDING = """
import ctypes, os, signal, time
def hide(name):
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)
SIBLING = 0x8000 | signal.SIGCHLD
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: hide(b"assay-orphan")
    if ctypes.CDLL(None).syscall(56, SIBLING, 0, 0, 0, 0) == 0: hide(b"assay-sibling")
    os._exit(0)
"""


def test_hidden_processes_end_with_their_candidate(
    device_referee: referee_client.RefereeClient,
) -> None:
    """Orphans of a session of their own, and (where the system-call filter allowed
    it) children of its parent.
    """
    assert run(device_referee, in_forward(HIDING)).status is Status.PASSED
    _require_gone("assay-orphan", "assay-sibling")


def test_hidden_processes_end_with_a_referee_that_is_killed(
    device_referee: referee_client.RefereeClient,
) -> None:
    threading.Timer(1.0, device_referee.cancel).start()
    with pytest.raises(referee_client.CancelledError):
        device_referee.run(
            job(in_forward(HIDING + "while True: pass"), call_timeout_s=60, deadline_s=60)
        )
    _require_gone("assay-orphan", "assay-sibling")


def _require_gone(*names: str) -> None:
    until(lambda: not any(map(_processes_named, names)))


CACHES = """
import ctypes, glob, os, site, socket, tempfile
def places():
    names = ("HOME", "TMPDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    yield from {os.environ.get(n, "") for n in names}
    yield from ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/etc")
    yield from (os.path.expanduser("~"), tempfile.gettempdir())
    yield from (*site.getsitepackages(), os.path.dirname(os.__file__))
"""


POISONER = (
    CACHES
    + """
for place in places():
    try: open(os.path.join(place, "assay-poison"), "w").write("an answer")
    except OSError: pass
try: (listener := socket.socket(socket.AF_UNIX)).bind("\\0assay-poison")
except OSError: pass
ctypes.CDLL(None).shmget(0x4153, 4096, 0o1666)
"""
)


SUCCESSOR = (
    CACHES
    + """
found = [place for place in places() if os.path.exists(os.path.join(place, "assay-poison"))]
if ctypes.CDLL(None).shmget(0x4153, 4096, 0) >= 0: found.append("System V")
if found: raise SystemError(f"FOUND {found}")
"""
)


def test_a_successor_finds_nothing_that_was_left_for_it(
    device_referee: referee_client.RefereeClient,
) -> None:
    """Files in every folder and cache that could be shared, shared memory; by the
    name that the poisoner chose.
    """
    assert run(device_referee, POISONER.encode() + HONEST).status is Status.PASSED
    evaluation = run(device_referee, SUCCESSOR.encode() + HONEST)
    assert evaluation.status is Status.PASSED, evaluation.error


CONVERSATION = """
import os, socket, sys, time
wire = sys.modules["workers.protocol.control_channel"]
frame = sys._getframe(1)
while "channel" not in frame.f_locals: frame = frame.f_back
channel, sequence = frame.f_locals["channel"], frame.f_locals["sequence"]
def reply(sequence, outcome=1): channel.send(wire.REPLY.pack(outcome, sequence, 1000, 0))
"""
"""How a candidate gets hold of its conversation with the referee."""


CONVERSATIONS = {
    "replies twice": ("reply(sequence); reply(sequence)", {Status.CRASHED, Status.INCORRECT}),
    "replies to the next request": ("reply(sequence + 1)", {Status.CRASHED}),
    "answers an outcome that is none": ("reply(sequence, 4711)", {Status.CRASHED}),
    "sends an empty message": ("channel.send(b'')", {Status.TIMEOUT}),
    "closes its channel and lives on": ("os.close(3); time.sleep(600)", {Status.TIMEOUT}),
    "sends descriptors": (
        "for _ in range(64): socket.send_fds(channel, [b'x'], [0])",
        {Status.CRASHED},
    ),
    "fills the channel": (
        "channel.setblocking(False)\nfor _ in range(10**6): reply(sequence)",
        {Status.CRASHED},
    ),
    "dies between go and done": ("os.kill(os.getpid(), 9); os._exit(0)", {Status.CRASHED}),
    "leaves with success between go and done": (
        "reply(sequence); os._exit(0)",
        {Status.CRASHED, Status.INCORRECT},
    ),
    "fills its output": ("for _ in range(200): os.write(1, b'x' * 65536)", {Status.PASSED}),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_process_that_breaks_the_protocol_harms_only_itself(
    device_referee: referee_client.RefereeClient, name: str
) -> None:
    code, expected = CONVERSATIONS[name]
    referee = device_referee.start() and device_referee._process
    timeout_s = 2.0 if Status.TIMEOUT in expected else 30.0
    evaluation = run(
        device_referee, in_forward(CONVERSATION + code), call_timeout_s=timeout_s, deadline_s=60
    )
    assert evaluation.status in expected, evaluation.error
    assert device_referee._process is referee
    assert run(device_referee, HONEST).status is Status.PASSED


def test_random_bytes_in_all_that_is_shared_are_neither_believed_nor_fatal(
    device_referee: referee_client.RefereeClient,
) -> None:
    found = fuzz_control.fuzz(device_referee, seconds=4.0, seed=7)
    assert (found["wrong"], found["referees"]) == ([], 1)


PROBES = {
    "environment": "import os; found = {k for k in os.environ if 'ASSAY' in k or 'SECRET' in k}",
    "descriptors": (
        """
        import os
        there = os.path.isdir('/proc/self/fd')
        found = {fd for fd in os.listdir('/proc/self/fd') if int(fd) > 3} if there else set()
        found = {fd for fd in found if 'memfd' not in _link(fd) and 'proc' not in _link(fd)}
    """
    ),
    "network": (
        "import socket; found = _tried(lambda: socket.create_connection(('127.0.0.1', 9), 1), 111)"
    ),
    "project": (
        "import os, glob; found = glob.glob('/**/tests/zoo', recursive=False) +"
        " glob.glob('/home/*')"
    ),
    "write outside": "found = _tried(lambda: open('/usr/assay-was-here', 'w'))",
    "signal others": "import os; found = _tried(lambda: os.kill(os.getppid() or 2, 9))",
}


@pytest.mark.skipif(os.geteuid() != 0, reason="the layers are those of a root worker")
@pytest.mark.parametrize("name", PROBES)
def test_what_a_candidate_must_not_reach(
    device_referee: referee_client.RefereeClient, name: str
) -> None:
    helpers = """
def _link(fd):
    import os
    try: return os.readlink('/proc/self/fd/' + fd)
    except OSError: return 'proc'
def _tried(act, *refused):
    try: act()
    except ConnectionRefusedError: return 'reached the host'
    except OSError: return ''
    return 'it worked'
"""
    probe = textwrap.dedent(PROBES[name])
    source = (
        helpers.encode()
        + probe.encode()
        + b"\nif found: raise SystemError(f'FOUND {found}')\n"
        + HONEST
    )
    os.environ["ASSAY_TEST_SECRET"] = "do not show"
    try:
        evaluation = run(device_referee, source)
    finally:
        del os.environ["ASSAY_TEST_SECRET"]
    assert evaluation.status is Status.PASSED, evaluation.error
