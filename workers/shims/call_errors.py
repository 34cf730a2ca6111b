"""Errors of calls: the reply code, and an explanation for people."""

from __future__ import annotations

import linecache
import re
import traceback
from pathlib import Path

import triton
from triton.compiler.errors import CompilationError
from triton.runtime.errors import InterpreterError, PTXASError

from workers.protocol import exhausted_memory
from workers.protocol.control_channel import ReplyCode
from workers.shims.returned_outputs import RefusedOutputError


def outcome_of(error: BaseException, otherwise: ReplyCode) -> ReplyCode:
    """Outcome that an exception of untrusted code means."""
    if isinstance(error, RefusedOutputError):
        return error.outcome
    text = _say(error) if isinstance(error, RuntimeError) else ""
    if isinstance(error, CompilationError | PTXASError):
        return ReplyCode.COMPILE_FAILED
    if isinstance(error, MemoryError) or exhausted_memory.is_said_by(text):
        return ReplyCode.OUT_OF_MEMORY
    return otherwise


def is_out_of_memory(error: BaseException) -> bool:
    """Test whether an exception says that memory ran out."""
    return outcome_of(error, ReplyCode.CALL_FAILED) == ReplyCode.OUT_OF_MEMORY


def explain(error: BaseException) -> str:
    """Text of an exception: a line with the failure in a sentence, then the end of
    the traceback.
    """
    said = compilers_reason(error) or _say(error)
    said += WITHOUT_GRADIENTS if "does not require grad" in said else ""
    said += _place_in_kernel(error) if isinstance(error, InterpreterError) else ""
    said += FENCED if isinstance(error, SyntaxError) and _is_fenced(error) else ""
    summary = said if isinstance(error, RefusedOutputError) else f"{type(error).__name__}: {said}"
    try:
        log = "".join(traceback.format_exception(error)[-12:])
    except BaseException as secondary:  # noqa: BLE001 (the candidate's code)
        log = f"the traceback could not be printed: {type(secondary).__name__}"
    errors = _first_errors(log)
    return "\n".join(
        [_in_a_sentence(summary, errors), *([FIRST_ERRORS, *errors, ""] if errors else []), log]
    )


WITHOUT_GRADIENTS = (
    " (a call runs under torch.no_grad(): a model that differentiates enables gradients itself)"
)

FENCED = " (the source has Markdown fences, ```: send the code between them)"


def _is_fenced(error: SyntaxError) -> bool:
    """Test whether the source with the error is an answer in Markdown and not a module."""
    lines = linecache.getlines(error.filename) if error.filename else []
    return any(line.startswith("```") for line in lines)


_NOT_OF_KERNELS = (str(Path(triton.__file__).parent), str(Path(__file__).parents[1]))
"""Folders of Triton and of Assay's workers: frames of other files are the kernel's."""


def _place_in_kernel(error: InterpreterError) -> str:
    """The line of an interpreted kernel at which it failed; empty if it has none.  Triton's
    interpreter wraps the error once per function that a kernel calls.
    """
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [
        frame
        for frame in traceback.extract_tb(cause.__traceback__)
        if not frame.filename.startswith(_NOT_OF_KERNELS)
    ]
    return f" (in {lines[-1].name}, line {lines[-1].lineno}: {lines[-1].line})" if lines else ""


FIRST_ERRORS = "first errors:"
"""Heading of a compiler's errors in a message."""
NAMED_ERRORS = 10
"""Lines of a compiler's log that a message has."""
_ERROR_LINE = re.compile(r"\bfatal error\b|\berror\s*(?:[A-Z]?\d+)?\s*:|ptxas (?:error|fatal)")
_COMPILER = re.compile(r"\bnvcc\b|\bninja\b|\bptxas\b|\bc\+\+ |\bg\+\+ |NVRTC")


def _first_errors(log: str) -> list[str]:
    """The first lines of a compiler's log that state errors; empty if the text is no
    compiler's log.
    """
    if not _COMPILER.search(log):
        return []
    found = dict.fromkeys(
        line.strip()[:300] for line in log.splitlines() if _ERROR_LINE.search(line)
    )
    return [line for line in found if not line.startswith("RuntimeError:")][:NAMED_ERRORS]


_AT = re.compile(r"at (\d+:\d+):\n(?:.*\n)??([^\n]*)\n *\^(?:\n(.*))?", re.DOTALL)
"""Message of Triton's compiler: a place, the source up to it, and a reason unless
another error gives that.
"""


def compilers_reason(error: BaseException) -> str:
    """Reason of an error of Triton's compiler, with its place and line; "" for another error.
    Triton's text begins with a dozen lines of source, and the reason of an error in a nested
    function is in the error's cause.
    """
    place = line = reason = ""
    each: BaseException | None = error if isinstance(error, CompilationError) else None
    while each is not None and not reason:
        found = _AT.fullmatch(_say(each)) if isinstance(each, CompilationError) else None
        if found is None:
            reason = f"{type(each).__name__}: {_say(each)}" if place else ""
            break
        place, line, reason = found[1], found[2].strip(), found[3] or ""
        each = each.__cause__
    return f"{reason} (at {place}: {line})" if reason else ""


_ADVICE = re.compile(
    r"\n(?:Search for `cuda|CUDA kernel errors might be asynchronously).*", re.DOTALL
)
"""The same sentences after each of CUDA's errors."""


def _in_a_sentence(summary: str, errors: list[str]) -> str:
    """The message on one line; for a compiler's log, its first error."""
    if errors:
        return f"{summary.partition(':')[0]}: {errors[0]}"[:1000]
    return _ADVICE.sub("", summary).replace("\n", " ")[:1000]


def _say(error: BaseException) -> str:
    """Message of an exception.  A candidate's exception may raise when it is converted to text."""
    try:
        return str(error)
    except BaseException as secondary:  # noqa: BLE001 (the candidate's code)
        return f"an error that cannot be printed ({type(secondary).__name__})"
