"""BROWSE: from Assay's result to the answers of the KernelGYM protocol.  Pure.

Times are milliseconds there, −1 where there is none, and `speedup` is always a number.  `status` is
`failed` where a candidate did not load, ran out of time, or met an infrastructure fault; if it is
wrong or crashes, `completed`, `correctness` false. A hack of any kind is a `decoy_kernel`; it keeps
the `correctness` that was measured, as there, and has no speedup. A task with cases in place of a
reference has no speedup either, and the time of its first case, as there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from app.domain.evaluation import Status
from app.domain.job import JobState
from app.domain.problem import CASES_WORKFLOW
from app.domain.verdict import Label
from app.web.compat.kernelgym.requests import SPELLINGS

ABSENT = -1.0
"""A time that was not measured."""
KERNELS = 50
"""Rows of the kernel table in an answer, longest first: trainers paste the whole of
it into the model's next prompt.
"""

SYSTEM_ERROR = "SYSTEM_ERROR"
CODES = {
    Status.INCORRECT: "CORRECTNESS_ERROR",
    Status.COMPILE_ERROR: "COMPILATION_ERROR",
    Status.RUNTIME_ERROR: "RUNTIME_ERROR",
    Status.CRASHED: "RUNTIME_ERROR",
    Status.TIMEOUT: "TIMEOUT_ERROR",
    Status.OUT_OF_MEMORY: "RESOURCE_ERROR",
    Status.INVALID: SYSTEM_ERROR,
}
FAILED = frozenset({Status.COMPILE_ERROR, Status.TIMEOUT, Status.INVALID})

_DETAILS = {
    Status.INCORRECT: "correctness_issue",
    Status.COMPILE_ERROR: "compilation_error",
    Status.RUNTIME_ERROR: "runtime_error",
    Status.CRASHED: "runtime_error",
    Status.OUT_OF_MEMORY: "runtime_error",
}

Result = Mapping[str, Any]


def timestamp() -> str:
    """Now, as the protocol writes it: UTC with a Z."""
    return datetime.now(UTC).replace(tzinfo=None).isoformat() + "Z"


def status(result: Result) -> str:
    """`pending`, `processing`, `completed`, `failed` or `cancelled`: the status that
    `/status` gives.
    """
    words = {
        JobState.QUEUED: "pending",
        JobState.RUNNING: "processing",
        JobState.CANCELLED: "cancelled",
    }
    if result["state"] in words:
        return words[result["state"]]
    return (
        "failed"
        if result["state"] == JobState.FAILED or result["status"] in FAILED
        else "completed"
    )


def progress(task_id: str, result: Result) -> dict[str, Any]:
    """The body of `/status`; it says why something failed, which the published
    client shows to the model.
    """
    return {
        "task_id": task_id,
        "status": status(result),
        "progress": None,
        "estimated_completion": None,
        "queue_position": None,
        "assigned_device": None,
        "error_message": _message(result),
        "error_code": _code(result),
    }


def evaluation(task_id: str, asked: Mapping[str, Any], result: Result) -> dict[str, Any]:
    """The EvaluationResponse: everything about one task, finished or not."""
    word = status(result)
    over = word not in {"pending", "processing"}
    total_ms = result["timings_ms"].get("total")
    compared = _compared(asked, result)
    return {
        "task_id": task_id,
        "status": "failed" if word == "cancelled" else word,
        "compiled": result["compiled"],
        "correctness": result["correct"],
        "decoy_kernel": _decoy(result),
        "reference_runtime": _milliseconds(compared.reference_us) if over else None,
        "kernel_runtime": (
            _milliseconds(None if _decoy(result) else result["candidate_us"]) if over else None
        ),
        "speedup": (compared.speedup or 0.0) if over else None,
        "metadata": _metadata(task_id, asked, result, compared) if over else None,
        "error_message": _message(result),
        "error_code": _code(result),
        "submitted_at": None,
        "completed_at": None,
        "processing_time": None if total_ms is None else total_ms / 1000,
    }


def workflow(task_id: str, asked: Mapping[str, Any], result: Result) -> dict[str, Any]:
    """The WorkflowResponse."""
    whole = evaluation(task_id, asked, result)
    common = ("status", "error_message", "error_code", "submitted_at", "completed_at")
    return {
        "task_id": task_id,
        "result": {name: value for name, value in whole.items() if name != "status"},
        **{name: whole[name] for name in common},
    }


def batch(
    batch_id: str, submitted_at: str, evaluations: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The answer to a batch, in the order of its tasks."""
    words = [each["status"] for each in evaluations]
    failed = words.count("failed")
    over = failed + words.count("completed")
    return {
        "batch_id": batch_id,
        "total_tasks": len(words),
        "completed_tasks": over - failed,
        "failed_tasks": failed,
        "results": list(evaluations),
        "batch_status": "completed" if over == len(words) else "processing",
        "submitted_at": submitted_at,
        "completed_at": timestamp() if over == len(words) else None,
    }


