"""BROWSE: pages that change while they are open, without reload.

One thread listens for the whole process (`app.store.postgres.change_notifications`).  A page opens
one stream of server-sent events, which says only that something of its topics changed; its script
then fetches the live part.  That part is rendered once for all its readers (`LivePart`), so that a
hundred open pages cost one query a change.  Without streams pages ask every few seconds; without
scripts they are as they were.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest, ServiceUnavailable

from app.store.figures import rollups
from app.store.postgres import change_notifications
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.web import query_parameters, request_context
from app.web.identity import current_user, requires
from app.web.query_parameters import reads

_log = logging.getLogger(__name__)

blueprint = flask.Blueprint("live", __name__)

STREAMS = 400
"""Open streams of one process; more pages than that ask from time to time instead."""
STREAM_S = 600.0
"""A stream ends after this long and its page opens another: a login that has ended,
or a new version, shows.
"""
BEAT_S = 15.0
"""A stream says something at least this often, so that proxies keep it and a page
that is gone is noticed.
"""
PACE_S = 0.25
"""Least time between two events of a stream: a busy system would otherwise keep
every page fetching.
"""
LOOK_S = 2.0
"""Seconds for which a fragment counts as new without an announcement: minutes pass
and leases end unannounced.
"""
FRAGMENTS = 200
"""Parts of pages remembered; past it the memory is emptied."""
QUIET_S = 5.0
"""Seconds for which the listener goes on after the last stream has ended."""
RETRY_S = 1.0
"""Seconds until a listener opens another connection in place of a broken one."""
FOLD_S = 20.0
"""Seconds between two folds of the roll-ups' deltas."""


class Feed:
    """The process's one listener, a count of changes per topic.  It listens as long
    as a stream is open.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changed = threading.Condition()
        self._versions = dict.fromkeys(change_notifications.TOPICS, 0)
        self._streams = 0
        self._listening = False
        self._stopping = False

    def stop(self) -> None:
        """End every stream: this server is about to stop, and the pages come back by themselves."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def version(self, topics: tuple[str, ...]) -> int | None:
        """Grows whenever one of the topics is announced; None without a listener."""
        with self._changed:
            return self._sum(topics) if self._listening else None

    def stream(self, topics: tuple[str, ...]) -> Iterator[str]:
        """Server-sent events: one at once, then one after every change.  Raises
        ServiceUnavailable for one too many.
        """
        with self._changed:
            if self._streams >= STREAMS:
                raise ServiceUnavailable(
                    f"{STREAMS} pages are open live; this one asks from time to time instead"
                )
        return self._events(topics)

    def _events(self, topics: tuple[str, ...]) -> Iterator[str]:
        """Counts itself when it begins: one that is thrown away before that has never been open."""
        end, seen = time.monotonic() + STREAM_S, -1
        with self._changed:
            self._streams += 1
        try:
            while time.monotonic() < end and not self._stopping:
                self._ensure_listener()
                now = self._await(topics, seen)
                yield f"data: {now}\n\n" if now != seen else ": nothing new\n\n"
                seen = now
                time.sleep(PACE_S)
        finally:
            with self._changed:
                self._streams -= 1

    def _ensure_listener(self) -> None:
        """Start the thread that listens, unless it runs: an unexpected error may have ended it."""
        with self._changed:
            if not self._listening:
                self._listening = True
                threading.Thread(target=self._listen, name="live", daemon=True).start()

    def _await(self, topics: tuple[str, ...], seen: int) -> int:
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopping or self._sum(topics) != seen, timeout=BEAT_S
            )
            return self._sum(topics)

    def _sum(self, topics: tuple[str, ...]) -> int:
        return sum(self._versions[topic] for topic in topics)

    def _listen(self) -> None:
        changes = change_notifications.Changes(self._database)
        fold_at = time.monotonic()
        try:
            while self._wanted():
                heard = self._hear(changes)
                if time.monotonic() >= fold_at and heard is not None:
                    fold_at = time.monotonic() + FOLD_S
                    self._fold()
                with self._changed:
                    for topic in (
                        change_notifications.TOPICS
                        if heard is None
                        else heard & self._versions.keys()
                    ):
                        self._versions[topic] += 1
                    self._changed.notify_all()
        except BaseException:
            with self._changed:
                self._listening = False
            raise
        finally:
            changes.close()

    def _wanted(self) -> bool:
        with self._changed:
            self._listening = self._streams > 0
            return self._listening

    def _hear(self, changes: change_notifications.Changes) -> set[str] | None:
        """Topics; None where PostgreSQL was away, and anything may have been missed."""
        try:
            return changes.wait(timeout_s=QUIET_S)
        except DatabaseUnavailableError as error:
            _log.warning("%s", error)
            time.sleep(RETRY_S)
            return None

    def _fold(self) -> None:
        try:
            with self._database.begin() as connection:
                rollups.fold(connection)
        except DatabaseUnavailableError as error:
            _log.warning("%s", error)


