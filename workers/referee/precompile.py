"""Compile a candidate's kernels for a real GPU on a machine without one, so that a compile error is seen on a laptop.

The kernels are compiled by a builder: one more confined process, in which Triton is not interpreting.  How they are
launched was recorded in the candidate's process; the referee carries that record across without reading it."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.evaluation import CompiledKernel
from workers import wire
from workers.referee.host import Host
from workers.referee.party import FailedError
from workers.sandbox.confined import Ended, TimedOut
from workers.wire import Command

TARGET_CAPABILITY = 90
TARGET_NAME = "sm_90 (H100, H200)"
TIMEOUT_S = 20.0

_OUTCOMES = {0: "failed", 1: "ok", 2: "not_attempted"}


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """The compiler's results for each distinct launch."""

    kernels: tuple[CompiledKernel, ...]


def precompile(host: Host, source: bytes, notes: bytes) -> Compiled:
    """Compile the launches in `notes` (JSON from the candidate's process, unread) for TARGET_CAPABILITY.

    A builder that fails or takes too long counts against no candidate: its kernels are `not_attempted`."""
    builder = host.builder()
    try:
        builder.load_builder(source, notes, TIMEOUT_S)
        rows, _ = builder.ask(Command.COMPILE, TIMEOUT_S, a=TARGET_CAPABILITY)
        most = wire.TABLE_BYTES // wire.COMPILED_ROW.size
        return Compiled(kernels=tuple(_row(builder.mailbox[:], index) for index in range(min(rows, most))))
    except (FailedError, Ended, TimedOut, ValueError) as error:
        reason = f"no answer within {TIMEOUT_S:g} s" if isinstance(error, TimedOut) else str(error)
        return Compiled(
            kernels=(CompiledKernel(name="*", signature="", outcome="not_attempted", message=reason[:2000]),)
        )
    finally:
        builder.close()


def _row(mailbox: bytes, index: int) -> CompiledKernel:
    fields = wire.COMPILED_ROW.unpack_from(mailbox, wire.TABLE_AT + index * wire.COMPILED_ROW.size)
    name, signature, message, outcome, *counts = fields
    registers, spilled, shared = (count if count >= 0 else None for count in counts)
    return CompiledKernel(
        name=wire.field_text(name), signature=wire.field_text(signature), message=wire.field_text(message),
        outcome=_OUTCOMES.get(outcome, "not_attempted"), registers=registers, spill_bytes=spilled, shared_bytes=shared,
    )  # fmt: skip
