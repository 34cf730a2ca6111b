"""Settings: read from the environment once per process, then passed on as a value."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.domain import reward
from app.domain.device import slots_worth
from app.domain.job import Limits

SERVICES_FILE = "services.json"
"""File in the state folder with the embedded services' URLs, while they run."""

WEB_URL_FILE = "web_url"
"""File in the state folder with the web UI's address, while `assay up` serves it."""
DEFAULT_WEB_URL = "http://127.0.0.1:8000"

LOG_FORMATS = ("plain", "json")
"""`plain` for terminals, `json` for log collectors."""
MOST_S = 3_600.0
"""Longest lease and period, in seconds."""

AUTO = "auto"
"""ASSAY_SLOTS of a worker that takes as many as its device is worth."""


_IN_FILES = frozenset({"database_url_file", "broker_url_file"})
"""Settings with passwords in their values, as names of files that hold the value."""


class ServicesNotRunningError(RuntimeError):
    """No URL was given and no embedded services run."""


def yes_or_no(text: str) -> bool:
    """A switch.  Raises ValueError for anything but the usual words."""
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    try:
        return words[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def default_state_dir() -> Path:
    """Data folder of the embedded services: short (socket paths end at 107 bytes) and open to other
    uids, because PostgreSQL refuses to run as root.
    """
    return Path(f"/var/tmp/assay-{os.getuid()}")  # noqa: S108 (made with mode 0711 and checked for its owner)


ARROW_POOL = ("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
"""Environment variable and value for processes that make datasets.  Arrow's other pool keeps 40 to
60 MB more, and Arrow's own allocations ignore a pool that is set later.
"""


_LEAST = {
    "max_attempts": 1,
    "max_interruptions": 0,
    "max_queued": 0,
    "trusted_proxies": 0,
    "device_index": 0,
    "calls": 1,
}
"""Setting → its least value."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything configurable.  Each field is the environment variable ASSAY_<FIELD>
    in capitals.
    """

    database_url: str | None = None
    """SQLAlchemy URL, `postgresql+psycopg://…`; None means the embedded services."""
    broker_url: str | None = None
    """Celery broker URL, `redis://…` or `redis+socket://…`; None means the embedded services."""
    state_dir: Path = field(default_factory=default_state_dir)
    """Folder of the embedded services."""
    web_url: str = DEFAULT_WEB_URL
    """Address at which people reach the web UI: used in links."""
    reward: str = reward.DEFAULT
    """Which reward is the `score` of a result: a name of app.domain.reward, with
    options after a colon.
    """
    lease_s: float = 20.0
    """Seconds without a sign of life from a running job's worker, after which the
    job runs again.
    """
    sweep_s: float = 5.0
    """Period of the sweep that sends lost messages again, in seconds."""
    max_attempts: int = Limits.attempts
    """Attempts by Assay's fault after which a job fails for good."""
    max_interruptions: int = Limits.interruptions
    """Attempts cut short by the death of one of Assay's processes, counted apart,
    after which a job fails for good.
    """
    ageing_s: float = 300.0
    """A queued job rises by one priority for each such time that it waits, in
    seconds, so that nothing starves.
    """
    log_format: str = "plain"
    """Log format of workers and web: `plain`, or `json` with one object a line."""
    max_queued: int = 100_000
    """Web: queued jobs of a device class above which the API takes no more (429)."""
    trusted_proxies: int = 0
    """Web: number of proxies in front of it with trusted X-Forwarded-For, -Proto and -Host."""
    device_class: str = "cpu"
    """Worker: the device class that it serves."""
    device_index: int = 0
    """Worker: index of its device on the host."""
    slots: int | None = None
    """Worker: evaluations that it keeps in flight, only one of which times at any moment; None
    (`auto`): as many as its device is worth (`concurrency`).  More than one buys throughput on a
    GPU with wider intervals: the driver's work for one slot is felt by another's clock.
    """

    endpoint: str | None = None
    """Worker of models: the endpoint that it calls."""
    calls: int = 64
    """Worker of models: calls that it keeps in flight at most."""
    allow_weak_sandbox: bool = False
    """Worker: serve although its self-test found that a candidate could perform a forbidden act."""

    def __post_init__(self) -> None:
        reward.parse(self.reward)
        if self.slots is not None and self.slots < 1:
            raise ValueError(f"ASSAY_SLOTS: expected at least 1, got {self.slots}")
        for name, least in _LEAST.items():
            if (value := getattr(self, name)) < least:
                raise ValueError(f"ASSAY_{name.upper()}: expected at least {least}, got {value}")
        for name, value in (("lease_s", self.lease_s), ("sweep_s", self.sweep_s)):
            if not 0 < value <= MOST_S:
                raise ValueError(
                    f"ASSAY_{name.upper()}: expected more than 0, at most {MOST_S:g}, got {value:g}"
                )
        if not self.ageing_s > 0:
            raise ValueError(f"ASSAY_AGEING_S: expected more than 0, got {self.ageing_s:g}")
        if self.log_format not in LOG_FORMATS:
            raise ValueError(
                f"ASSAY_LOG_FORMAT: expected one of {', '.join(LOG_FORMATS)}, got"
                f" {self.log_format!r}"
            )

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read ASSAY_* variables; unknown or malformed ones raise ValueError.

        The two URLs may lie in files instead, as secrets of containers do:
        ASSAY_DATABASE_URL_FILE names one.
        """
        env = os.environ if env is None else env
        parsers: dict[str, Callable[[str], object]] = {
            "database_url": str,
            "broker_url": str,
            "state_dir": Path,
            "web_url": str,
            "reward": str,
            "lease_s": float,
            "sweep_s": float,
            "max_attempts": int,
            "max_interruptions": int,
            "ageing_s": float,
            "log_format": str,
            "max_queued": int,
            "trusted_proxies": int,
            "device_class": str,
            "device_index": int,
            "slots": number_or_auto,
            "endpoint": str,
            "calls": int,
            "allow_weak_sandbox": yes_or_no,
        }
        values: dict[str, object] = {}
        for key, text in env.items():
            if not key.startswith("ASSAY_"):
                continue
            name = key.removeprefix("ASSAY_").lower()
            if name in _IN_FILES:
                name, text = name.removesuffix("_file"), _secret(key, text)
            if name not in parsers:
                expected = ", ".join(f"ASSAY_{known.upper()}" for known in parsers)
                raise ValueError(f"{key}: unknown setting; expected one of {expected}")
            try:
                values[name] = parsers[name](text)
            except ValueError as error:
                raise ValueError(
                    f"{key}: expected {_KINDS[parsers[name]]}, got {text!r}"
                ) from error
        return cls(**values)  # type: ignore[arg-type]  # parsed field by field above

    @property
    def concurrency(self) -> int:
        """Slots of a worker: as set, else by its device."""
        return self.slots or slots_worth(self.device_class)

    @property
    def limits(self) -> Limits:
        """Number of tries of a job."""
        return Limits(attempts=self.max_attempts, interruptions=self.max_interruptions)

    def to_env(self) -> dict[str, str]:
        """The variables from which `from_env` makes the same settings: for a process
        that is started with them.
        """
        return {
            f"ASSAY_{name.upper()}": str(value)
            for name, value in vars(self).items()
            if value is not None
        }


def number_or_auto(text: str) -> int | None:
    """A number; None for `auto`.  Raises ValueError."""
    return None if text == AUTO else int(text)


_KINDS: Mapping[Callable[[str], object], str] = {
    float: "a number",
    int: "a whole number",
    yes_or_no: "yes or no (1, 0, true, false, on, off)",
    number_or_auto: f"a whole number or {AUTO}",
}
"""Parser → values that it takes, for messages."""


def _secret(key: str, path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{key}: expected a file with a URL: {error}") from error


def located(settings: Settings) -> Settings:
    """The settings with both URLs: those that were given, else those of the embedded
    services that run.

    Links lead to the web UI that `assay up` serves on this machine, unless the settings name
    another one.  Raises ServicesNotRunningError with the way to start the services.
    """
    settings = with_web_url(settings)
    if settings.database_url and settings.broker_url:
        return settings
    path = settings.state_dir / SERVICES_FILE
    try:
        urls = json.loads(path.read_text())
    except FileNotFoundError:
        raise ServicesNotRunningError(
            "no services: expected ASSAY_DATABASE_URL and ASSAY_BROKER_URL, or embedded services"
            f" in {settings.state_dir} (start them with `assay up`; ASSAY_STATE_DIR names another"
            " folder)"
        ) from None
    return replace(
        settings,
        database_url=settings.database_url or urls["database_url"],
        broker_url=settings.broker_url or urls["broker_url"],
    )


def with_web_url(settings: Settings) -> Settings:
    """The settings with the address of the web UI that runs on this machine with the embedded
    services, if one does and nothing else was asked for.
    """
    if _names_web(settings):
        return settings
    try:
        return replace(settings, web_url=(settings.state_dir / WEB_URL_FILE).read_text())
    except FileNotFoundError:
        return settings


def expects_web(settings: Settings) -> bool:
    """True if a web UI is known to the settings or runs on this machine: links lead somewhere."""
    return _names_web(settings) or (settings.state_dir / WEB_URL_FILE).exists()


def _names_web(settings: Settings) -> bool:
    return settings.web_url != DEFAULT_WEB_URL or settings.database_url is not None
