"""Messages between the referee and a confined process: fixed-size structs over a
SEQPACKET socket, plus shared memory.

From a process that has run a candidate nothing but fixed-size fields is parsed: outcomes are
numbers, text is for people, tables are arrays of structs.  There are two areas of shared memory:
the mailbox (source, spec, text, tables) and the arena (parameters, input slots, output slots).
"""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
from collections.abc import Callable, Sequence
from enum import IntEnum, unique
from typing import NamedTuple

REQUEST = struct.Struct("<IIIQQQ32s")
"""command, sequence number, session, three numbers that depend on the command, seed.  A
reference serves several evaluations at once, each of which is a session to it; a
candidate has the one session 0.
"""

REPLY = struct.Struct("<IIQQ")
"""outcome, sequence number, nanoseconds that the process says it was busy
(testimony), bytes of text in the mailbox.
"""

SOURCE_BYTES = 1 << 20
"""Largest source that is evaluated."""

SPEC_BYTES = 1 << 20
TEXT_BYTES = 16 << 10
TABLE_BYTES = 64 << 10
"""Sizes of the areas for a problem's description, for an error's text or other words, and for
compiled kernels and notes each.
"""

SOURCE_AT = 0
SPEC_AT = SOURCE_AT + SOURCE_BYTES
TEXT_AT = SPEC_AT + SPEC_BYTES
TABLE_AT = TEXT_AT + TEXT_BYTES
NOTES_AT = TABLE_AT + TABLE_BYTES
POINTERS_AT = NOTES_AT + TABLE_BYTES
POINTERS_BYTES = 64 << 10
LAUNCHES_AT = POINTERS_AT + POINTERS_BYTES
LAUNCHES_BYTES = 1 << 20
QUEUED_AT = LAUNCHES_AT + LAUNCHES_BYTES
MAILBOX_BYTES = QUEUED_AT + 8
"""Areas of the mailbox.  Notes: recorded launches, which a candidate's process writes for the
builder and the referee does not parse.  Pointers: addresses of the outputs of a RUN, 8 bytes
each, call by call.  Launches: rows of the profiled call (launch_records.py).  Queued: one
byte, which a process sets to 1 once the host's part of a RUN that copies its outputs is done,
and only the device's is left.
"""

COMPILED_ROW = struct.Struct("<128s512s2048sIiii")
"""name, signature, message, outcome (0 failed, 1 ok, 2 not attempted); registers,
spilled, shared (−1: unknown).
"""


OTHER_FUNCTION = "another function outside the interpreter than the one that ran"
"""Message of a COMPILED_ROW: the kernel asks whether it is interpreted
(workers.backends.support.kernel_digest).
"""


ESTIMATED_INPUTS = 3
"""Copies of a problem's inputs in the estimate that ESTIMATE answers."""

ABSENT_BIT = 32
"""First bit, in a candidate's answer to ARENA, of those for constants without a counterpart in its
model (problem_spec.MAX_CONSTANTS).
"""


