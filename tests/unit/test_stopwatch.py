"""The stopwatch: a real process, which wakes others and takes the time."""

import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from workers.referee.host.stopwatch import Stopwatch


@pytest.fixture(params=[False, True], ids=["sleeps", "spins"])
def stopwatch(request: pytest.FixtureRequest) -> Iterator[Stopwatch]:
    started = Stopwatch(spins=request.param)
    yield started
    started.close()


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def test_it_hands_over_the_message_and_brings_the_answer_with_the_time(
    stopwatch: Stopwatch,
) -> None:
    ours, theirs = _pair()
    with ours, theirs:

        def answer() -> None:
            message = theirs.recv(100)
            time.sleep(0.05)
            theirs.send(message[::-1])

        thread = threading.Thread(target=answer)
        thread.start()
        began = time.perf_counter_ns()
        taken = stopwatch.run(ours, b"abc", [], 5.0)
        ended = time.perf_counter_ns()
        thread.join()
    assert taken.reply == b"cba"
    assert began <= taken.began_ns < taken.ended_ns <= ended  # one clock for all processes
    assert taken.ended_ns - taken.began_ns >= 45e6


def test_the_stopwatch_wakes_a_frozen_process_until_it_has_answered(stopwatch: Stopwatch) -> None:
    ours, theirs = _pair()
    code = (
        "import socket, time; s = socket.socket(fileno=0); s.send(b'awake'); s.send(s.recv(100) *"
        " 2); time.sleep(1)"
    )
    with (
        ours,
        theirs,
        subprocess.Popen([sys.executable, "-c", code], stdin=theirs.fileno()) as process,
    ):
        assert ours.recv(100) == b"awake"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        ours.settimeout(0.1)
        taken = stopwatch.run(ours, b"ab", [process.pid], 5.0)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # its threads' remaining work is not done
        process.send_signal(signal.SIGCONT)
        assert process.wait(5) == 0
    assert taken.reply == b"abab"


def test_where_nothing_comes_in_time_it_says_so(stopwatch: Stopwatch) -> None:
    ours, theirs = _pair()
    with ours, theirs:
        taken = stopwatch.run(ours, b"abc", [], 0.02)
        assert (taken.reply, taken.ended_ns) == (None, 0)
        assert theirs.recv(100) == b"abc"  # the side that asked goes on waiting by itself
        theirs.send(b"late")
        assert ours.recv(100) == b"late"


def test_an_ended_process_answers_nothing_and_harms_no_other(stopwatch: Stopwatch) -> None:
    with subprocess.Popen(["/bin/true"]) as gone:
        pass
    ours, theirs = _pair()
    with ours:
        theirs.close()
        assert stopwatch.run(ours, b"abc", [gone.pid], 5.0).reply is None
    ours, theirs = _pair()
    with ours, theirs:
        theirs.send(b"there")
        assert stopwatch.run(ours, b"abc", [gone.pid], 5.0).reply == b"there"


def test_one_that_ended_itself_is_our_fault(stopwatch: Stopwatch) -> None:
    stopwatch._process.kill()
    stopwatch._process.wait()
    ours, theirs = _pair()
    with ours, theirs, pytest.raises(OSError):
        stopwatch.run(ours, b"abc", [], 1.0)


class Channel:
    """A channel with an answer, after some looks in vain or for a sleeper."""

    def __init__(self, looks: float) -> None:
        self.looks = looks
        self.slept = False

    def recv(self, size: int, flags: int = 0) -> bytes:
        self.looks -= 1
        if flags and self.looks >= 0:
            raise BlockingIOError
        self.slept = not flags
        return b"answer"


@pytest.mark.parametrize(
    ("spin_s", "looks", "sleeps"), [(0.0, 0, True), (60.0, 5, False), (0.01, math.inf, True)]
)
def test_the_referee_sleeps_only_after_it_has_looked_for_long(
    stopwatch: Stopwatch, spin_s: float, looks: float, sleeps: bool
) -> None:
    channel: Any = Channel(looks)
    own, stopwatch._channel = stopwatch._channel, channel
    try:
        assert stopwatch._answer(spin_s) == b"answer"
    finally:
        stopwatch._channel = own
    assert channel.slept is sleeps
