"""COLLECT: specification of a collection: problems, models, strategy, prompts, evaluation, budgets.

    name = "softmax"
    endpoint = "local"
    backend = "triton"
    device_class = "h200"

    [problems]
    source_set = "kernelbench"
    level = 2

    [strategy]
    name = "sequential"
    samples = 4
    turns = 3

    [sampling]
    temperature = 1.0
    max_tokens = 8192

    [budgets.collection]
    usd = 20

Every key is checked before anything is stored or spent."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from app.domain import freeform, reward
from app.domain.backend import BACKENDS, DEFAULT_BACKEND
from app.domain.collection import spec_builder, strategies
from app.domain.collection.budgets import Caps
from app.domain.collection.lines import Context, Stops
from app.domain.device import DEVICE_CLASSES
from app.domain.job import JobOptions
from app.domain.request import RequestError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/ -]{0,99}")
MOST_ROLLOUTS = 200_000
"""Limit of rollouts in one collection."""
MOST_TOKENS = 100_000_000
"""Limit of tokens of one answer."""
NOT_OPTIONS = ("cases", "check")
"""Fields of JobOptions that the problem and the workflow set, and no specification may."""


@dataclass(frozen=True, kw_only=True)
class Problems:
    """Selection of stored problems, which a problem has to meet in full; at least one condition."""

    source_set: str | None = None
    level: int | None = None
    names: tuple[str, ...] = ()
    """Names, or patterns with `*` and `?`."""
    ids: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Reference files of the client's machine: stored as problems before the collection starts."""
    limit: int | None = None
    """The first so many, by name."""

    def __post_init__(self) -> None:
        if not (self.source_set or self.names or self.ids or self.files or self.level is not None):
            raise RequestError(
                "problems: expected one of source_set, level, names, ids or files, got none of them"
            )
        if self.limit is not None and self.limit < 1:
            raise RequestError(f"limit: expected at least 1, got {self.limit}")


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Parameters of every call; None is not sent, so that the server's default holds."""

    max_tokens: int = 8192
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    seeded: bool = True
    """Send a seed with every call."""
    token_ids: bool = False
    """Ask for token ids and logprobs of prompt and answer."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the body, for example `reasoning_effort`."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_tokens <= MOST_TOKENS:
            raise RequestError(f"max_tokens: expected 1 to {MOST_TOKENS}, got {self.max_tokens}")
        if self.temperature is not None and not 0 <= self.temperature <= 10:
            raise RequestError(f"temperature: expected 0 to 10, got {self.temperature!r}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise RequestError(f"top_p: expected more than 0 and at most 1, got {self.top_p!r}")
        freeform.check(self.extra, "extra")


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Templates by name, or `name@hash` for one version; and the version of the feedback text."""

    system: str | None = None
    problem: str = "assay"
    feedback: str = "assay"
    feedback_version: str = "assay"


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """Caps at three levels."""

    collection: Caps = field(default_factory=Caps)
    rollout: Caps = field(default_factory=Caps)
    call: Caps = field(default_factory=Caps)


