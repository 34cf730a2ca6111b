"""EVALUATE: attribution of the fault that ended an evaluation: to the candidate, to
the problem, or to neither.
"""

from __future__ import annotations

import ast
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from app.domain.backend import BACKENDS
from app.domain.evaluation import EvaluationError, Status
from app.domain.job import Job
from workers.protocol import exhausted_memory
from workers.protocol.control_channel import ReplyCode
from workers.referee.host.device import Device
from workers.referee.processes.process_handle import PROCESS_ERRORS, FailedError
from workers.referee.processes.process_session import Session
from workers.referee.processes.reference_pool import ReferencePool
from workers.referee.session.deadline import FIRST_CALL, REFERENCE_TIMEOUT_S, Deadline
from workers.sandbox.process_errors import BrokenProtocolError, Ended, TimedOut, ZygoteError

_STATUS = {
    ReplyCode.NO_ENTRY_POINT: Status.COMPILE_ERROR,
    ReplyCode.SYNTAX_ERROR: Status.COMPILE_ERROR,
    ReplyCode.IMPORT_FAILED: Status.COMPILE_ERROR,
    ReplyCode.LOAD_FAILED: Status.COMPILE_ERROR,
    ReplyCode.COMPILE_FAILED: Status.COMPILE_ERROR,
    ReplyCode.CONSTRUCT_FAILED: Status.RUNTIME_ERROR,
    ReplyCode.CALL_FAILED: Status.RUNTIME_ERROR,
    ReplyCode.OUT_OF_MEMORY: Status.OUT_OF_MEMORY,
    ReplyCode.UNSUPPORTED: Status.CRASHED,
    ReplyCode.WRONG_TYPE: Status.INCORRECT,
    ReplyCode.WRONG_STRUCTURE: Status.INCORRECT,
    ReplyCode.WRONG_SHAPE: Status.INCORRECT,
    ReplyCode.WRONG_DTYPE: Status.INCORRECT,
}

OTHER_ROUNDING = (
    "not verifiable on CPU: Triton's interpreter may convert floats of one or two bytes otherwise"
    " than a GPU"
)
_CONVERTED_OTHERWISE = "float8e4b15"
"""Float of one byte that the interpreter has beside those of
workers/backends/interpreter/narrow_floats.py.
"""

BEYOND_INTERPRETER = (
    "not verifiable on CPU: Triton's interpreter lacks a feature that a kernel uses"
)
_BEYOND_INTERPRETER_SIGNS = (
    ("not supported in interpreter mode", (b"inline_asm", b"libdevice")),
    ("InterpreterError: AttributeError(\"'NoneType' object has no attribute", (b"libdevice",)),
    ("InterpreterError: ValueError('Unsupported data type')", (b"atomic_",)),
    ("InterpreterError: AttributeError(\"'str' object has no attribute 'value'", (b"dot_scaled",)),
)
"""Messages of the interpreter, each with the source text that causes it.  The second comes from a
source that loads a module of libdevice by itself: its functions are empty without a compiler.
The third comes from an atomic operation on bf16, which a GPU has.
"""


NEEDS_GPU = "the candidate asks for a GPU; this device is the CPU"
REFERENCE_NEEDS_GPU = "the reference asks for a GPU; this device is the CPU"
GPU_BRANCH = (
    "the candidate launches no kernel for inputs that are not on a GPU; this device is the CPU"
)
_NEEDS_GPU_SIGNS = (
    "Torch not compiled with CUDA enabled",
    "without ATen_cuda library",
    "Found no NVIDIA driver",
    "0 active drivers",
    "Expected a cuda device",
    "module 'torch._C' has no attribute '_cuda_",
)
"""Messages of torch and Triton where code names a GPU (`device="cuda"`, `x.cuda()`,
`triton.runtime.driver`, `torch.cuda.set_device(1)`).
"""

_NO_KERNEL_FOR_CPU = re.compile(
    r"arguments from the 'CPU' backend.* only available for these backends: \[CUDA\b", re.DOTALL
)
"""torch's message about an operator that is registered for GPUs and not for the CPU, which would
be the first of the list.
"""

_NO_DEVICE = "device type at start of device string"
"""Part of torch's message about a device that it does not know, which lists all that it knows."""

_REQUIRES_GPU = re.compile(r"""\bis_cuda\b|["']cuda["']|\.device\.type\b""")
"""Source text of a side's own check for a GPU, in the line of the traceback that raised or in the
condition on which that line depends.
"""


class Fault(Exception):  # noqa: N818 (it is not an error of the referee)
    """Reason why an evaluation ends without a speedup."""

    def __init__(
        self,
        status: Status,
        kind: str,
        message: str,
        log: str = "",
        *,
        out_of_memory: bool = False,
        disturbed: bool = False,
    ) -> None:
        """Fields of EvaluationError.  `out_of_memory`: memory ran out; `disturbed`: others used the
        device during every attempt to time the pair, or may have had the memory that a library
        lacked.  Among other evaluations neither is evidence against the candidate.
        """
        super().__init__(message)
        self.status = status
        self.out_of_memory = out_of_memory
        self.disturbed = disturbed
        self.error = EvaluationError(kind=kind, message=message, log=log)


