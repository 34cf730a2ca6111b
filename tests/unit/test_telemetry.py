"""Log lines and traces say which job they are about."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from app.domain import ids
from app.telemetry import logs, tracing


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_lines_carry_the_job() -> None:
    stream = io.StringIO()
    logs.configure("json", stream=stream)
    log = logging.getLogger("workers.worker.job_evaluator")
    with logs.about(job_id="one", device="h200 node.0"), logs.about(attempt=2):
        log.info("said %s", "so\nand more")
    try:
        raise KeyError("gone")
    except KeyError:
        log.exception("failed")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["message"], first["level"], first["logger"]) == (
        "said so\nand more",
        "info",
        "workers.worker.job_evaluator",
    )
    assert (first["job_id"], first["device"], first["attempt"]) == ("one", "h200 node.0", "2")
    assert first["time"].endswith("+00:00")
    assert "job_id" not in second
    assert "KeyError: 'gone'" in second["traceback"]


def test_plain_lines_and_unknown_formats() -> None:
    stream = io.StringIO()
    logs.configure("plain", stream=stream)
    logging.getLogger("some").warning("careful")
    assert stream.getvalue().endswith("WARNING some: careful\n")
    with pytest.raises(ValueError, match="expected one of plain, json, got 'xml'"):
        logs.configure("xml")


def test_the_spans_of_a_job_are_one_trace_whose_id_is_the_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace_sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = trace_sdk.TracerProvider(id_generator=tracing._ids())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("app.telemetry.tracing.trace.get_tracer", provider.get_tracer)
    job_id, other = ids.new_id(), ids.new_id()
    tracing.begin("job.enqueue", [job_id])
    with tracing.span("job.evaluate", job_id, attempt=1), tracing.span("job.isolate", job_id):
        tracing.begin("job.enqueue", [other])
    enqueue, foreign, isolate, evaluate = sorted(
        exporter.get_finished_spans(), key=lambda span: span.end_time or 0
    )
    assert {span.context.trace_id for span in (enqueue, isolate, evaluate)} == {job_id.int}
    assert foreign.context.trace_id == other.int
    assert isolate.parent.span_id == evaluate.context.span_id
    assert enqueue.parent is None, "the first span of a trace is sent, too"
    assert evaluate.parent.span_id == enqueue.context.span_id  # made alike by every process
    assert dict(evaluate.attributes) == {"assay.job_id": str(job_id), "attempt": 1}
    provider.shutdown()


def test_without_an_endpoint_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tracing.ENDPOINT, raising=False)
    tracing.configure("test")
    monkeypatch.setattr(tracing, "_installed", False)
    with tracing.span("job.enqueue", ids.new_id()):
        pass
