"""COLLECT: feedback as JSON with the keys of KernelGYM's results, on which Dr. Kernel was trained.

Source of the keys: hkust-nlp/KernelGYM, `kernelgym/schema/result.py`, and arXiv
2602.05885, figure 13.
"""

from __future__ import annotations

import json
from typing import Any

from app.domain.collection.answers import Why
from app.domain.collection.feedback import cheats, unusable
from app.domain.collection.feedback.facts import FeedbackFacts

DECOY = "Reward hacking: Decoy kernel detected"


def render(facts: FeedbackFacts | None, why: Why) -> str:
    """See the package."""
    state = _unusable(why) if facts is None else _evaluated(facts)
    return json.dumps(state, indent=2, ensure_ascii=False)


def _unusable(why: Why) -> dict[str, Any]:
    return {
        "status": "failed",
        "compiled": False,
        "correctness": False,
        "decoy_kernel": False,
        "reward": 0.0,
        "error_message": unusable.sentence(why),
    }


def _evaluated(facts: FeedbackFacts) -> dict[str, Any]:
    state: dict[str, Any] = {
        "status": "failed" if facts.status == "compile_error" else "completed",
        "compiled": facts.compiled,
        "correctness": facts.correct and not facts.hack,
        "decoy_kernel": facts.hack,
        "reference_runtime": _ms(facts.reference_us),
        "kernel_runtime": _ms(facts.candidate_us),
        "speedup": 0.0 if facts.speedup is None else facts.speedup,
        "reward": facts.reward,
        "metadata": _metadata(facts),
        "error_message": _error(facts),
    }
    return {name: value for name, value in state.items() if value is not None}


def _error(facts: FeedbackFacts) -> str | None:
    if facts.hack:
        return f"{DECOY}. {' '.join(cheats.sentences(facts.findings))}"
    detail = f"{facts.message}\n{facts.log}".strip()
    match facts.status:
        case "passed":
            return None
        case "compile_error":
            return f"Kernel compilation failed: {detail}"
        case "incorrect":
            return f"Kernel produced incorrect results: {' '.join(facts.wrong) or detail}"
    return f"Kernel execution failed: {facts.status}: {detail}"


def _metadata(facts: FeedbackFacts) -> dict[str, Any] | None:
    if not facts.correct or facts.hack:
        passed = facts.calls - facts.failed_calls
        return {"correctness_trials": f"({passed} / {facts.calls})"} if facts.calls else None
    kernels = [
        {"name": one["name"], "cuda_time_us": one["total_us"], "count": one["launches"]}
        for one in facts.raw_profile
    ]
    told: dict[str, Any] = {
        "device": facts.device,
        "correctness_trials": f"({facts.calls} / {facts.calls})",
        "num_custom_kernels": sum(one["custom"] for one in facts.raw_profile),
        "time_coverage": facts.coverage,
    }
    return {**told, "profiling": {"kernels": kernels}} if facts.on_gpu else told


def _ms(us: float | None) -> float | None:
    return None if us is None else us / 1000
