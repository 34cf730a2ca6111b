"""BROWSE: endpoints for monitoring scripts of the KernelGYM protocol: health, queues, workers; and
`/debug/validate`."""

from __future__ import annotations

import ast
import os
import time
from datetime import UTC
from pathlib import Path
from typing import Any

import flask
from werkzeug.exceptions import BadRequest, Conflict, NotFound
from werkzeug.wrappers import Response

from app import routing
from app.domain.job import JobState
from app.domain.source import syntax_tree
from app.store.queue import devices, jobs, kernelgym
from app.store.queue.devices import Device
from app.store.user import audit
from app.web import request_context
from app.web.body_limits import large
from app.web.compat.kernelgym import requests, responses
from app.web.compat.kernelgym.requests import EvaluationRequest
from app.web.identity import current_user, requires
from app.web.query_parameters import checks_parameters, reads

blueprint = flask.Blueprint("service", __name__)
mounted = flask.Blueprint("mounted", __name__)
"""Routes with paths that at the root mean something else here."""

HOUR_S = 3600.0
LEAST_ERRORS = 3
"""Infrastructure faults from which on a candidate is listed, unless the request says otherwise."""
_started = time.monotonic()


@mounted.get("/")
@requires("read")
def about() -> Response:
    """Name and version of this service."""
    about = {
        "name": "KernelGym",
        "version": "1.0.0",
        "description": "GPU Kernel Evaluation Service (kernel-assay)",
    }
    return flask.jsonify(**about, timestamp=responses.timestamp())


@mounted.get("/metrics")
@requires("read")
def metrics() -> Response:
    """The last hour in numbers.  At the root, `/metrics` is for Prometheus."""
    with request_context.database().snapshot() as connection:
        count, passed, mean_s = kernelgym.over_since(connection, HOUR_S)
        states = jobs.counts(connection)
    usage = _usage()
    return flask.jsonify(
        timestamp=responses.timestamp(),
        performance_metrics={
            "avg_processing_time": mean_s,
            "throughput_per_hour": count,
            "success_rate": passed / count if count else None,
        },
        resource_metrics={
            "avg_gpu_utilization": None,
            "memory_usage_percent": usage["memory_percent"],
            "cpu_usage_percent": usage["cpu_percent"],
        },
        queue_metrics={str(state): number for state, number in states.items()},
        error_metrics={"failed_jobs": states[JobState.FAILED]},
    )


@blueprint.get("/health")
@requires("read")
def health() -> Response:
    """`healthy` as long as the database answers; the counters are real."""
    with request_context.database().snapshot() as connection:
        states = jobs.counts(connection)
        listed = devices.listed(connection)
    gpus = [_gpu(each) for each in listed if each.device_class != "cpu"]
    return flask.jsonify(
        status="healthy",
        timestamp=responses.timestamp(),
        gpu_status=(
            {f"cuda:{n}": gpu for n, gpu in enumerate(gpus)}
            if gpus
            else {"error": "no GPU has joined"}
        ),
        queue_status={
            "pending": states[JobState.QUEUED],
            "processing": states[JobState.RUNNING],
            "completed": states[JobState.FINISHED],
        },
        memory_usage=_usage(),
        active_tasks=states[JobState.RUNNING],
        total_processed=states[JobState.FINISHED] + states[JobState.FAILED],
        uptime=time.monotonic() - _started,
    )


@blueprint.get("/queue/status")
@requires("read")
def queues() -> Response:
    """Number of waiting jobs, in all and per device."""
    with request_context.database().snapshot() as connection:
        waiting = jobs.backlog(connection, 0.0)
    pending = sum(each.jobs for each in waiting)
    return flask.jsonify(
        pending=pending,
        pending_by_prefix={"kernelgym": pending, "kernelserver": 0},
        worker_queues={each.device: each.jobs for each in waiting if each.device},
    )


@blueprint.get("/workers/status")
@requires("read")
def workers() -> Response:
    """Every device, from the registry that all processes share."""
    return flask.jsonify({_worker_id(device): _worker(device) for device in _devices()})