@unique
class Command(IntEnum):
    """Requests of the referee."""

    LOAD = 1
    """Execute the source in the mailbox; a: bytes of source, b: bytes of spec; c: for a
    reference, 1 for a problem by cases.
    """
    ARENA = 2
    """Map the arena of the descriptor that is sent along; a and b: slots for inputs and for
    expected outputs (problem_spec.Slots).  A candidate answers a bit for each of the spec's
    constants that its model has and, from ABSENT_BIT on, for each without a counterpart in it.
    """
    DESCRIBE = 3
    """Reference only: build the model under the seed and write its spec into the mailbox; a: index
    of the case, for a problem by cases; b: 1 if no other evaluation uses the device's memory.
    """
    GENERATE = 4
    """Reference only: fill slots a … a+b−1 with inputs drawn under the seed, rows c and following
    of a batch, and with their expected outputs if the arena has as many slots for those.
    """
    ESTIMATE = 18
    """Reference only: answers an estimate of the device memory, in bytes, that describing
    the problem takes; 0 if unknown.
    """
    GIVE_BACK = 20
    """Reference only: release cached device memory, which ends the sharing of segments."""
    EXPECT = 19
    """Reference only: compute the expected outputs for the inputs in slots a … a+b−1, into the
    first slots for expected outputs or into the memory of a descriptor; c: 1 for the reference's
    own outputs only.  Answers the number of calls computed in fp64.
    """
    VARY = 15
    """Reference only: fill slots a, a+1, … with c input sets for each variant in the bit mask b, in
    the order of their numbers, and with their expected outputs.  Answers the mask of the variants
    that were made, and the reasons for the others as text.
    """
    SECOND_LOOK = 21
    """Reference only: in output slot a, replace the wrong elements of the answer to the inputs in
    slot a by the expected ones (workers/shims/problem/answers/equivalent_answers.py); b: 1 to
    accept ties only. Answers nanoseconds of processor time, and findings on each output as JSON.
    """
    PREDICT = 26
    """Reference only: for the answer in output slot a to the inputs in slot a, sums of its errors
    and of those that narrow factors of products would cause
    (workers/shims/problem/answers/narrow_products.py); b: 0, or the number of a control; c: bit
    mask of the predictions that are wanted.  Answers nanoseconds of processor time, and the sums as
    JSON (product_errors.py).
    """
    RUN = 5
    """Call the model b times on slots a, a+1, …; c: delivery of the outputs, a `Delivering`."""
    TESTIFY = 6
    """Candidate only: write the launches of the profiled call into the mailbox; answers their
    number, and the number of launches of the candidate's own kernels in all calls.
    """
    CAUGHT = 27
    """Candidate only: answers with the failures of its kernels and extensions that its source
    caught, as text of one line each.
    """
    COMPILE = 7
    """Builder only: compile the kernels in the notes for a GPU; a: compute capability × 10."""

    CODE = 22
    """Write the compiler's output for the kernels over the launches in the mailbox
    (kernel_code.py): a builder after COMPILE, a candidate on a GPU after PROFILE.
    Answers the number of texts.
    """

    WARM = 8
    """Create the context on the device, before LOAD."""

    ABLATE = 9
    """Candidate only: replace launches of its kernels as the `AblationMode`s in a say
    (`packed_modes`), of which there are b; allowed before LOAD.  One mode holds from here on;
    several hold for one call each of every RUN of as many calls, which copies its outputs.  Answers
    how many launches were left out so far, in the modes NOTHING and SILENT; and `Recorder.mapped`
    of the last call in the mode NOTE.
    """

    COMPILE_FIRST = 11
    """Compile and launch a first kernel, after WARM."""

    LOAD_OPERATIONS = 25
    """Reference only: run the operations that describing any problem takes, after WARM."""

    SEGMENT = 12
    """Share the allocation of device memory around address a: answers its base and
    size, with a descriptor.
    """

    RENEW = 16
    """Candidate only: construct a new model under the seed, with kernels not
    replaced; REFIT sets its parameters.
    """

    REFIT = 17
    """Copy the parameters in the arena into the model; a reference copies the spec's
    constants only.
    """

    RELEASE = 13
    """Reference only: end the session; answers whether cached memory was released,
    which ends the sharing of segments.
    """

    EVENTS = 14
    """Make b untimed calls on slot a, then c calls, each timed by the process's own events;
    answers the mean in nanoseconds.
    """

    PROFILE = 10
    """Candidate only: profile calls from slot a on; b: 0 for one call, with each launch of the
    candidate's own kernels between two events; else the number of calls for the driver's profiler,
    which records all work of the device.
    """

    CAPTURE = 23
    """Record the calls on slots a … a+b−1 as a CUDA graph, with their outputs
    delivered by `Delivering` c (COPY or CAPTURE); b: 0 to delete all graphs.  The
    pointers hold the addresses of the outputs.
    """

    SHORTAGES = 24
    """Answers how many allocations of device memory have failed in this process without an error
    (workers/shims/shortages.py).
    """