@dataclass(frozen=True, kw_only=True)
class CollectionSpec:
    """Everything that a collection is made of; stored as it is, and hashed."""

    name: str
    """Name of the collection and of its run."""
    problems: Problems
    endpoint: str
    endpoints: tuple[str, ...] = ()
    """Further models, among which `islands` chooses."""
    strategy: Mapping[str, Any]
    """`name`, and the options of that strategy."""
    sampling: Sampling = field(default_factory=Sampling)
    prompts: Prompts = field(default_factory=Prompts)
    context: Context = field(default_factory=Context)
    stops: Stops = field(default_factory=Stops)
    budgets: Budgets = field(default_factory=Budgets)
    backend: str = DEFAULT_BACKEND
    device_class: str = "cpu"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of every evaluation (app.domain.job.JobOptions)."""
    reward: str = reward.DEFAULT
    seed: int = 0
    tries: int = 6
    """Calls at most for one answer; endpoint faults alone are tried again."""
    fresh: bool = False
    """Evaluate candidates again that were evaluated before."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise RequestError(
                f"name: expected letters, digits and any of ._/ -, at most 100, got {self.name!r}"
            )
        if self.backend not in BACKENDS:
            raise RequestError(
                f"backend: expected one of {', '.join(BACKENDS)}, got {self.backend!r}"
            )
        if self.device_class not in DEVICE_CLASSES:
            raise RequestError(
                f"device_class: expected one of {', '.join(DEVICE_CLASSES)}, got"
                f" {self.device_class!r}"
            )
        if self.tries < 1:
            raise RequestError(f"tries: expected at least 1, got {self.tries}")
        if not 0 <= self.seed < 1 << 63:
            raise RequestError(f"seed: expected 0 to 2**63 - 1, got {self.seed}")
        try:
            reward.parse(self.reward)
        except reward.UnknownRewardError as error:
            raise RequestError(f"reward: {error}") from error
        if self.budgets.rollout.wall_s is not None or self.budgets.call.wall_s is not None:
            raise RequestError(
                "wall_s: expected under budgets.collection alone; a call's time is the endpoint's"
            )
        _ = self.strategy_options, self.job_options

    @property
    def models(self) -> tuple[str, ...]:
        """Names of all endpoints, the first one first."""
        return tuple(dict.fromkeys((self.endpoint, *self.endpoints)))

    @property
    def growth(self) -> strategies.Strategy:
        """The strategy."""
        return strategies.find(str(self.strategy.get("name", "")))

    @cached_property
    def strategy_options(self) -> Any:
        """Options of the strategy.  Raises RequestError."""
        rest = {name: value for name, value in self.strategy.items() if name != "name"}
        return spec_builder.build(self.growth.options, rest, "strategy")

    @cached_property
    def job_options(self) -> JobOptions:
        """Options of every evaluation.  Raises RequestError."""
        if taken := sorted(set(NOT_OPTIONS) & self.options.keys()):
            raise RequestError(f"options.{taken[0]}: unknown key: the problem says so itself")
        try:
            return spec_builder.build(JobOptions, self.options, "options")
        except ValueError as error:
            message = str(error)
            raise RequestError(
                message if message.startswith("options") else f"options.{message}"
            ) from error

    def longest_answer(self, limit: int | None = None) -> int:
        """Tokens of one answer at most.  `limit`: the endpoint's own."""
        most = (self.sampling.max_tokens, limit, self.budgets.call.tokens)
        return min(each for each in most if each is not None)

    @property
    def rollouts_per_problem(self) -> int:
        """Rollouts of each problem."""
        return self.growth.rollouts(self.strategy_options)

    @property
    def most_attempts(self) -> int:
        """Attempts of one rollout at most."""
        return self.growth.most_attempts(self.strategy_options)

    def as_json(self) -> dict[str, Any]:
        """The specification as JSON, every default written out."""
        value = json.loads(json.dumps(asdict(self)))
        value["strategy"] = {
            "name": self.strategy["name"],
            **json.loads(json.dumps(asdict(self.strategy_options))),
        }
        return dict(value)

    @property
    def sha256(self) -> str:
        """Hash of the whole."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()


def parse(value: object) -> CollectionSpec:
    """The specification of a mapping.  Raises RequestError that names the key."""
    freeform.check_depth(value, "specification")
    return spec_builder.build(CollectionSpec, value, "")


def mapping_of(text: str, *, toml: bool) -> dict[str, Any]:
    """The tables of a specification, not checked yet.  Raises RequestError."""
    try:
        value = tomllib.loads(text) if toml else json.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of more than 4,300 digits
        raise RequestError(
            f"specification: expected {'TOML' if toml else 'JSON'}: {error}"
        ) from error
    if not isinstance(value, dict):
        raise RequestError(f"specification: expected a table, got {type(value).__name__}")
    return value


def put(value: dict[str, Any], key: str, text: str) -> None:
    """Replace one value of a specification: `strategy.turns` and JSON, or text.
    Raises RequestError.
    """
    *tables, last = key.split(".")
    for name in tables:
        value = value.setdefault(name, {})
        if not isinstance(value, dict):
            raise RequestError(f"{key}: expected a table at {name!r}, got {value!r}")
    try:
        value[last] = json.loads(text)
    except json.JSONDecodeError:
        value[last] = text
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{key}: expected JSON or text: {error}") from error
