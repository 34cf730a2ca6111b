"""BROWSE: the JSON schema of a collection's specification, made of its dataclasses
and of the rules that they check.

Outside stays one rule: `window` of the strategy `windowed` is less than `turns` where a later
iteration would make no new turn otherwise.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from app import routing
from app.domain.backend import BACKENDS
from app.domain.collection import feedback, lines, spec, strategies
from app.domain.collection.budgets import MOST_WALL_S
from app.domain.collection.spec_builder import MOST_INT
from app.domain.collection.strategies import windowed
from app.domain.credit.pools import Exit
from app.domain.job import JobOptions
from app.domain.reward import PATTERN
from app.web.api import schema_constraints

Schema = dict[str, Any]

NAME = "CollectionSpec"
_REF = "#/components/schemas/{name}"
_NAME = f"^{spec.NAME.pattern}$"
_AT_LEAST_0 = frozenset({"inspirations", "cross", "cost_weight", "speedup"})
"""Options of strategies that may be 0; the other numbers are at least 1."""
_WORDS: dict[str, tuple[str, ...]] = {
    "selection": windowed.SELECTIONS,
    "metric": windowed.METRICS,
    "pick": windowed.PICKS,
    "mode": tuple(str(each) for each in Exit),
}
"""Options of strategies that are one of some words."""


def components() -> dict[str, Schema]:
    """Components of the document: the specification under `NAME`, each of its tables
    under a name that begins so.
    """
    options = {name: strategy.options for name, strategy in strategies.STRATEGIES.items()}
    found = _made(spec.CollectionSpec, "", {"CollectionSpec": NAME}) | _made(JobOptions, "")
    found |= {
        name: each for way, kind in options.items() for name, each in _made(kind, way).items()
    }
    for each in found.values():
        each["additionalProperties"] = False
        for kind in each["properties"].values():
            schema_constraints.exclude_nul(kind)
    _refine(found)
    for way in options:
        _strategy(found[f"{NAME}{way}Options"], way)
    found[NAME]["properties"]["strategy"] = {
        "oneOf": [{"$ref": _REF.format(name=f"{NAME}{way}Options")} for way in options]
    }
    return found


def _made(kind: type[Any], prefix: str, names: dict[str, str] | None = None) -> dict[str, Schema]:
    """Schemas of a dataclass and of those inside it, under names of their own."""
    _, found = msgspec.json.schema_components([kind], ref_template=_REF)
    renamed = {name: (names or {}).get(name, f"{NAME}{prefix}{name}") for name in found}
    text = json.dumps(found)
    for name, other in renamed.items():
        text = text.replace(f'"{_REF.format(name=name)}"', f'"{_REF.format(name=other)}"')
    return {renamed[name]: each for name, each in json.loads(text).items()}


def _refine(found: dict[str, Schema]) -> None:
    top = found[NAME]["properties"]
    top["name"]["pattern"] = _NAME
    top["backend"]["enum"] = list(BACKENDS)
    top["device_class"]["enum"] = list(routing.DEVICE_CLASSES)
    top["reward"] |= {"pattern": PATTERN, "maxLength": 500}
    top["tries"] |= {"minimum": 1, "maximum": MOST_INT}
    top["seed"] |= {"minimum": 0, "maximum": MOST_INT}
    top["options"] = {"$ref": _REF.format(name=f"{NAME}JobOptions")}
    problems = found[f"{NAME}Problems"]
    problems["properties"]["files"]["maxItems"] = 0
    problems["properties"]["ids"]["items"] |= {"format": "uuid"}
    schema_constraints.narrow(problems["properties"]["limit"], minimum=1, maximum=MOST_INT)
    schema_constraints.narrow(problems["properties"]["level"], minimum=-MOST_INT, maximum=MOST_INT)
    some = {"source_set": {"type": "string", "minLength": 1}, "level": {"not": {"type": "null"}}}
    some |= {name: {"type": "array", "minItems": 1} for name in ("names", "ids")}
    problems["anyOf"] = [
        {"required": [name], "properties": {name: each}} for name, each in some.items()
    ]
    sampling = found[f"{NAME}Sampling"]["properties"]
    sampling["max_tokens"] |= {"minimum": 1, "maximum": spec.MOST_TOKENS}
    schema_constraints.narrow(sampling["temperature"], minimum=0, maximum=10)
    schema_constraints.narrow(sampling["top_p"], exclusiveMinimum=0, maximum=1)
    schema_constraints.narrow(sampling["top_k"], minimum=-MOST_INT, maximum=MOST_INT)
    sampling["extra"] |= schema_constraints.free_object()
    found[f"{NAME}Prompts"]["properties"]["feedback_version"]["enum"] = list(feedback.VERSIONS)
    context = found[f"{NAME}Context"]["properties"]
    context["history"]["enum"] = list(lines.HISTORIES)
    context["reasoning"]["enum"] = list(lines.REASONINGS)
    context["window"] |= {"minimum": 1, "maximum": MOST_INT}
    for name in ("no_progress", "no_code"):
        schema_constraints.narrow(
            found[f"{NAME}Stops"]["properties"][name], minimum=1, maximum=MOST_INT
        )
    schema_constraints.narrow(
        found[f"{NAME}Stops"]["properties"]["target_speedup"], exclusiveMinimum=0
    )
    _budgets(found)
    schema_constraints.bound_options(found[f"{NAME}JobOptions"])
    for name in spec.NOT_OPTIONS:
        del found[f"{NAME}JobOptions"]["properties"][name]


def _budgets(found: dict[str, Schema]) -> None:
    """Wall time has a cap for the whole collection alone."""
    caps = found[f"{NAME}Caps"]["properties"]
    for name in ("calls", "tokens", "evaluations"):
        schema_constraints.narrow(caps[name], minimum=1, maximum=MOST_INT)
    for name in ("usd", "gpu_s"):
        schema_constraints.narrow(caps[name], exclusiveMinimum=0)
    schema_constraints.narrow(caps["wall_s"], exclusiveMinimum=0, maximum=MOST_WALL_S)
    budgets = found[f"{NAME}Budgets"]["properties"]
    for name in ("rollout", "call"):
        untimed = {"properties": {"wall_s": {"type": "null"}}}
        budgets[name] = {"allOf": [{"$ref": _REF.format(name=f"{NAME}Caps")}, untimed]}


def _strategy(options: Schema, name: str) -> None:
    properties = options["properties"]
    for option, schema in properties.items():
        if option in _WORDS:
            schema["enum"] = list(_WORDS[option])
        else:
            schema["minimum"] = 0 if option in _AT_LEAST_0 else 1
            if schema["type"] == "integer":
                schema["maximum"] = MOST_INT
    options["properties"] = {"name": {"const": name}, **properties}
    options["required"] = ["name"]
