"""The result of one evaluation as text for people, whole or in parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from app.cli import output
from app.domain import quantities
from app.domain.verdict import is_shown

Result = Mapping[str, Any]
"""Result as app.domain.result builds it."""

LOG_LINES = 40
"""Lines of an error's log that a person is shown; `--json` has all that is stored."""


def speedup(result: Result) -> str:
    """`1.52× [1.40, 1.66]`, or a dash where no speedup is credited."""
    if result["speedup"] is None or result["speedup_ci"] is None:
        return "–"
    return _ratio(result["speedup"], *result["speedup_ci"])


def _ratio(value: float, low: float, high: float) -> str:
    """A speedup and its interval, rounded as on pages: 0.004× is not 0.00×."""
    ends = ", ".join(quantities.ratio(end).removesuffix("×") for end in (low, high))
    return f"{quantities.ratio(value)} [{ends}]"


def verdict(result: Result) -> str | None:
    """The label, where it is shown: beside a compile error or a wrong answer `clean`
    would read as a success.
    """
    label, status = result["verdict"], result["status"]
    return label if status is not None and is_shown(label=label, status=status) else None


def found(result: Result) -> str:
    """One line beyond the numbers: detectors that found something, else the error."""
    if result["findings"]:
        return ", ".join(dict.fromkeys(finding["detector"] for finding in result["findings"]))
    if result["error"]:
        message = output.safe(result["error"]["message"]).split("\n", 1)[0]
        return f"{result['error']['kind']}: {message}"
    return ""


def details(result: Result) -> Text:
    """One result in full, for a person."""
    lines: list[tuple[str, Text | str]] = []
    if result["state"] != "finished":
        lines.append(("state", output.word(result["state"])))
    lines += [("status", output.word(result["status"])), ("verdict", output.word(verdict(result)))]
    if result["reference_us"] is not None:
        credited = f"{speedup(result)} over {result['baseline']} (95 % confidence interval)"
        lines.append(("speedup", "not credited" if result["speedup"] is None else credited))
        lines.append(("reference", f"{result['reference_us']:.1f} µs per call"))
        lines.append(("candidate", f"{result['candidate_us']:.1f} µs per call"))
        lines += [("GPU time", said) for said in _device_time(result)]
        lines += [("baseline", _baseline(baseline)) for baseline in result["baselines"]]
    lines += [("case", _case(case)) for case in result["cases"]]
    if result["cases"] and result["candidate_us"] is not None:
        lines.append(("speedup", "none: a problem by cases has no reference that could be slower"))
    if result["coverage_time"] is not None:
        lines.append(
            ("coverage", f"{result['coverage_time']:.0%} of kernel time in the candidate's kernels")
        )
    if result["correctness"]:
        calls, failed = result["correctness"]["calls"], result["correctness"]["failed_calls"]
        lines.append(("verified", f"{calls} calls, {failed} wrong"))
    if result["environment"]:
        lines.append(("device", output.safe(str(result["environment"].get("device_name", "")))))
    lines += [("finding", _finding(finding)) for finding in result["findings"]]
    if result["error"]:
        lines.append(
            ("error", f"{result['error']['kind']}: {output.safe(result['error']['message'])}")
        )
    lines += [("job", result["job_id"])] + ([("page", result["url"])] if result["url"] else [])
    shown = Text("\n").join(Text.assemble((f"{name:<11}", "dim"), value) for name, value in lines)
    log = (result["error"] or {}).get("log")
    return Text.assemble(shown, "\n\n", output.safe(_tail(log))) if log else shown


def _device_time(result: Result) -> list[str]:
    """The speedup by the device's own time, or why it is not known; nothing where it
    was not asked for.
    """
    if result["device_speedup_error"] is not None:
        return [f"not measured: {output.safe(result['device_speedup_error'])}"]
    if result["device_speedup"] is None or result["device_speedup_ci"] is None:
        return []
    numbers = _ratio(result["device_speedup"], *result["device_speedup_ci"])
    return [f"{numbers} without the host's launching (CUDA graphs)"]


def _baseline(baseline: Mapping[str, Any]) -> str:
    """Comparison with a further baseline, or the reason why there is none."""
    if baseline["error"] is not None:
        return f"over {baseline['name']}: not measured: {output.safe(baseline['error'])}"
    took = f"({baseline['baseline_us']:.1f} µs per call)"
    if baseline["speedup"] is None:
        return f"over {baseline['name']}: not credited {took}"
    numbers = _ratio(baseline["speedup"], baseline["ci_low"], baseline["ci_high"])
    return f"over {baseline['name']}: {numbers} {took}"


def _case(case: Mapping[str, Any]) -> Text:
    """Outcome of one case: its name is the problem's text, its message may be the candidate's."""
    took = ""
    if case["candidate_us"] is not None:
        took = f", {case['candidate_us']:.1f} µs per call"
        if case["candidate_us_low"] is not None and case["candidate_us_high"] is not None:
            took += f" [{case['candidate_us_low']:.1f}, {case['candidate_us_high']:.1f}]"
    said = f": {output.safe(case['message'])}" if case["message"] else ""
    calls = f", {case['calls']} calls, {case['failed_calls']} wrong"
    number = f"  {case['index'] + 1}/{case['of']} "
    return Text.assemble(
        output.word(case["status"]), number, output.safe(case["name"]), calls, took, said
    )


def _finding(finding: Mapping[str, Any]) -> Text:
    label = output.word(finding["label"])
    return Text.assemble(
        label, f"  {finding['detector']} v{finding['version']}: {output.safe(finding['summary'])}"
    )


def _tail(log: str) -> str:
    lines = log.rstrip().split("\n")
    left_out = len(lines) - LOG_LINES
    return "\n".join([f"… {left_out} lines before", *lines[-LOG_LINES:]] if left_out > 0 else lines)
