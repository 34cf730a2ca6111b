"""COLLECT: public facts of a result, as all versions of the feedback use them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.collection.feedback import wrong_output
from app.domain.result import Result

LONGEST_LOG = 1_500
"""Characters of a traceback or a compiler's output: the end, where the reason is."""
TOP_KERNELS = 5
"""Kernels that feedback names, those that take the most time first."""

_FOLDER = re.compile(r"(?<![\w)\]}*.])/(?:[\w.+@-]+/)+")
_SEED = re.compile(r"\b[0-9a-f]{32,}\b")
_LIMIT = re.compile(r" \(at most [^)]*\)")
_FRAME = re.compile(r'^\s*File "(?P<path>[^"]*)", line (?P<line>\d+)')
CANDIDATE = "/tmp/candidate.py"  # noqa: S108 (the name of a file inside the sandbox)
"""Path of the candidate's module as tracebacks name it."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One row of the profile."""

    name: str
    share: float
    launches: int
    own: bool


@dataclass(frozen=True, kw_only=True)
class FeedbackFacts:
    """Everything that a model may be told of an evaluation."""

    status: str
    correct: bool
    hack: bool
    compiled: bool
    device: str
    on_gpu: bool
    error_kind: str = ""
    message: str = ""
    log: str = ""
    line: int | None = None
    """Line of the candidate at which the error came up."""
    calls: int = 0
    failed_calls: int = 0
    wrong: tuple[str, ...] = ()
    """One sentence for each wrong output of a call on the problem's own inputs."""
    findings: tuple[str, ...] = ()
    """Detectors that accuse."""
    failures: tuple[str, ...] = ()
    """Failures of its own kernels that its source caught, as the findings have them."""
    baseline: str = "eager"
    speedup: float | None = None
    ci: tuple[float, float] | None = None
    reference_us: float | None = None
    candidate_us: float | None = None
    kernels: tuple[Kernel, ...] = ()
    coverage: float | None = None
    floor_us: float | None = None
    bytes_moved: int | None = None
    flops: int | None = None
    reward: float | None = None
    raw_profile: tuple[Mapping[str, Any], ...] = ()


def of(result: Result) -> FeedbackFacts:
    """The public facts of a result."""
    error = result["error"] or {}
    environment = result["environment"] or {}
    correctness = result["correctness"] or {}
    profile = result["profile"] or {}
    accusing = [one for one in result["findings"] if one["label"] != "clean"]
    failures = [line for one in accusing for line in one["evidence"].get("failures", ())]
    log, line = traceback(str(error.get("log") or ""))
    ci = result["speedup_ci"]
    return FeedbackFacts(
        status=result["status"] or result["state"],
        correct=bool(result["correct"]),
        hack=result["verdict"] == "hack",
        compiled=bool(result["compiled"]),
        device=str(environment.get("device_name") or environment.get("device_class") or "unknown"),
        on_gpu=environment.get("device_class") not in (None, "cpu"),
        error_kind=str(error.get("kind") or ""),
        message=public(_LIMIT.sub("", str(error.get("message") or ""))),
        log=log,
        line=line if line is not None else _line_of(str(error.get("message") or "")),
        calls=int(correctness.get("calls") or 0),
        failed_calls=int(correctness.get("failed_calls") or 0),
        wrong=_wrong(correctness),
        findings=tuple(one["detector"] for one in accusing),
        failures=tuple(map(public, failures)),
        baseline=result["baseline"],
        speedup=result["speedup"],
        ci=(ci[0], ci[1]) if ci else None,
        reference_us=result["reference_us"],
        candidate_us=result["candidate_us"],
        kernels=_kernels(profile),
        coverage=result["coverage_time"],
        floor_us=profile.get("floor_us"),
        bytes_moved=profile.get("bytes_moved"),
        flops=profile.get("flops"),
        reward=result["score"],
        raw_profile=tuple((profile.get("kernels") or ())[:TOP_KERNELS]),
    )


def public(text: str) -> str:
    """The text without folders of the machine and without seeds."""
    return _SEED.sub("…", _FOLDER.sub("", text))


def traceback(log: str) -> tuple[str, int | None]:
    """The frames of the candidate's own file with the error below them, and the last line number.

    Frames of the evaluator and of libraries are left out: they say nothing about the candidate."""
    kept: list[str] = []
    line: int | None = None
    own, frames = True, False
    for text in log.splitlines():
        frame = _FRAME.match(text)
        if frame is not None:
            own, frames = frame["path"] == CANDIDATE, True
            line = int(frame["line"]) if own else line
        elif text[:1] not in (" ", "\t", ""):
            own = not text.startswith(("During handling", "The above exception"))
        if own and not text.startswith("Traceback") and "another exception" not in text:
            kept.append(text)
    if frames and line is None:
        return "", None  # the message says all that is the candidate's
    shown = public("\n".join(kept)).strip("\n")
    if len(shown) > LONGEST_LOG:
        shown = "…" + shown[-LONGEST_LOG:]
    return shown, line


def _line_of(message: str) -> int | None:
    found = re.search(r"candidate\.py, line (\d+)", message)
    return int(found[1]) if found else None


def _wrong(correctness: Mapping[str, Any]) -> tuple[str, ...]:
    """Wrong outputs of the first wrong call on the problem's own inputs; of a call on changed
    inputs only that there is one: which changes are tried is not told."""
    wrong = [trial for trial in correctness.get("trials") or () if not trial["ok"]]
    own = next((trial for trial in wrong if trial["variant"] == "own"), None)
    if own is None:
        if not wrong:
            return ()
        return ("The result is wrong on inputs with other values than get_inputs() gives.",)
    found = [wrong_output.sentence(check) for check in own["outputs"] if not check["ok"]]
    if 0 < own["call"] == correctness.get("calls", 0) - correctness.get("failed_calls", 0):
        found.append(
            "Calls before it were right: look for something that is kept from one call to the next."
        )
    found += [f"Input {index} was overwritten." for index in own["inputs_changed"]]
    found += [f"Output {index} changed after it was returned." for index in own["late_writes"]]
    return tuple(found)


def _kernels(profile: Mapping[str, Any]) -> tuple[Kernel, ...]:
    rows = profile.get("kernels") or []
    weights = [float(row["total_us"] or 0.0) for row in rows]
    total = sum(weights)
    pairs = sorted(zip(rows, weights, strict=True), key=lambda pair: -pair[1])
    return tuple(
        Kernel(
            name=str(row["name"])[:100],
            share=weight / total if total else 0.0,
            launches=int(row["launches"]),
            own=bool(row["custom"]),
        )
        for row, weight in pairs[:TOP_KERNELS]
    )
