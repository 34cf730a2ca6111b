"""Messages between the referee and a confined process: fixed-size structs over a SEQPACKET socket, plus shared memory.

Nothing that comes back from a process that has run a candidate is parsed: outcomes are numbers, text is for people,
tables are arrays of structs.  Two pieces of shared memory go with it: the mailbox (source, spec, text, tables) and the
arena (parameters, input slots, output slots)."""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
from collections.abc import Callable
from enum import IntEnum, unique
from typing import NamedTuple

REQUEST = struct.Struct("<IIIQQQ32s")
"""command, sequence number, session, three numbers that depend on the command, seed.  A reference serves several
evaluations at once, each of which is a session to it; a candidate has the one session 0."""

REPLY = struct.Struct("<IIQQ")
"""outcome, sequence number, nanoseconds that the process says it was busy (testimony), bytes of text in the mailbox."""

SOURCE_BYTES = 1 << 20
"""Largest source that is evaluated."""

SPEC_BYTES = 1 << 20
TEXT_BYTES = 16 << 10
TABLE_BYTES = 64 << 10

SOURCE_AT = 0
SPEC_AT = SOURCE_AT + SOURCE_BYTES
TEXT_AT = SPEC_AT + SPEC_BYTES
TABLE_AT = TEXT_AT + TEXT_BYTES
NOTES_AT = TABLE_AT + TABLE_BYTES
POINTERS_AT = NOTES_AT + TABLE_BYTES
POINTERS_BYTES = 64 << 10
LAUNCHES_AT = POINTERS_AT + POINTERS_BYTES
LAUNCHES_BYTES = 1 << 20
MAILBOX_BYTES = LAUNCHES_AT + LAUNCHES_BYTES
"""The notes are left by one confined process for another (recorded launches); the referee only carries them.  The
pointers say where the outputs of a RUN lie: 8 bytes each, call by call.  The launches are of the profiled call."""

COMPILED_ROW = struct.Struct("<128s512s2048sIiii")
"""name, signature, message, outcome (0 failed, 1 ok, 2 not attempted); registers, spilled, shared (−1: unknown)."""


ANOTHER = "another function outside the interpreter than the one that ran"
"""Message of a COMPILED_ROW: the kernel asks whether it is interpreted (workers.backends.support.compiled_twins)."""


ABSENT_BIT = 32
"""First of the bits in a candidate's answer to ARENA that name the constants that its model has no place for
(constants.MOST)."""


@unique
class Command(IntEnum):
    """Requests of the referee."""

    LOAD = 1
    """Execute the source in the mailbox; number a: bytes of source, b: bytes of spec; c: for a reference, 1 where the
    problem is one by cases."""
    ARENA = 2
    """Map the arena that comes along; numbers a and b: slots for inputs, and for expected outputs (spec.Slots).  A
    candidate answers which of the spec's constants its model has, too, and from ABSENT_BIT on which it has no place
    for: a bit each."""
    DESCRIBE = 3
    """Reference only: build the model under the seed and write its spec into the mailbox; number a: of a problem by
    cases, which; b: 1 where no other evaluation uses memory of the device."""
    GENERATE = 4
    """Reference only: fill slots a … a+b−1 with inputs drawn under the seed, rows c and following of a batch; and with
    their expected outputs, where there are as many slots for these."""
    SIZE = 18
    """Reference only: answers how many bytes of the device describing the problem takes, estimated; 0: unknown."""
    GIVE_BACK = 20
    """Reference only: release unused memory of the device; shared memory is no longer shared."""
    EXPECT = 19
    """Reference only: expected outputs for the inputs in slots a … a+b−1, in the first slots for expected outputs, or
    in memory that comes along; answers of how many it is fp64."""
    VARY = 15
    """Reference only: fill slots a, a+1, … with an input set for each variant in the mask b, in the order of their
    numbers, and with its expected outputs; answers the mask of those that it could be called on, others have none."""
    SECOND_LOOK = 21
    """Reference only: of the answer that lies in output slot a, to the inputs in slot a, put expected values in place
    of wrong ones (workers/shims/equivalent_answers.py); number b: 1 for ties alone.  Answers nanoseconds of processor
    time, and JSON with a leaf for each output."""
    RUN = 5
    """Call the model b times on slots a, a+1, …; number c: how outputs are delivered, a `Delivering`."""
    TESTIFY = 6
    """Candidate only: write the launches of the profiled call into the mailbox; answers their number, and how many
    kernels of its own were launched over all calls."""
    COMPILE = 7
    """Builder only: compile the kernels in the notes for a real GPU; number a: compute capability × 10."""

    CODE = 22
    """Write the code that the compiler made of the kernels where launches were (kernel_code): a builder after COMPILE,
    a candidate on a GPU of the profiled call; answers the number of texts."""

    WARM = 8
    """Before anything is loaded: make the device's context."""

    ABLATE = 9
    """Candidate only: from here on, number a, a `AblationMode`, in place of its kernels; before LOAD, too."""

    COMPILE_FIRST = 11
    """After WARM: compile a first kernel."""

    SEGMENT = 12
    """Share the piece of device memory around address a: answers its base and size, with a descriptor."""

    RENEW = 16
    """Candidate only: build the model anew under the seed, with its kernels; REFIT gives it its parameters."""

    REFIT = 17
    """Take the parameters that lie in the arena now; a reference those that the spec calls constants."""

    RELEASE = 13
    """Reference only: forget the session; answers whether memory was given back, so that nothing is shared any more."""

    EVENTS = 14
    """b calls on slot a to warm up, then c, each timed by the process's own events; answers the mean in nanoseconds."""

    PROFILE = 10
    """Candidate only: calls from slot a on, with every launch timed; number b: 0 for one call with its own kernels
    between two events each, else so many with all that the device does, by the driver's profiler."""

    CAPTURE = 23
    """Record the calls on slots a … a+b−1 as a CUDA graph, with their outputs delivered as `Delivering` c says (COPY or
    CAPTURE); b: 0 to forget all graphs.  Where the outputs lie is in the pointers."""


