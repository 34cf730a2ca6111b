"""BROWSE: a request's access to its application and its own URL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, TypeVar
from uuid import UUID

import flask
from celery import Celery
from werkzeug.exceptions import BadRequest, NotFound, ServiceUnavailable

from app.domain import reward
from app.settings import Settings
from app.store.postgres.database import Connection, Database
from app.web.job_waiter import Watch
from app.web.request_metrics import RequestMetrics
from app.web.submit_batcher import SubmitBatcher
from app.web.write_check import Writes

_T = TypeVar("_T")

PAGE_ROWS = 50
"""Rows of one page of a list."""
LARGEST = 2**31 - 1
"""Largest number that a column of whole numbers holds."""
_NUMBER = re.compile("[0-9]{1,10}")
TABLE_ROWS = 2_000
"""Rows of one `.json` or `.csv` of a list; the header Link leads to the rest."""


def row_limit() -> int:
    """Rows of a list: as many as a page shows, or, at a URL that ends in `.json` or `.csv`, as a
    file has.
    """
    return TABLE_ROWS if "kind" in (flask.request.view_args or {}) else PAGE_ROWS


def database() -> Database:
    """The application's database."""
    return _of_app("database", Database)


def writes() -> Writes:
    """Test whether the application's database stores anything."""
    return _of_app("writes", Writes)


def settings() -> Settings:
    """The application's settings."""
    return _of_app("settings", Settings)


def watch() -> Watch:
    """Wakes the threads that wait for a job."""
    return _of_app("watch", Watch)


def request_metrics() -> RequestMetrics:
    """Counters of the application's requests."""
    return _of_app("request_metrics", RequestMetrics)


def _of_app(name: str, kind: type[_T]) -> _T:
    """An object that `create_app` has given the application."""
    found = flask.current_app.extensions["assay"][name]
    assert isinstance(found, kind)
    return found


def submit_batcher() -> SubmitBatcher:
    """The way from requests to jobs.  503 where this server was given no broker."""
    if "submit_batcher" not in flask.current_app.extensions["assay"]:
        raise ServiceUnavailable(
            "this server takes no submissions: it was given no ASSAY_BROKER_URL"
        )
    return _of_app("submit_batcher", SubmitBatcher)


def broker() -> Celery:
    """Celery app that publishes the messages."""
    return submit_batcher().broker


def argument(name: str) -> str:
    """A query parameter without surrounding space; empty where it is absent.  NUL is
    refused: no column holds it.
    """
    return _text(name, flask.request.args)


def form_field(name: str) -> str:
    """A field of the form, as `argument` reads a query parameter."""
    return _text(name, flask.request.form)


def value(name: str) -> str:
    """A query parameter or, where it is absent, a field of the form."""
    return _text(name, flask.request.values)


def _text(name: str, given: Mapping[str, str]) -> str:
    text = given.get(name, "").strip()
    if "\0" in text:
        raise BadRequest(f"{name}: expected text without NUL characters")
    return text


def choice_argument(name: str, choices: Iterable[str], usual: str = "") -> str:
    """A query parameter that is one of some words; `usual` where it is absent."""
    asked, known = argument(name), tuple(choices)
    if asked and asked not in known:
        raise BadRequest(f"{name}: expected one of {', '.join(known)}, got {asked!r}")
    return asked or usual


def flag_argument(name: str, word: str = "yes") -> bool:
    """True for a query parameter of this word, the only one that it may be."""
    return bool(choice_argument(name, (word,)))


def reward_argument() -> str:
    """The query parameter `reward`; the service's own reward where it is absent."""
    name = argument("reward") or settings().reward
    try:
        reward.parse(name)
    except reward.UnknownRewardError as error:
        raise BadRequest(f"reward: {error}") from error
    return name


def id_arguments(name: str) -> list[UUID]:
    """A query parameter of UUIDs that may be repeated, each once in the order given."""
    given = [text for text in flask.request.args.getlist(name) if text]
    try:
        return list(dict.fromkeys(map(UUID, given)))
    except ValueError:
        raise BadRequest(f"{name}: expected UUIDs, got {', '.join(given)!r}") from None


def id_argument(name: str) -> UUID | None:
    """A query parameter that is a UUID; None where it is absent."""
    text = argument(name)
    if not text:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise BadRequest(f"{name}: expected a UUID, got {text!r}") from None


def number_argument(name: str) -> int | None:
    """A query parameter that is a whole number of those that columns hold; None where it is
    absent.
    """
    text = argument(name)
    if not text:
        return None
    if not _NUMBER.fullmatch(text) or int(text) > LARGEST:
        raise BadRequest(f"{name}: expected a whole number from 0 to {LARGEST}, got {text[:40]!r}")
    return int(text)


def with_arguments(endpoint: str, **arguments: str) -> str:
    """The URL of a list with those query parameters that are not empty."""
    return flask.url_for(endpoint, **{name: text for name, text in arguments.items() if text})  # type: ignore[arg-type]


def missing(noun: str, identifier: UUID) -> NoReturn:
    """Answer 404, naming the missing thing."""
    raise NotFound(f"There is no {noun} {identifier}.")


def one(
    connection: Connection,
    noun: str,
    identifier: UUID,
    read: Callable[[Connection, UUID], _T | None],
) -> _T:
    """The object of that id; answers 404 where there is none."""
    stored = read(connection, identifier)
    return missing(noun, identifier) if stored is None else stored


def found(noun: str, identifier: UUID, read: Callable[[Connection, UUID], _T | None]) -> _T:
    """The object of that id, read in one snapshot; answers 404 where there is none."""
    with database().snapshot() as connection:
        return one(connection, noun, identifier, read)


def attachment(body: bytes, name: str) -> flask.Response:
    """Bytes that a model wrote, as a download that no browser renders."""
    response = flask.Response(
        body, mimetype="text/plain", headers={"Content-Type": "text/plain; charset=utf-8"}
    )
    response.headers.set("Content-Disposition", "attachment", filename=name)
    return response
