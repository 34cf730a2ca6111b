"""The shim inside a builder's process: compiles a candidate's Triton kernels for a
GPU that need not be there.

Confined like a candidate, because the source is executed here too.  Its report is
advice about the candidate.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction

from workers.backends import base
from workers.backends.support import kernel_constants, kernel_digest
from workers.protocol import control_channel, kernel_code
from workers.protocol.control_channel import Command, Reply, ReplyCode, Request
from workers.shims import call_errors, warmup

_FAILED, _OK, _NOT_ATTEMPTED = 0, 1, 2
KILLED = re.compile(
    r"`ptxas` failed with error code -\d|No space left on device|Memory allocation failure"
)
"""Messages of a compiler that a signal ended, or that lacked the host's disk or
memory: no fault of the kernel.
"""

FOREIGN = "Unsupported function referenced"
"""Triton's words for a kernel that calls Python or torch, which its interpreter would run."""

LONGEST_TEXT = 1500
"""Characters of a compiler's text before its reason: together they fit in a row."""

RESOURCES_S = 5.0
"""Longest time in seconds for the figures of one kernel, which take a few milliseconds; the source
has 20 for all of its kernels.
"""

_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def prepare() -> None:
    """Prepare the zygote for all builders."""
    warmup.load_compiler()


def serve(channel: socket.socket, scratch: Path) -> None:
    """Answer commands until the channel closes."""
    control_channel.answer_requests(channel, Shim(scratch).answer)


class Shim:
    """Shim of one source: executes it and compiles its kernels."""

    def __init__(self, scratch: Path) -> None:
        """`scratch`: the only folder that may be written."""
        self._scratch = scratch
        self._mailbox: mmap.mmap | None = None
        self._launches: list[dict[str, Any]] = []
        self._module: Any = None
        self._nested: list[Any] = []
        """Kernels that were created anywhere while the module was loaded."""
        self._codes: list[tuple[str, Any]] = []
        """Name of each compiled kernel, and its code by form."""

    def answer(self, request: Request) -> Reply:
        """Carry out one request; the number of COMPILE is rows."""
        command, _, a, b, _, _, fd = request
        try:
            if command == Command.LOAD and fd is not None:
                self._mailbox = mmap.mmap(fd, control_channel.MAILBOX_BYTES)
                os.close(fd)
                path = self._scratch / "candidate.py"
                path.write_bytes(self._mailbox[:a])
                self._launches = json.loads(
                    self._mailbox[control_channel.NOTES_AT : control_channel.NOTES_AT + b]
                )
                self._module = base.execute(path)
                self._nested = [each for each in gc.get_objects() if type(each) is JITFunction]
                return Reply(ReplyCode.DONE)
            if command == Command.COMPILE and self._mailbox is not None:
                rows = [self._compile(launch, a) for launch in self._launches]
                table = b"".join(rows)[: control_channel.TABLE_BYTES]
                self._mailbox[control_channel.TABLE_AT : control_channel.TABLE_AT + len(table)] = (
                    table
                )
                return Reply(ReplyCode.DONE, len(rows))
            if command == Command.CODE and self._mailbox is not None:
                return Reply(ReplyCode.DONE, kernel_code.write(self._mailbox, self._codes))
            return Reply(ReplyCode.UNSUPPORTED)
        except BaseException as error:  # noqa: BLE001 (stands around candidate code)
            assert self._mailbox is not None
            return Reply(
                ReplyCode.LOAD_FAILED,
                0,
                control_channel.put_text(self._mailbox, call_errors.explain(error)),
            )

    def _compile(self, launch: dict[str, Any], capability: int) -> bytes:
        """One row of the table: the compiler's figures for one launch."""
        name = str(launch["name"])
        signature = ", ".join(f"{key}: {kind}" for key, kind in launch["signature"].items())
        found = self._functions(name)
        if not found:
            return _row(
                name, signature, "no such kernel existed once the module was loaded", _NOT_ATTEMPTED
            )
        function = self._function(name, str(launch.get("digest")))
        if function is None:
            return _row(name, signature, control_channel.OTHER_FUNCTION, _FAILED)
        try:
            constants = {
                key: kernel_constants.read(form, self._function)
                for key, form in launch["constants"].items()
            }
            source = ASTSource(function, launch["signature"], constants)
            compiled = triton.compile(
                source, target=GPUTarget("cuda", capability, 32), options=launch["options"]
            )
        except (CompilationError, PTXASError, OutOfResources) as error:
            outcome = _NOT_ATTEMPTED if KILLED.search(str(error)) else _FAILED
            return _row(name, signature, explained(error), outcome)
        except RuntimeError as error:
            outcome = _FAILED if FOREIGN in str(error) else _NOT_ATTEMPTED
            return _row(name, signature, f"{type(error).__name__}: {error}", outcome)
        except Exception as error:  # noqa: BLE001 (a fault of this reconstruction must not accuse the candidate)
            return _row(name, signature, f"{type(error).__name__}: {error}", _NOT_ATTEMPTED)
        self._codes.append((name, compiled.asm))
        registers, spilled = self._resources(compiled.asm["cubin"])
        return _row(name, signature, "", _OK, registers, spilled, compiled.metadata.shared)

    def _function(self, name: str, digest: str) -> Any | None:
        """The kernel of that name with this digest: the one that was interpreted, or
        a helper that it calls.
        """
        return next(
            (each for each in self._functions(name) if kernel_digest.digest(each) == digest), None
        )

    def _functions(self, name: str) -> list[Any]:
        """Kernels of that name: the module's own first, then those nested in
        functions and classes.
        """
        function = getattr(self._module, name, None)
        while function is not None and not isinstance(function, JITFunction):
            function = getattr(function, "fn", None)  # below @autotune and @heuristics
        others = [
            each for each in self._nested if each.fn.__name__ == name and each is not function
        ]
        return [function, *others] if function is not None else others

    def _resources(self, cubin: bytes) -> tuple[int, int]:
        """Registers per thread and bytes of stack, as reported by cuobjdump; −1 if it fails."""
        path = self._scratch / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            shown = subprocess.run(
                [_CUOBJDUMP, "-res-usage", path],
                capture_output=True,
                text=True,
                check=False,
                timeout=RESOURCES_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return -1, -1
        found = re.search(r"REG:(\d+) STACK:(\d+)", shown.stdout)
        return (int(found[1]), int(found[2])) if found else (-1, -1)


def explained(error: Exception) -> str:
    """The compiler's text and, on a line of its own, its reason, which that of an error in a
    nested function lacks.  A long text leaves room for the reason in a row.
    """
    text = f"{type(error).__name__}: {error}"
    reason = " ".join(call_errors.compilers_reason(error).split())
    return f"{text[:LONGEST_TEXT]}\n{reason}" if reason else text


def _row(
    name: str,
    signature: str,
    message: str,
    outcome: int,
    registers: int = -1,
    spilled: int = -1,
    shared: int = -1,
) -> bytes:
    texts = (
        name.encode()[:127],
        signature.encode()[:511],
        message.encode("utf-8", "replace")[:2047],
    )
    return control_channel.COMPILED_ROW.pack(*texts, outcome, registers, spilled, shared)


if __name__ == "__main__":
    sys.exit("started by the zygote only")