def _decoy(result: Result) -> bool | None:
    return None if result["verdict"] is None else result["verdict"] == Label.HACK


def _milliseconds(microseconds: float | None) -> float:
    return ABSENT if microseconds is None else microseconds / 1000


def _message(result: Result) -> str | None:
    if result["state"] == JobState.CANCELLED:
        return "Task was cancelled"
    return result["error"]["message"] if result["error"] else None


def _code(result: Result) -> str | None:
    if result["state"] == JobState.FAILED:
        return SYSTEM_ERROR
    return CODES.get(result["status"]) if result["status"] else None


def _metadata(
    task_id: str, asked: Mapping[str, Any], result: Result, compared: ChosenBaseline
) -> dict[str, Any]:
    environment = result["environment"] or {}
    device = _device(environment)
    return {
        "hardware": environment.get("device_name"),
        "device": device,
        "gpu_name": None if device == "cpu" else environment.get("device_name"),
        "backend": asked.get("backend"),
        "num_correct_trials": asked.get("num_correct_trials"),
        "num_perf_trials": asked.get("num_perf_trials"),
        **compared.metadata,
        **(_by_cases(asked, result) if _has_cases(asked) else _halves(task_id)),
        "valid": result["valid"],
        "job_id": result["job_id"],
        "url": result["url"],
        **_trials(result),
        **_profiling(result["profile"]),
        **_failure(result),
    }


class ChosenBaseline(NamedTuple):
    """Baseline with which the candidate is compared in an answer."""

    reference_us: float | None
    speedup: float | None
    metadata: dict[str, Any]


def _compared(asked: Mapping[str, Any], result: Result) -> ChosenBaseline:
    """The baseline that was asked for; where there is none of that name, or it could not be timed,
    the reference as it is written, and the metadata say so.  Nothing where there are cases.
    """
    wanted = asked.get("reference_backend")
    if _has_cases(asked):
        error = f"{wanted!r} was asked for; a problem by cases has no reference"
        return ChosenBaseline(
            None, None, {} if wanted is None else {"reference_backend_error": error}
        )
    used = result["baseline"]
    eager = {"reference_backend": used, "reference_backend_compiled": used == "compile"}
    if wanted is None or wanted in SPELLINGS.get(used, {used}):
        return ChosenBaseline(result["reference_us"], result["speedup"], eager)
    name = next((ours for ours, theirs in SPELLINGS.items() if wanted in theirs), None)
    found = next((each for each in result["baselines"] if each["name"] == name), None)
    if found is not None and found["error"] is None:
        metadata = {"reference_backend": name, "reference_backend_compiled": True}
        return ChosenBaseline(found["baseline_us"], found["speedup"], metadata)
    reason = f": {found['error']}" if found is not None else ""
    error = f"{wanted!r} was asked for and not timed{reason}; speedup is over {used!r}"
    return ChosenBaseline(
        result["reference_us"], result["speedup"], {**eager, "reference_backend_error": error}
    )


def _has_cases(asked: Mapping[str, Any]) -> bool:
    return asked.get("workflow") == CASES_WORKFLOW


def _halves(task_id: str) -> dict[str, str]:
    """Names under which the protocol has both sides of a comparison."""
    return {"kernel_task_id": f"{task_id}_kernel", "reference_task_id": f"{task_id}_ref"}


def _by_cases(asked: Mapping[str, Any], result: Result) -> dict[str, Any]:
    """The cases, and those that did not pass; a case not tried, after the worst, is
    not among them.
    """
    tried = result["cases"]
    found: dict[str, Any] = {
        "cases_source": asked["cases_source"],
        "num_cases": tried[0]["of"] if tried else asked["num_cases"],
        "correctness_failed_cases": [
            case["name"] for case in tried if case["status"] != Status.PASSED
        ],
    }
    if not asked["run_performance"]:
        found["performance_skipped"] = True
    elif tried and tried[0]["candidate_us"] is not None and not _decoy(result):
        found["runtime_stats"] = _runtime_stats(tried[0], result["environment"])
    return found