def invalid(
    kind: str, message: str, log: str = "", *, out_of_memory: bool = False, disturbed: bool = False
) -> Fault:
    """A fault of status `invalid`, which counts against no candidate."""
    return Fault(
        Status.INVALID, kind, message, log, out_of_memory=out_of_memory, disturbed=disturbed
    )


def disturbed() -> Fault:
    """The fault of an evaluation that others disturbed: it is repeated with the
    device to itself (evaluate.py).
    """
    message = "other evaluations kept the device busy in every attempt"
    return invalid("disturbed", message, disturbed=True)


def too_large(why: str, available_bytes: int, log: str = "") -> Fault:
    """A fault: the problem does not fit on the device, which can provide `available_bytes`."""
    message = (
        f"the problem does not fit on this device: {why}; {available_bytes:,} bytes can be had"
    )
    return invalid("problem_too_large", message, log, out_of_memory=True)


def no_room(why: str, total_bytes: int, available_bytes: int, log: str = "") -> Fault:
    """A fault: of `total_bytes` for evaluations, others had all but `available_bytes`."""
    message = (
        f"others had the memory: {available_bytes:,} of {total_bytes:,} bytes were there; {why}"
    )
    return invalid("no_room", message, log, out_of_memory=True)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Test whether a process ran out of memory."""
    return isinstance(error, FailedError) and error.outcome is ReplyCode.OUT_OF_MEMORY


def may_lack_memory(error: BaseException | None) -> bool:
    """Test whether a process failed for a reason that may be lack of memory."""
    return isinstance(error, FailedError) and exhausted_memory.may_be_meant_by(error.message)


def may_be_interpreter_fault(job: Job, device: Device) -> bool:
    """Test whether a wrong answer may be the fault of Triton's interpreter, so that it proves
    nothing against the candidate.  False on a GPU.
    """
    return _is_interpreted(job, device) and _converts_otherwise(job.candidate)


def _converts_otherwise(source: bytes) -> bool:
    """Test whether code, not a comment or a text, names a type of which the interpreter's
    conversions may be others than a GPU's, or has blocks padded with NaN, as it pads none of bf16.
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return _CONVERTED_OTHERWISE in names or any(
        isinstance(node, ast.keyword)
        and node.arg == "padding_option"
        and isinstance(node.value, ast.Constant)
        and node.value.value == "nan"
        for node in nodes
    )


def lacks_interpreter_support(job: Job, device: Device, message: str) -> bool:
    """Test whether a call failed because the interpreter lacks an instruction or a
    device function.
    """
    return _is_interpreted(job, device) and any(
        said in message and any(name in job.candidate for name in names)
        for said, names in _BEYOND_INTERPRETER_SIGNS
    )


def names_a_gpu(device: Device, message: str, log: str = "", source: bytes = b"") -> bool:
    """Test whether a side failed because it names a GPU, or asserts that its inputs are on one, and
    this device is none: on a GPU it may be right.  `log`: text with the traceback; `source`: the
    side's own file, if known.
    """
    if device.torch_device.type != "cpu" or _NO_DEVICE in message:
        return False
    return (
        any(words in message for words in _NEEDS_GPU_SIGNS)
        or bool(_NO_KERNEL_FOR_CPU.search(message))
        or _asserts_a_gpu(message, log, source)
    )


def _asserts_a_gpu(message: str, log: str, source: bytes) -> bool:
    """Test whether the side's own check raised: its line of the traceback asks for
    the device, or depends on a condition that does, or it says so.
    """
    lines = log.rstrip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.lstrip().startswith("File ")]
    raised = " ".join(lines[frames[-1] + 1 :]) if frames else ""
    if frames and raised.lstrip().startswith("raise "):
        raised += _condition(source, lines[frames[-1]], lines[frames[-1] + 1].strip())
    own_check = message.startswith(
        ("AssertionError", "ValueError", "RuntimeError", "TypeError", "NotImplementedError")
    )
    said = re.search(
        r"\bcuda\b.*\b(tensor|device|gpu)|\b(tensor|device|gpu)s?\b.*\bcuda\b",
        message,
        re.IGNORECASE,
    )
    return own_check and bool(_REQUIRES_GPU.search(raised) or said)


def _condition(source: bytes, frame: str, statement: str) -> str:
    """The condition under which `source` executes the `raise` that a traceback shows, or ""."""
    place = re.search(r", line (\d+)", frame)
    try:
        tree = ast.parse(source)
        texts = source.decode().splitlines()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    line = int(place[1]) if place else 0
    if not 0 < line <= len(texts) or texts[line - 1].strip() != statement:
        return ""  # the traceback's line is another file's
    branches = (
        node.test
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        and any(isinstance(each, ast.Raise) and each.lineno == line for each in node.body)
    )
    return "".join(ast.unparse(test) for test in branches)


def _is_interpreted(job: Job, device: Device) -> bool:
    return device.torch_device.type == "cpu" and BACKENDS[job.backend].interpreted_on_cpu


