"""For schemathesis: the rules that no JSON schema expresses
(app.web.api.schema_constraints lists them).
"""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import strategies

FILTERS = (
    "",
    "correct = true",
    "speedup >= 1.5 and not turn > 3",
    "gpu = 'h200'",
    "problem in ('a', 'b')",
)

schemathesis.openapi.format("assay-where", strategies.sampled_from(FILTERS))


@schemathesis.hook
def filter_body(context: Any, body: Any) -> bool:
    """Whether the rules outside the schema hold; of a body that is wrong on purpose,
    nothing is asked.
    """
    if not isinstance(body, dict):
        return True
    problem = body.get("problem")
    references = [
        body.get("reference"),
        problem.get("reference") if isinstance(problem, dict) else None,
    ]
    by_bytes = any(isinstance(each, dict) for each in references)
    spec = body.get("spec") if isinstance(body.get("spec"), dict) else {}
    bounds = any("_bound=" in str(each.get("reward")) for each in (body, spec))
    credit = spec.get("advantages") if isinstance(spec.get("advantages"), dict) else {}
    bounds = bounds or "_bound=" in str(credit.get("reward"))
    return not (body.get("workflow") == "kernel_simple" and by_bytes) and not bounds


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """The lower end of a range comes first."""
    spec = body.get("spec") if isinstance(body, dict) else None
    rate = spec.get("pass_rate") if isinstance(spec, dict) else None
    if (
        isinstance(rate, list)
        and len(rate) == 2
        and all(isinstance(each, (int, float)) for each in rate)
    ):
        spec["pass_rate"] = sorted(rate)
    way = spec.get("strategy") if isinstance(spec, dict) else None
    if isinstance(way, dict) and way.get("name") == "windowed":  # `window` is less than `turns`
        way["selection"] = "top"
    return body