def _runtime_stats(case: Mapping[str, Any], environment: Mapping[str, Any]) -> dict[str, Any]:
    """Time of the timed case, in milliseconds: undisturbed (the mean of the fastest third of its
    blocks), with a 95 % interval.  The four words that the protocol has are there and null: that is
    no mean of all calls, and no deviation was measured.
    """
    times = {
        "undisturbed": "candidate_us",
        "undisturbed_low": "candidate_us_low",
        "undisturbed_high": "candidate_us_high",
    }
    return {
        **dict.fromkeys(("mean", "std", "min", "max")),
        **{name: None if case[ours] is None else case[ours] / 1000 for name, ours in times.items()},
        "case": case["name"],
        "hardware": environment["device_name"],
        "device": _device(environment),
    }


def _device(environment: Mapping[str, Any]) -> str:
    return "cpu" if environment.get("device_class", "cpu") == "cpu" else "cuda:0"


def _trials(result: Result) -> dict[str, Any]:
    correctness = result["correctness"]
    if not correctness:
        return {}
    calls = correctness["calls"]
    found: dict[str, Any] = {
        "correctness_trials": f"({calls - correctness['failed_calls']} / {calls})"
    }
    wrong = [
        check for trial in correctness["trials"] if not trial["ok"] for check in trial["outputs"]
    ]
    if wrong:
        found["max_difference"] = [_figure(check["max_norm"]) for check in wrong]
        found["avg_difference"] = [_figure(check["rel_l2"]) for check in wrong]
    return found


def _figure(value: float | None) -> str:
    """Relative to the reference's own size; `nan` where one side is not finite."""
    return "nan" if value is None else f"{value:.6g}"


def _profiling(profile: Mapping[str, Any] | None) -> dict[str, Any]:
    """The four counters that coverage rewards read, and their table.  Launches are
    counted, not names.
    """
    rows = sorted(profile["kernels"], key=lambda row: -row["total_us"]) if profile else []
    total_us, custom_us = _summed(rows, "total_us")
    launches, custom = _summed(rows, "launches")
    table = [
        {
            "name": row["name"],
            "cuda_time_us": row["total_us"],
            "cpu_time_us": 0.0,
            "count": row["launches"],
        }
        for row in rows[:KERNELS]
    ]
    return {
        "triton_profiler_matches": repr([row["name"] for row in rows if row["custom"]][:KERNELS]),
        "profiling": {
            "kernels": table,
            "kernel_count": len(rows),
            "total_cpu_time_us": 0.0,
            "total_cuda_time_us": total_us,
            "total_self_cuda_time_us": total_us,
            "cuda_device_event_count": launches,
            "cuda_time_event_count": launches,
            "self_cuda_time_event_count": launches,
        },
        "num_custom_kernels": custom,
        "num_total_kernels": launches,
        "triton_kernel_coverage": _percent(custom, launches),
        "custom_kernel_cuda_time_in_profiling_us": custom_us,
        "total_kernel_run_time_in_profiling_us": total_us,
        "custom_kernel_cuda_time_coverage": _percent(custom_us, total_us),
    }


def _summed(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[Any, Any]:
    """Sum over all rows, and over the candidate's own."""
    return sum(row[name] for row in rows), sum(row[name] for row in rows if row["custom"])


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.2%}" if whole else "0.00%"


def _failure(result: Result) -> dict[str, Any]:
    """Reason for a wrong result, in the field that the protocol's readers look at."""
    error = result["error"]
    if not error:
        return {}
    found = {"error": error["message"]}
    if name := _DETAILS.get(result["status"]):
        found[name] = _relative(error["log"] or error["message"])
        found[f"{name}_name"] = error["kind"]
    return found


_INSTALLED = re.compile(
    r'File "[^"\n]*/(?:site-packages|lib/python3\.\d+)/|File "[^"\n]*/(?=(?:workers|app)/)'
)


def _relative(log: str) -> str:
    """A traceback without the folders of this server: trainers show it to the model."""
    return _INSTALLED.sub('File "', log)