class Outcome(IntEnum):
    """Outcome of a request, as reported by the process itself."""

    DONE = 1
    NO_ENTRY_POINT = 2
    SYNTAX_ERROR = 3
    IMPORT_FAILED = 4
    LOAD_FAILED = 5
    CONSTRUCT_FAILED = 6
    CALL_FAILED = 7
    OUT_OF_MEMORY = 8
    WRONG_TYPE = 9
    WRONG_STRUCTURE = 10
    WRONG_SHAPE = 11
    WRONG_DTYPE = 12
    UNSUPPORTED = 13
    COMPILE_FAILED = 14
    """Triton's compiler refused a kernel when it was first launched."""


@unique
class AblationMode(IntEnum):
    """Substitutes for a kernel's launch."""

    HONEST = 0
    """The launch itself."""
    NOTHING = 1
    COPY = 2
    """The first tensor into later ones."""
    COPY_BACK = 3
    """The last tensor into earlier ones."""
    KEEP = 4
    """The launch itself, and its writes are remembered."""
    REPLAY = 5
    """The bytes that it wrote then, for any arguments now."""
    SILENT = 6
    """Nothing, and nothing else that a candidate could detect: memory that was not written keeps its content."""


class Delivering(IntEnum):
    """Places of the outputs of a RUN when it is done."""

    COPY = 0
    """Each is copied into its slot while the clock runs."""
    SURVEY = 1
    """Copied; besides, all are kept, and their addresses are in the pointers, for the referee to map them."""
    HOLD = 2
    """Kept where the model put them, at the addresses in the pointers; only those elsewhere than in segments that
    were shared before is copied (pointer 0)."""
    CAPTURE = 3
    """The same while calls are recorded as a graph, wherever an output lies."""
    REPLAY = 4
    """The calls are replays of the graphs of their slots, which deliver as they were recorded."""

    @property
    def points(self) -> bool:
        """True where the pointers say where outputs lie once a block is done."""
        return self in (Delivering.HOLD, Delivering.REPLAY)


class Request(NamedTuple):
    """One request to a confined process."""

    command: int
    session: int
    a: int
    b: int
    c: int
    seed: bytes
    fd: int | None
    """A descriptor that came along."""


class Reply(NamedTuple):
    """Answer of a confined process."""

    outcome: Outcome
    number: int = 0
    """Nanoseconds busy, mostly; see the commands."""
    text: int = 0
    """Bytes of text in the mailbox, mostly."""
    fd: int | None = None
    """A descriptor to go along; closed once it is sent."""


Answer = Callable[[Request], Reply]


def receive_with_fd(channel: socket.socket, size: int) -> tuple[bytes, int | None]:
    """The next message and the descriptor that came along, if one did."""
    fds = array.array("i")
    message, ancillary, _, _ = channel.recvmsg(size, socket.CMSG_LEN(fds.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: fds.itemsize])
    return message, fds[0] if fds else None


def answer_requests(channel: socket.socket, answer: Answer) -> None:
    """The loop of every confined process: one reply a request, until the referee closes the channel."""
    while True:
        message, fd = receive_with_fd(channel, REQUEST.size)
        if len(message) != REQUEST.size:
            return
        command, sequence, session, a, b, c, seed = REQUEST.unpack(message)
        reply = answer(Request(command, session, a, b, c, seed, fd))
        packed = REPLY.pack(reply.outcome, sequence, reply.number, reply.text)
        if reply.fd is None:
            channel.send(packed)
        else:
            channel.sendmsg([packed], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [reply.fd]))])
            os.close(reply.fd)


def put_text(mailbox: mmap.mmap, text: str) -> int:
    """Write text for people into the mailbox, its beginning and its end if it is too long; returns its length in
    bytes."""
    data = text.encode("utf-8", "replace")
    if len(data) > TEXT_BYTES:
        half = TEXT_BYTES // 2 - 50
        data = data[:half] + f"\n… {len(data) - 2 * half:,} bytes left out …\n".encode() + data[-half:]
    mailbox[TEXT_AT : TEXT_AT + len(data)] = data
    return len(data)


def get_text(mailbox: mmap.mmap, length: int) -> str:
    """Text for people from the mailbox: capped, undecodable bytes and NUL replaced."""
    data = mailbox[TEXT_AT : TEXT_AT + min(length, TEXT_BYTES)]
    return data.decode("utf-8", "replace").replace("\x00", "\ufffd")


def field_text(data: bytes) -> str:
    """Text of a fixed-size field."""
    return data.split(b"\x00", 1)[0].decode("utf-8", "replace")
