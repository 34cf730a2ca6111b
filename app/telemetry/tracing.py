"""Traces, where OpenTelemetry is installed (`pip install 'kernel-assay[otel]'`) and
told where to send them.

The spans of a job, from enqueue to store, are one trace, and the trace's id is the job's id:
so messages carry nothing for it, a job that runs again on another host stays in its trace,
and a result leads to its trace.

Without the packages, or without `OTEL_EXPORTER_OTLP_ENDPOINT`, every function here does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from uuid import UUID

try:
    from opentelemetry import trace
except ImportError:
    _installed = False
else:
    _installed = True

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.id_generator import IdGenerator

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""OpenTelemetry's own variable: the collector, e.g. http://collector:4318."""

_LOW_64_BITS = (1 << 64) - 1
_root: ContextVar[UUID | None] = ContextVar("assay_root_span", default=None)
"""Set the job with the first span, which begins now."""


class NotInstalledError(RuntimeError):
    """Traces were asked for and the packages are not there."""


def configure(service: str) -> None:
    """Send spans of this process to the collector that the environment names, if it names one.

    Call it after the last fork: the exporter has a thread.  Raises NotInstalledError."""
    if ENDPOINT not in os.environ:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise NotInstalledError(
            f"{ENDPOINT} is set: expected `pip install 'kernel-assay[otel]'`, found no {error.name}"
        ) from error
    provider = TracerProvider(
        resource=Resource.create({"service.name": service}), id_generator=_ids()
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


@contextmanager
def span(name: str, job_id: UUID, **attributes: str | int | float) -> Iterator[None]:
    """A span of the job's trace around the block; below the span that is open, if
    that is of the same job.
    """
    if not _installed:
        yield
        return
    tracer = trace.get_tracer("assay")
    described: dict[str, Any] = {"assay.job_id": str(job_id), **attributes}
    with tracer.start_as_current_span(name, context=_context(job_id), attributes=described):
        yield


def begin(name: str, job_ids: Iterable[UUID]) -> None:
    """A span of no length for each of the jobs, this moment: every other span of its
    trace stands below it.
    """
    if not _installed:
        return
    for job_id in job_ids:
        token = _root.set(job_id)
        try:
            trace.get_tracer("assay").start_span(
                name,
                context=trace.set_span_in_context(trace.INVALID_SPAN),
                attributes={"assay.job_id": str(job_id)},
            ).end()
        finally:
            _root.reset(token)


def _ids() -> IdGenerator:
    """Random ids, but those of the job where its first span begins."""
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            job_id = _root.get()
            return super().generate_trace_id() if job_id is None else job_id.int

        def generate_span_id(self) -> int:
            job_id = _root.get()
            return super().generate_span_id() if job_id is None else job_id.int & _LOW_64_BITS

    return Ids()


def _context(job_id: UUID) -> Context | None:
    """None where a span of the job is open already; else a parent that every process
    makes alike from the id.
    """
    if trace.get_current_span().get_span_context().trace_id == job_id.int:
        return None
    parent = trace.SpanContext(
        trace_id=job_id.int,
        span_id=job_id.int & _LOW_64_BITS,
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))