@blueprint.post("/worker/register")
@requires("operate")
@checks_parameters
def register() -> Response:
    """Say that a worker is registered: workers join through the broker, and none can
    through this.
    """
    device = _known("worker_id", "device")
    worker_id = _worker_id(device)
    return flask.jsonify(
        success=True, message=f"Worker {worker_id} registered", node_id=device.node
    )


@blueprint.post("/worker/heartbeat")
@requires("operate")
@checks_parameters
def heartbeat() -> Response:
    """Say that a worker is known; its heartbeat goes another way."""
    return flask.jsonify(
        success=True, message=f"Heartbeat updated for {_worker_id(_known('worker_id'))}"
    )


@blueprint.post("/worker/unregister")
@requires("operate")
@checks_parameters
def unregister() -> Response:
    """Drain the device: it finishes its job and takes no more."""
    return flask.jsonify(success=True, message=f"Worker {_drained()} unregistered")


@blueprint.post("/worker/evict_from_lb")
@requires("operate")
@checks_parameters
def evict() -> Response:
    """The same as unregister."""
    return flask.jsonify(success=True, message=f"Worker {_drained()} evicted from LB")


@blueprint.post("/node/allocate")
@requires("operate")
@checks_parameters
def allocate() -> Response:
    """The node's name here: it follows from the host's, so that asking again gives the same."""
    hostname, asked = _argument("hostname"), flask.request.args.get("node_name")
    own = routing.node_name(hostname)
    taken = {device.node for device in _devices()}
    if asked and routing.node_name(asked) != own and routing.node_name(asked) in taken:
        raise Conflict(
            f"node_name {asked!r} already assigned to another hostname than {hostname!r}"
        )
    return flask.jsonify(node_id=routing.node_name(asked) if asked else own, hostname=hostname)


@blueprint.get("/monitoring/problematic-codes")
@requires("read")
@reads("min_errors")
def problematic() -> Response:
    """Candidates that failed by an infrastructure fault again and again: they kill workers."""
    asked = request_context.number_argument("min_errors")
    least = LEAST_ERRORS if asked is None else asked
    with request_context.database().snapshot() as connection:
        found = kernelgym.problematic(connection, least)
    codes = [{"code_hash": code_hash, "error_count": count} for code_hash, count in found]
    return flask.jsonify(
        status="success",
        min_errors_threshold=least,
        problematic_codes=codes,
        total_count=len(codes),
    )


@blueprint.get("/monitoring/retry-queue")
@requires("read")
def retries() -> Response:
    """Jobs that wait for another attempt."""
    with request_context.database().snapshot() as connection:
        count, listed = kernelgym.retries(connection)
    following = [
        {
            "task_id": each.task_id,
            "retry_count": each.attempts,
            "scheduled_for": each.since.isoformat(),
        }
        for each in listed
    ]
    return flask.jsonify(status="success", retry_queue_size=count, next_retries=following)


@blueprint.get("/monitoring/worker-health")
@requires("read")
def worker_health() -> Response:
    """Every device, and whether it is in quarantine."""
    found = {
        _worker_id(device): {
            **_worker(device),
            "cuda_error_shutdown": device.state == "quarantined",
        }
        for device in _devices()
    }
    return flask.jsonify(status="success", workers=found)


@blueprint.post("/monitoring/clear-error-history/<code_hash>")
@requires("operate")
def clear_errors(code_hash: str) -> Response:
    """Nothing is held against a candidate: failures are counted from jobs, and
    posting a task again evaluates it.
    """
    return flask.jsonify(
        status="success", message=f"Cleared error history for code hash {code_hash}"
    )


