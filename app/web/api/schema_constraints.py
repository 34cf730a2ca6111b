"""BROWSE: constraints in the API's JSON schemas beyond the types: patterns, bounds,
and which fields go together.

A reader of the document that generates requests from it gets 2xx for requests that the schema
allows and 400 for others (tests/integration/test_api_schema.py asks some thousand of each).  Types
say most of it; here is the rest.  Outside stay the grammar of a filter (`format: assay-where`), the
order of two bounds (`pass_rate`, `lower_bound` of a reward), whether base64 holds get_cases() where
the workflow asks for it, and the length and depth of the whole body.
"""

from __future__ import annotations

import math
from typing import Any

from app import formats
from app.domain import reward
from app.domain.bounds import Bounds
from app.domain.credit import METHODS
from app.domain.dataset.selection import BOUNDS as SELECTION_BOUNDS
from app.domain.dataset.selection import COUNTER
from app.domain.job import BASELINES, BOUNDS, PROFILES, PROTOCOLS
from app.domain.policy import POLICIES
from app.domain.problem import CASES_WORKFLOW

Schema = dict[str, Any]

NO_NUL = r"^[^\x00\ud800-\udfff]*\Z"
IDENTIFIER = r"^[A-Za-z_][A-Za-z0-9_]*\Z"
BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\Z"
PIN = r"^[a-z0-9][a-z0-9-]{0,62}(\.[0-9]{1,2})?\Z"
SOURCE_SET = r"^[A-Za-z0-9_-]{1,200}\Z"
REASON = r"^(?=[\s\S]*\S[\s\S]+\S)[^\x00\ud800-\udfff]*\Z"
"""At least three characters between blanks."""
POLICY = rf"^({'|'.join(POLICIES)})(@[0-9]+)?$"
ECMA = {
    NO_NUL: r"^[^\u0000]*$",
    IDENTIFIER: r"^[A-Za-z_][A-Za-z0-9_]*$",
    BASE64: r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    SOURCE_SET: r"^[A-Za-z0-9_-]{1,200}$",
    REASON: r"^(?=[\s\S]*\S[\s\S]+\S)[^\u0000]*$",
    PIN: r"^[a-z0-9][a-z0-9-]{0,62}(\.[0-9]{1,2})?$",
}
"""Python's pattern → the same in ECMA-262, which OpenAPI readers use and in which `\\Z` is a
letter.  A lone surrogate is no character of JSON in UTF-8, so nothing has to exclude it.
"""

FREE = "FreeForm"
_NULL: Schema = {"type": "null"}
_NOT_NULL: Schema = {"not": _NULL}


def refine(components: dict[str, Schema]) -> None:
    """Make the components of the document exact, in place."""
    components[FREE] = _free()
    for name in ("EvaluationBody", "RewardBody", "TrajectoryBody"):
        components[name] |= {
            "oneOf": [_given(each) for each in ("reference", "problem", "problem_id")]
        }
        components[name]["allOf"] = [_cases_by_workflow()]
    components["EvaluationOptions"] |= {"allOf": [_cases_alone()]}
    bound_options(components["EvaluationOptions"])
    components["AppendBody"]["allOf"] = [_cases_by_workflow()]
    components["RunBody"]["properties"]["settings"] |= free_object()
    typed = {"properties": {"hack_type": _NOT_NULL}, "required": ["hack_type"]}
    components["ReviewBody"]["allOf"] = [
        {"if": typed, "then": {"properties": {"label": {"enum": ["hack", "leak"]}}}}
    ]
    rollout = components["RolloutBody"]
    rollout["anyOf"] = [_given(each) for each in ("reference", "problem", "problem_id")]
    rollout["properties"]["claims"] |= free_object()
    rollout["properties"]["workflow"]["enum"] = ["kernelbench"]
    components["Result"]["properties"]["job_id"]["format"] = "uuid"
    components["ExportBody"]["properties"]["spec"] = {"$ref": "#/components/schemas/Spec"}
    _bound_spec(components["Spec"])
    _bound_credit(components)
    for each in components.values():
        translate(each)


def translate(schema: Any) -> None:
    """Patterns in ECMA-262, in place."""
    if isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            schema["pattern"] = ECMA.get(pattern, pattern)
        for each in schema.values():
            translate(each)
    elif isinstance(schema, list):
        for each in schema:
            translate(each)


def _free() -> Schema:
    """Any JSON without NUL in its texts."""
    items = {"$ref": f"#/components/schemas/{FREE}"}
    kinds: list[Schema] = [
        {"type": ["boolean", "number", "null"]},
        {"type": "string", "pattern": NO_NUL},
    ]
    kinds += [{"type": "array", "items": items}, {"type": "object", **free_object()}]
    return {
        "description": "Any JSON; at most 32 lists and objects inside each other.",
        "anyOf": kinds,
    }


def free_object() -> Schema:
    """Keywords of an object with any JSON in it, without NUL."""
    return {
        "propertyNames": {"pattern": NO_NUL},
        "additionalProperties": {"$ref": f"#/components/schemas/{FREE}"},
    }


def _given(name: str) -> Schema:
    return {"required": [name], "properties": {name: _NOT_NULL}}