class AttributeToProblem:
    """Context in which only the reference works: a failure is the problem's, and its
    process is discarded.
    """

    def __init__(self, references: ReferencePool, session: Session | None, device: Device) -> None:
        """`session`: its process is discarded on failure; None before there is one."""
        self._references = references
        self._session = session
        self._device = device

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        # A ZygoteError is the referee's fault; the process is unusable.
        if isinstance(error, (*PROCESS_ERRORS, ZygoteError)) and self._session is not None:
            stuck = isinstance(error, TimedOut)
            end = self._references.end_stuck if stuck else self._references.discard
            end(self._session.handle)
        if isinstance(error, PROCESS_ERRORS):
            raise self._fault(error) from error

    def _fault(self, error: Exception) -> Fault:
        log = error.log if isinstance(error, FailedError) else ""
        if isinstance(error, FailedError) and names_a_gpu(self._device, error.message, log):
            return invalid("needs_gpu", f"{REFERENCE_NEEDS_GPU} ({error.message})", log)
        timed_out = isinstance(error, TimedOut)
        message = f"no answer within {REFERENCE_TIMEOUT_S:g} s" if timed_out else str(error)
        return invalid(
            "reference_failed",
            f"the reference failed by itself: {message}",
            log,
            out_of_memory=is_out_of_memory(error),
            disturbed=may_lack_memory(error),
        )


@contextmanager
def attribute_to_profiling(deadline: Deadline) -> Iterator[None]:
    """Context of profiled calls, after calls that were right.  If such a call fails, the
    profiler may be the cause, and the process has no further answers; so the evaluation
    is `invalid`.  Lack of memory, a broken protocol, and the evaluation's own
    `deadline`, are attributed as elsewhere.
    """
    try:
        yield
    except (FailedError, Ended, TimedOut) as error:
        if (
            is_out_of_memory(error)
            or (isinstance(error, Ended) and error.out_of_memory)
            or not deadline.left_s
        ):
            raise
        log = error.log if isinstance(error, FailedError) else ""
        message = (
            "its calls were right, but not while they were profiled:"
            f" {str(error) or 'no answer in time'}"
        )
        raise invalid("profile_failed", message, log) from error


class AttributeToCandidate:
    """Context that turns an error of the candidate's process into a Fault.  An error of
    the reference is a ReferenceFailedError and passes through, as does every other
    exception: it is a fault of the referee.
    """

    def __init__(self, job: Job, device: Device) -> None:
        self._job = job
        self._device = device
        self._loaded = False

    def note_loaded(self) -> None:
        """Note that the candidate's source has been executed and its model constructed."""
        self._loaded = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, FailedError):
            raise self._of_failure(error) from error
        if isinstance(error, TimedOut):
            raise self._of_timeout(error) from error
        if isinstance(error, Ended):
            raise _of_end(error) from error
        if isinstance(error, BrokenProtocolError):
            message = f"the process broke the protocol: {error}"
            raise Fault(Status.CRASHED, "malformed_answer", message) from error

    def _of_failure(self, error: FailedError) -> Fault:
        """The fault of a command that failed, as the process answered."""
        if error.outcome is ReplyCode.CALL_FAILED and lacks_interpreter_support(
            self._job, self._device, error.message
        ):
            message = f"{BEYOND_INTERPRETER} ({error.message})"
            return invalid("not_verifiable_on_cpu", message, error.log)
        if names_a_gpu(self._device, error.message, error.log, self._job.candidate):
            return invalid("needs_gpu", f"{NEEDS_GPU} ({error.message})", error.log)
        return Fault(
            _STATUS[error.outcome],
            error.outcome.name.lower(),
            error.message,
            error.log,
            out_of_memory=is_out_of_memory(error),
            disturbed=may_lack_memory(error),
        )

    def _of_timeout(self, error: TimedOut) -> Fault:
        """The fault of a process that gave no answer in time, with the limits that it had."""
        call_s, whole_s = self._job.options.call_timeout_s, self._job.options.deadline_s
        first = "" if self._device.precompiles else f" ({FIRST_CALL * call_s:g} s the first)"
        limits = f"at most {call_s:g} s a call{first}, {whole_s:g} s in all"
        stage = "" if self._loaded else " while its source was executed or its model constructed"
        if stage and BACKENDS[self._job.backend].compiled_on_host:
            limits = f"at most {whole_s:g} s in all"
        message = str(error) or f"no answer in time{stage} ({limits})"
        return Fault(Status.TIMEOUT, "timeout", message)


def _of_end(error: Ended) -> Fault:
    """The fault of a process that has ended."""
    if os.WIFSIGNALED(error.status) and os.WTERMSIG(error.status) == signal.SIGXCPU:
        return Fault(Status.TIMEOUT, "cpu_limit", "the process used up its processor time")
    if error.out_of_memory:
        return Fault(Status.OUT_OF_MEMORY, "out_of_memory", str(error), out_of_memory=True)
    return Fault(Status.CRASHED, "crashed", str(error))
