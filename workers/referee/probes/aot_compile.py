"""EVALUATE: ahead-of-time compilation of a candidate's Triton kernels for a GPU, on
a machine without one.

The kernels are compiled by a builder: another confined process, in which Triton does not
interpret.  The candidate's process recorded how they are launched; the referee passes
that record on without reading it.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.evidence import CompiledKernel, KernelCode
from workers.protocol import control_channel, kernel_code
from workers.protocol.control_channel import Command
from workers.referee.processes.process_handle import PROCESS_ERRORS
from workers.referee.resources import Resources
from workers.sandbox.process_errors import TimedOut

TARGET_CAPABILITY = 90
"""Compute capability that kernels are compiled for, times ten."""
TARGET_NAME = "sm_90 (H100, H200)"
"""Its name, with the devices that have it."""
TIMEOUT_S = 20.0
"""Seconds for loading the source, for compiling its kernels, and for their code."""
LONGEST_REASON = 200
"""Characters of the compiler's reason in an error message; the log has all of it."""

_OUTCOMES = {0: "failed", 1: "ok", 2: "not_attempted"}


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """Results of the compiler, one for each distinct launch."""

    kernels: tuple[CompiledKernel, ...]
    codes: tuple[KernelCode, ...] = ()


def precompile(resources: Resources, source: bytes, notes: bytes) -> Compiled:
    """Compile the launches in `notes` (JSON from the candidate's process, not parsed
    here) for TARGET_CAPABILITY.

    A builder that fails or times out counts against no candidate: its kernels are `not_attempted`.
    """
    builder = resources.builder()
    try:
        builder.load_builder(source, notes, TIMEOUT_S)
        rows, _ = builder.ask(Command.COMPILE, TIMEOUT_S, a=TARGET_CAPABILITY)
        most = control_channel.TABLE_BYTES // control_channel.COMPILED_ROW.size
        kernels = tuple(_row(builder.mailbox[:], index) for index in range(min(rows, most)))
        texts, _ = builder.ask(Command.CODE, TIMEOUT_S)
        return Compiled(kernels=kernels, codes=kernel_code.read(builder.mailbox, texts))
    except PROCESS_ERRORS as error:
        reason = f"no answer within {TIMEOUT_S:g} s" if isinstance(error, TimedOut) else str(error)
        return Compiled(
            kernels=(
                CompiledKernel(
                    name="*", signature="", outcome="not_attempted", message=reason[:2000]
                ),
            )
        )
    finally:
        builder.close()


def reason(log: str) -> str:
    """The compiler's reason in one line: its last one that is no excerpt of the source."""
    lines = [line.strip() for line in log.splitlines() if line.strip(" ^~\t")]
    return lines[-1][:LONGEST_REASON] if lines else "no reason given"


def _row(mailbox: bytes, index: int) -> CompiledKernel:
    fields = control_channel.COMPILED_ROW.unpack_from(
        mailbox, control_channel.TABLE_AT + index * control_channel.COMPILED_ROW.size
    )
    name, signature, message, outcome, *counts = fields
    registers, spilled, shared = (count if count >= 0 else None for count in counts)
    return CompiledKernel(
        name=control_channel.field_text(name),
        signature=control_channel.field_text(signature),
        message=control_channel.field_text(message),
        outcome=_OUTCOMES.get(outcome, "not_attempted"),
        registers=registers,
        spill_bytes=spilled,
        shared_bytes=shared,
    )