class ReplyCode(IntEnum):
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
    """The launch itself: no substitute."""
    NOTHING = 1
    """No operation; unwritten memory is filled with NaN meanwhile."""
    COPY = 2
    """Copy of the first tensor into later ones."""
    COPY_BACK = 3
    """Copy of the last tensor into earlier ones."""
    KEEP = 4
    """The launch itself; the bytes that it writes are kept."""
    REPLAY = 5
    """Copy of the bytes kept by KEEP, whatever the arguments are."""
    SILENT = 6
    """No operation, with unwritten memory left as it is: undetectable for the candidate."""
    SCALE = 7
    """Multiples of tensors by which the launches kept by KEEP or NOTE were explained
    (workers.backends.recording.scaled_copies)."""
    NOTE = 8
    """The same as KEEP; tensors that the library computes are noted (earlier_tensors.py there)."""
    MAP = 9
    """The launch itself, if each of its results followed from a few elements of tensors that the
    library had computed in the mode NOTE (element_locality.py there); else as in SCALE,
    or, if there is no multiple, the bytes kept by NOTE, turned (written_values.turned).
    """


MODE_BITS = 4
"""Bits of an ablation mode among several in one number."""


def packed_modes(modes: Sequence[AblationMode]) -> int:
    """The modes as one number, the first in the lowest bits."""
    return sum(mode << MODE_BITS * at for at, mode in enumerate(modes))


def unpacked_modes(number: int, count: int) -> list[AblationMode]:
    """The modes in a number.  Raises ValueError for a mode that does not exist."""
    mask = (1 << MODE_BITS) - 1
    return [AblationMode(number >> MODE_BITS * at & mask) for at in range(count)]


class Delivering(IntEnum):
    """Ways to deliver the outputs of a RUN."""

    COPY = 0
    """Each output is copied into its slot while the clock runs."""
    SURVEY = 1
    """Outputs are copied and also kept; the pointers hold their addresses, which the
    referee then maps.
    """
    HOLD = 2
    """Outputs are kept where the model put them, at the addresses in the pointers.  An output
    outside of the shared segments is copied (pointer 0).
    """
    CAPTURE = 3
    """HOLD while calls are recorded as a graph, also for outputs outside of the shared segments."""
    REPLAY = 4
    """Calls are replays of their slots' graphs, which deliver outputs in the way in
    which they were recorded.
    """

    @property
    def points(self) -> bool:
        """True if the pointers hold the addresses of outputs once a block is done."""
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
    """Descriptor that was sent along."""


class Reply(NamedTuple):
    """Answer of a confined process."""

    outcome: ReplyCode
    number: int = 0
    """Result of the command; if none is documented there, busy nanoseconds."""
    text: int = 0
    """Second result of the command; if none is documented there, bytes of text in the mailbox."""
    fd: int | None = None
    """Descriptor to be sent along, which is closed afterwards."""


Answer = Callable[[Request], Reply]


def receive_with_fd(channel: socket.socket, size: int) -> tuple[bytes, int | None]:
    """The next message, and the descriptor that was sent along, if any."""
    fds = array.array("i")
    message, ancillary, _, _ = channel.recvmsg(size, socket.CMSG_LEN(fds.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: fds.itemsize])
    return message, fds[0] if fds else None


def answer_requests(channel: socket.socket, answer: Answer) -> None:
    """Answer requests, one reply each, until the referee closes the channel: the
    loop of every confined process.
    """
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
            channel.sendmsg(
                [packed], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [reply.fd]))]
            )
            os.close(reply.fd)


def put_text(mailbox: mmap.mmap, text: str) -> int:
    """Write text for people into the mailbox, its beginning and its end if it is too
    long; returns its length in bytes.
    """
    data = text.encode("utf-8", "replace")
    if len(data) > TEXT_BYTES:
        half = TEXT_BYTES // 2 - 50
        data = (
            data[:half] + f"\n… {len(data) - 2 * half:,} bytes left out …\n".encode() + data[-half:]
        )
    mailbox[TEXT_AT : TEXT_AT + len(data)] = data
    return len(data)


def get_text(mailbox: mmap.mmap, length: int) -> str:
    """Text for people from the mailbox: capped, undecodable bytes and NUL replaced."""
    data = mailbox[TEXT_AT : TEXT_AT + min(length, TEXT_BYTES)]
    return data.decode("utf-8", "replace").replace("\x00", "\ufffd")


def field_text(data: bytes) -> str:
    """Text of a fixed-size field."""
    return data.split(b"\x00", 1)[0].decode("utf-8", "replace")