@dataclass(kw_only=True)
class _Fragment:
    """A rendered part of a page, kept until something changes."""

    lock: threading.Lock
    version: int | None = None
    at_s: float = 0.0
    body: str = ""
    etag: str = ""


def install(app: flask.Flask, database: Database) -> None:
    """Give `app` its feed; nothing listens before the first live page is asked for."""
    app.extensions["assay.live"] = {
        "feed": Feed(database),
        "fragments": {},
        "lock": threading.Lock(),
    }
    app.register_blueprint(blueprint)


@blueprint.get("/live")
@requires("read")
@reads("topics")
def stream() -> flask.Response:
    """Events for the topics that are asked for, comma-separated."""
    topics = tuple(request_context.argument("topics").split(","))
    unknown = [topic for topic in topics if topic not in change_notifications.TOPICS]
    if unknown:
        raise BadRequest(
            f"topics: expected some of {', '.join(change_notifications.TOPICS)}, got {unknown[0]!r}"
        )
    response = flask.Response(_feed().stream(topics), mimetype="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"  # nginx would hold events back
    return response


class LivePart:
    """The part of a page that changes while the page is open."""

    def __init__(self, render: Callable[..., str], topics: tuple[str, ...]) -> None:
        """`render`: gives the part for the values in the page's path."""
        self._render = render
        self._topics = topics
        self._name = f"{render.__module__}.{render.__qualname__}"

    def shown(self, *place: UUID) -> dict[str, str]:
        """The part for the page's template, with its ETag and topics."""
        body, etag = self._rendered(place)
        return {"body": body, "etag": etag, "topics": ",".join(self._topics)}

    def answer(self, **place: UUID) -> flask.Response:
        """The part for the page's script; 304 where it has it."""
        body, etag = self._rendered(tuple(place.values()))
        response = flask.Response(body, mimetype="text/html")
        response.set_etag(etag)
        response.make_conditional(flask.request)
        return response

    def _rendered(self, place: tuple[UUID, ...]) -> tuple[str, str]:
        """The body and its ETag.  The body depends on the URL, the reader's rights and the data."""
        asked = sorted(flask.request.args.lists())
        key = f"{self._name} {place} {asked} {sorted(current_user().scopes)}"
        return _fragment(key, self._topics, lambda: self._render(*place))


def live_part(
    pages: flask.Blueprint, rule: str, *topics: str, endpoint: str = "live_part"
) -> Callable[[Callable[..., str]], LivePart]:
    """Decorator of a function that renders the live part of a page, for the values in its path:
    serves the part at `rule`, with the query parameters that `render` reads, and gives the part.
    """

    def decorated(render: Callable[..., str]) -> LivePart:
        part = LivePart(render, topics)
        view = query_parameters.declared(query_parameters.of(render))(requires("read")(part.answer))
        pages.add_url_rule(rule, endpoint, view)
        return part

    return decorated


def _fragment(key: str, topics: tuple[str, ...], render: Callable[[], str]) -> tuple[str, str]:
    """The body and the ETag of a live part.  While a stream is open, it is rendered again only
    after a change (or LOOK_S), by one thread at a time.  `key` names everything that it depends on
    beside the data.
    """
    state = flask.current_app.extensions["assay.live"]
    with state["lock"]:
        if len(state["fragments"]) >= FRAGMENTS and key not in state["fragments"]:
            state["fragments"].clear()
        kept: _Fragment = state["fragments"].setdefault(key, _Fragment(lock=threading.Lock()))
    with kept.lock:
        version, now = _feed().version(topics), time.monotonic()
        if version is None or kept.version != version or now - kept.at_s > LOOK_S:
            body = render()  # after the version was read: a change in between renders it again
            kept.version, kept.at_s, kept.body = version, now, body
            kept.etag = hashlib.sha256(body.encode()).hexdigest()[:32]
        return kept.body, kept.etag


def _feed() -> Feed:
    feed = flask.current_app.extensions["assay.live"]["feed"]
    assert isinstance(feed, Feed)
    return feed