@blueprint.post("/debug/validate")
@requires("submit")
@large
def validate() -> Response:
    """Return whether the sources parse and define the required names; nothing is evaluated."""
    body = requests.read(flask.request.get_data(), EvaluationRequest)
    more: dict[str, Any] = {}
    if body.by_cases:
        checked = {"cases": _check(body.problem_source, "get_cases", ast.FunctionDef)}
    else:
        checked = {"reference": _check(body.problem_source, body.entry_point)}
        more["cache"] = {"use_reference_cache": body.use_reference_cache, "uuid": body.uuid}
        more["resources"] = body.resources or {}
    checked["kernel"] = _check(body.kernel_code, body.kernel_class)
    errors = [f"{name}: {each['error']}" for name, each in checked.items() if each["error"]]
    names = (
        "backend",
        "num_correct_trials",
        "num_perf_trials",
        "timeout",
        "priority",
        "device_preference",
    )
    return flask.jsonify(
        valid=not errors,
        errors=errors,
        **checked,
        **more,
        task_id=body.task_id,
        workflow=body.served,
        request_info={name: getattr(body, name) for name in (*names, "force_refresh")}
        | {"workflow": body.served},
    )


def _check(
    text: str, entry_point: str, kind: type[ast.ClassDef | ast.FunctionDef] = ast.ClassDef
) -> dict[str, Any]:
    """Check a source without running it: does it define a class, or a function, of that name?"""
    error = None
    try:
        tree = syntax_tree.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        error = f"expected Python source: {problem}"
    else:
        names = {node.name for node in ast.walk(tree) if isinstance(node, kind)}
        if entry_point not in names:
            word = "class" if kind is ast.ClassDef else "function"
            error = f"expected a {word} {entry_point}, found {', '.join(sorted(names)) or 'none'}"
    return {"valid": error is None, "error": error, "entry_point": entry_point}


def _devices() -> list[Device]:
    with request_context.database().snapshot() as connection:
        return devices.listed(connection)


def _worker_id(device: Device) -> str:
    return f"{device.node}.cpu" if device.device_class == "cpu" else device.device


def _worker(device: Device) -> dict[str, Any]:
    return {
        "device": "cpu" if device.device_class == "cpu" else f"cuda:{device.device_index}",
        "status": "offline" if device.state == "offline" else "online",
        "last_heartbeat": device.heartbeat_at.astimezone(UTC).isoformat(),
        "node_id": device.node,
        "hostname": device.node,
    }


def _gpu(device: Device) -> dict[str, Any]:
    """Stored facts about a GPU: the driver is not asked here."""
    unknown = dict.fromkeys(
        ("memory_total", "memory_allocated", "memory_reserved", "memory_used_percent")
    )
    name = device.fingerprint.get("device_name", device.device_class)
    return {
        "name": name,
        **unknown,
        "available": device.state == "online",
        "worker_id": _worker_id(device),
    }


def _argument(name: str) -> str:
    value = flask.request.args.get(name)
    if not value:
        raise BadRequest(f"query parameter {name!r} is required")
    return value


def _known(*names: str) -> Device:
    """The device that the query names; 409 for one that no worker serves."""
    worker_id, *_ = (_argument(name) for name in names)
    for device in _devices():
        if _worker_id(device) == worker_id:
            return device
    raise Conflict(
        f"no worker {worker_id!r}: start `assay workers run` on its host, and it joins by itself"
    )


def _drained() -> str:
    worker_id = _argument("worker_id")
    for device in _devices():
        if _worker_id(device) == worker_id:
            break
    else:
        raise NotFound(f"no worker {worker_id!r}")
    user = current_user()
    with request_context.database().begin() as connection:
        devices.drain(
            connection,
            device.device,
            reason="evicted through the KernelGYM routes",
            changed_by=user.name,
        )
        audit.record(connection, user, "device.drain", f"device {device.device}")
    return worker_id


def _usage() -> dict[str, Any]:
    """Load and memory of the machine that serves this."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    total, available = kib["MemTotal"], kib["MemAvailable"]
    return {
        "cpu_percent": min(100.0, 100 * os.getloadavg()[0] / (os.cpu_count() or 1)),
        "memory_percent": 100 * (1 - available / total),
        "memory_available": f"{available / 2**20:.1f}GB",
        "memory_total": f"{total / 2**20:.1f}GB",
    }