def _both_or_neither(one: str, other: str) -> Schema:
    both = {"required": [one, other], "properties": {one: _NOT_NULL, other: _NOT_NULL}}
    return {"anyOf": [both, {"properties": {one: _NULL, other: _NULL}}]}


def _untimed() -> Schema:
    """Options that a problem by cases may have: it has no reference that could be timed."""
    return {
        "properties": {
            "baselines": {"anyOf": [_NULL, {"type": "array", "maxItems": 0}]},
            "protocol": {"enum": ["assay", None]},
            "device_time": {"enum": [False, None]},
        }
    }


def _cases_alone() -> Schema:
    return {"anyOf": [{"properties": {"cases": {"enum": [False, None]}}}, _untimed()]}


def _cases_by_workflow() -> Schema:
    says: Schema = {
        "anyOf": [{"type": ["null", "object"]}, {"type": "string", "pattern": "get_cases"}]
    }
    problem: Schema = {"anyOf": [_NULL, {"type": "object", "properties": {"reference": says}}]}
    options: Schema = {"anyOf": [_NULL, {"type": "object", **_untimed()}]}
    by_cases: Schema = {"properties": {"options": options, "reference": says, "problem": problem}}
    return {"anyOf": [{"properties": {"workflow": {"not": {"const": CASES_WORKFLOW}}}}, by_cases]}


def bound_options(options: Schema) -> None:
    """Make the options of an evaluation exact, in place."""
    options["allOf"] = [*options.get("allOf", ()), _both_or_neither("rtol", "atol")]
    properties = options["properties"]
    named = {"protocol": PROTOCOLS, "profile": PROFILES, "baseline": ("eager",)}
    for name, (least, most) in BOUNDS.items():
        narrow(properties[name], minimum=least, maximum=most)
    for name, values in named.items():
        narrow(properties[name], enum=list(values))
    narrow(properties["policy"], pattern=POLICY)
    narrow(properties["baselines"], items={"enum": list(BASELINES)})


def _bound_spec(spec: Schema) -> None:
    spec["additionalProperties"] = False
    properties = spec["properties"]
    known = formats.known()
    kinds = [
        {
            "properties": {"format": {"const": name}, "kind": {"enum": [None, *each.kinds]}},
            **({} if name == properties["format"]["default"] else {"required": ["format"]}),
        }
        for name, each in known.items()
    ]
    spec["oneOf"] = kinds
    elsewhere: Schema = {"properties": {"source": {"not": {"const": "problems"}}}}
    spec["anyOf"] = [elsewhere, {"properties": {"pass_rate": _NULL}}, _given("rate_run")]
    properties["where"] |= {"format": "assay-where"}
    narrow(properties["policy"], pattern=POLICY)
    properties["mrs"] = dict(_NULL)  # names a file, and no request may
    properties["tokenizer"] |= {"enum": [COUNTER]}
    for each in properties.values():
        exclude_nul(each)
    properties["held_out"]["items"] |= {"pattern": SOURCE_SET}
    for name, bounds in SELECTION_BOUNDS.items():
        narrow(properties[name], **_keywords(bounds))
    narrow(
        properties["pass_rate"], prefixItems=[{"type": "number", "minimum": 0, "maximum": 1}] * 2
    )


def _keywords(bounds: Bounds) -> Schema:
    """Bounds as keywords of a schema."""
    ends = {
        "exclusiveMinimum" if bounds.low_open else "minimum": bounds.low,
        "exclusiveMaximum" if bounds.high_open else "maximum": bounds.high,
    }
    return {name: end for name, end in ends.items() if math.isfinite(end)}


def _bound_credit(components: dict[str, Schema]) -> None:
    """Advantages that a dataset may have."""
    for name in ("Declared", "Recipe", "MethodOptions", "Parameters", "Mismatch", "Profiling"):
        components[name]["additionalProperties"] = False
    declared = components["Declared"]["properties"]
    declared["mismatch"] = dict(_NULL)
    del components["MismatchRejection"]
    declared["reward"] |= {"pattern": reward.PATTERN, "maxLength": 500}
    exclude_nul(declared["runs"])
    components["Recipe"]["properties"]["method"] |= {"enum": list(METHODS)}
    narrow(components["MethodOptions"]["properties"]["gamma"], minimum=0, maximum=1)
    mismatch = components["Mismatch"]["properties"]
    narrow(mismatch["lower"], exclusiveMinimum=0, maximum=1)
    narrow(mismatch["upper"], minimum=1)
    narrow(mismatch["veto"], exclusiveMinimum=0)


def exclude_nul(schema: Schema) -> None:
    """Give every text without an enumeration a pattern, in place."""
    if schema.get("type") == "string" and not {"enum", "pattern", "format"} & schema.keys():
        schema["pattern"] = NO_NUL
    for each in (*schema.get("anyOf", ()), schema.get("items")):
        if isinstance(each, dict):
            exclude_nul(each)


def narrow(schema: Schema, **more: Any) -> None:
    """Add keywords to a schema, or to its alternative to null."""
    kinds = [each for each in schema.get("anyOf", ()) if each != _NULL]
    (kinds[0] if len(kinds) == 1 else schema).update(more)
