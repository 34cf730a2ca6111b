"""BROWSE: the form that submits one candidate: fields, defaults, and errors beside
the field they are about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain import policy
from app.domain.backend import BACKENDS, DEFAULT_BACKEND
from app.domain.job import BASELINES, BOUNDS, JobOptions, Priority
from app.domain.request import RequestError
from app.domain.source import source_text
from app.web.api.endpoint import decoded
from app.web.api.schemas import EvaluationBody

_USUAL = JobOptions()


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of the form."""

    name: str
    label: str
    help: str
    default: str = ""
    choices: tuple[str, ...] = ()
    """Values of a select; empty for a text field."""
    kind: str = "text"
    """`text`, `number` or `yes` (a tick box)."""


def _number(name: str, label: str, text: str) -> Field:
    low, high = BOUNDS[name]
    return Field(
        name=name,
        label=label,
        help=f"{text} {low:g} to {high:g}.",
        default=f"{getattr(_USUAL, name):g}",
        kind="number",
    )


OPTIONS = (
    _number(
        "timing_budget_s",
        "Timing budget, s",
        "Time spent on timed blocks; 0 checks correctness only.",
    ),
    _number(
        "deadline_s", "Deadline, s", "Longest time from the start of the evaluation to its result."
    ),
    _number(
        "correctness_calls", "Correctness calls", "Calls on the problem's own inputs before timing."
    ),
    Field(
        name="policy",
        label="Policy",
        help="Rules by which detector findings become a verdict.",
        default=_USUAL.policy,
        choices=tuple(policy.POLICIES),
    ),
    Field(
        name="profile",
        label="Profile",
        help="launches: kernels that the candidate launches; full: everything the device does.",
        default=_USUAL.profile,
        choices=("launches", "full"),
    ),
    Field(
        name="baselines",
        label="Additional baseline",
        help="The reference compiled by torch.compile, timed beside eager.",
        choices=("", *BASELINES),
    ),
    Field(
        name="device_time",
        label="Device-time speedup",
        help="Also time both sides without the host's launching, from CUDA graphs. GPU only.",
        kind="yes",
    ),
)
"""Options of the job that the form offers; the API has all of them."""

HEAD = (
    Field(
        name="backend",
        label="Backend",
        help="Language in which the candidate's kernels are written.",
        default=DEFAULT_BACKEND,
        choices=tuple(BACKENDS),
    ),
    Field(
        name="gpu",
        label="Device class",
        help="Kind of device that evaluates the candidate.",
        default="cpu",
    ),
    Field(
        name="run",
        label="Run",
        help="Optional. Groups this job with others under a name; runs share devices fairly.",
    ),
    Field(
        name="priority",
        label="Priority",
        help="Order among the jobs that wait for the same device class.",
        default=str(Priority.NORMAL),
        choices=tuple(map(str, Priority)),
    ),
    Field(
        name="fresh",
        label="Evaluate again",
        help="Evaluate even if the same submission has a result already.",
        kind="yes",
    ),
)

SOURCES = ("reference", "candidate")
FIELDS = (*HEAD, *OPTIONS)
NAMES = frozenset(
    {
        *(each.name for each in FIELDS),
        *SOURCES,
        "problem_id",
        "problem_name",
        "reference_file",
        "candidate_file",
    }
)


class FormError(ValueError):
    """Values of a form that cannot be carried out: field → message; key '' for the
    form as a whole.
    """

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


def defaults(classes: Sequence[str]) -> dict[str, str]:
    """Field → value that the form starts with; `classes`: device classes that are online."""
    found = {each.name: each.default for each in FIELDS}
    if classes:
        found["gpu"] = classes[0]
    return found


def body(sent: Mapping[str, str]) -> EvaluationBody:
    """The submission that the values ask for.  Raises FormError, with every field that is wrong."""
    errors = _missing(sent)
    options: dict[str, Any] = {}
    for field in OPTIONS:
        value = sent.get(field.name, "").strip()
        if not value:
            continue
        if field.kind == "yes":
            options[field.name] = True
        elif field.kind != "number":
            options[field.name] = (value,) if field.name == "baselines" else value
        elif (number := _as_number(value)) is None:
            errors[field.name] = f"Expected a number, got {value!r}."
        else:
            options[field.name] = number
    errors |= _option_errors(options)
    if errors:
        raise FormError(errors)
    try:
        return decoded(_raw(sent, options), EvaluationBody)  # type: ignore[no-any-return]
    except RequestError as error:
        raise FormError(located(str(error))) from error


PHRASES = {
    "unknown GPU class": "gpu",
    "unknown device": "gpu",
    "unknown backend": "backend",
    "unknown priority": "priority",
    "problem name": "problem_name",
}
"""How messages of the service that name no field begin."""


def located(message: str) -> dict[str, str]:
    """A message of the service beside the field that it is about."""
    path = re.search(r" - at `\$\.(?:\w+\.)*(\w+)`$", message)
    named = path[1] if path else message.partition(":")[0]
    name = next((field for phrase, field in PHRASES.items() if message.startswith(phrase)), named)
    text = message[: path.start()] if path else message
    return {name if name in NAMES else "": text[:1].upper() + text[1:]}


def _missing(sent: Mapping[str, str]) -> dict[str, str]:
    errors = {}
    if not sent.get("candidate"):
        errors["candidate"] = "Paste or choose the candidate's source."
    if not sent.get("reference") and not sent.get("problem_id"):
        errors["reference"] = "Paste or choose the reference, or pick a stored problem."
    return errors


def _as_number(text: str) -> float | int | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else number


def _option_errors(options: Mapping[str, Any]) -> dict[str, str]:
    """Each option by itself, so that a form with three errors shows three."""
    errors = {}
    for name, value in options.items():
        try:
            JobOptions(**{name: value})
        except ValueError as error:
            text = str(error).partition(": ")[2] or str(error)
            errors[name] = text[:1].upper() + text[1:]
    return errors


def _raw(sent: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, Any]:
    raw: dict[str, Any] = {
        name: sent[name] for name in ("backend", "gpu", "run", "priority") if sent.get(name)
    }
    raw |= {
        "candidate": sent["candidate"],
        "fresh": bool(sent.get("fresh")),
        "options": dict(options),
    }
    if sent.get("problem_id"):
        return raw | {"problem_id": sent["problem_id"]}
    problem = {"reference": sent["reference"]}
    if sent.get("problem_name"):
        problem["name"] = sent["problem_name"]
    return raw | {"problem": problem}


def chosen(form: Mapping[str, str], files: Iterable[tuple[str, bytes]]) -> dict[str, str]:
    """The values that were sent; a chosen file stands for the text area of its name
    where that is empty.
    """
    sent = {name: value for name, value in form.items() if name in NAMES}
    for name, data in files:
        field = name.removesuffix("_file")
        if field in SOURCES and data and not sent.get(field, "").strip():
            sent[field] = source_text.display(data)
    return {name: value.replace("\r\n", "\n") for name, value in sent.items()}
