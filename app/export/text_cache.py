"""EXPORT: cache of the texts of the rows being rendered: cleaned, searched for
secrets, and read once.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.dataset import secret_scan
from app.domain.dataset.example import Unfit, shows_source
from app.domain.dataset.example_facts import EvaluationFacts
from app.domain.dataset.example_texts import ChatMessage, Dialogue, Exchange, Text, Texts
from app.domain.dataset.selection import Kind
from app.domain.source.source_text import display, encode
from app.store.dataset import export_texts, problem_rows
from app.store.postgres.database import Connection

HOLE = "hole"

_Read = TypeVar("_Read")


class Library:
    """Texts of some rows of a plan."""

    def __init__(self, kind: Kind, *, sources: bool, prompts: bool = False) -> None:
        """`sources`: rows show sources beside the conversation; `prompts`: rows are problems,
        shown under their own prompts.
        """
        self._all_prompts = prompts
        self._prompts: dict[str, tuple[ChatMessage, ...]] = {}
        self._kind = kind
        self._all_sources = sources
        self._first_only = kind in (Kind.SINGLE, Kind.RL_PROMPTS)
        self._references: dict[str, Text] = {}
        self._sources: dict[str, Text] = {}
        self._dialogues: dict[str, Dialogue] = {}

    def turn_to(self, connection: Connection, plan: pa.Table) -> None:
        """Load the texts of these rows, and drop all others."""
        names = ("problem_id", "candidate_id", "trajectory_id", "turn")
        columns = (
            plan.column(name).to_pylist() + plan.column(f"rejected_{name}").to_pylist()
            for name in names
        )
        attempts = [attempt for attempt in zip(*columns, strict=True) if attempt[0] is not None]
        self._references = _kept(
            self._references,
            {problem_id for problem_id, *_ in attempts},
            lambda ids: _texts(export_texts.references(connection, ids)),
        )
        if self._all_prompts:
            found = problem_rows.prompts(
                connection, sorted({problem_id for problem_id, *_ in attempts})
            )
            self._prompts = {problem_id: _asked(messages) for problem_id, messages in found.items()}
        self._dialogues = _kept(
            self._dialogues,
            {trajectory_id for _, _, trajectory_id, _ in attempts} - {None},
            lambda ids: _exchanges(export_texts.dialogues(connection, ids)),
        )
        self._sources = _kept(
            self._sources,
            {
                candidate_id
                for _, candidate_id, *where in attempts
                if candidate_id and self._shows_source(*where)
            },
            lambda ids: _texts(export_texts.sources(connection, ids)),
        )

    def of(self, facts: EvaluationFacts, candidate_id: str | None) -> Texts:
        """Texts of one attempt; an answer without code has no candidate.  Raises Unfit if a text
        has been deleted since the choice.
        """
        try:
            dialogue, turns = self._shown(facts.trajectory_id, facts.turn)
            reference = self._references[facts.problem_id]
            wanted = self._all_sources or shows_source(dialogue, turns, self._kind)
            source = self._sources[candidate_id] if candidate_id and wanted else None
        except KeyError as error:
            raise Unfit(f"{HOLE}: {error} is not stored any more") from error
        return Texts(reference, source, dialogue, turns, self._prompts.get(facts.problem_id, ()))

    def _shows_source(self, trajectory_id: str | None, turn: int | None) -> bool:
        if self._all_sources:
            return True
        try:
            return shows_source(*self._shown(trajectory_id, turn), self._kind)
        except KeyError:  # no row will come of it
            return False

    def _shown(self, trajectory_id: str | None, turn: int | None) -> tuple[Dialogue, int]:
        """The dialogue of a row, and how many of its turns the row shows.  Raises
        KeyError if it is no longer stored.
        """
        if trajectory_id is None:
            return _ALONE, 0
        dialogue = self._dialogues[trajectory_id]
        return dialogue, bisect_right(dialogue.places, 0 if self._first_only else turn or 0)


_ALONE = Dialogue(())
"""Dialogue of a candidate that came alone."""


def _kept(
    known: Mapping[str, _Read], wanted: Iterable[str], read: Callable[[list[str]], dict[str, _Read]]
) -> dict[str, _Read]:
    """Texts by id: those in memory, and the others read from the database."""
    missing: list[str] = []
    kept: dict[str, _Read] = {}
    for one in sorted(wanted):
        if one in known:
            kept[one] = known[one]
        else:
            missing.append(one)
    return kept | read(missing) if missing else kept


def _asked(messages_json: str) -> tuple[ChatMessage, ...]:
    """The messages of a prompt, cleaned; one that holds a secret is refused with the
    row's other texts.
    """
    return tuple(
        ChatMessage(message["role"], display(encode(message["content"])))
        for message in json.loads(messages_json)
    )


def _texts(found: Mapping[str, bytes]) -> dict[str, Text]:
    read = [Text.read(text, search=False) for text in found.values()]
    for place in _suspects([text.shown for text in read]):
        read[place] = read[place]._replace(secret=secret_scan.found((read[place].shown,)))
    return dict(zip(found, read, strict=True))


def _exchanges(found: Mapping[str, Sequence[export_texts.Turn]]) -> dict[str, Dialogue]:
    read = [Exchange.read(*turn, search=False) for turns in found.values() for turn in turns]
    said = [
        (place, message.content) for place, exchange in enumerate(read) for message in exchange.said
    ]
    for suspect in _suspects([content for _, content in said]):
        exchange = read[said[suspect][0]]
        secret = secret_scan.found(message.content for message in exchange.said)
        read[said[suspect][0]] = exchange._replace(secret=secret)
    each = iter(read)
    return {
        trajectory_id: Dialogue([next(each) for _ in turns])
        for trajectory_id, turns in found.items()
    }


def _suspects(texts: list[str]) -> list[int]:
    """Indices of the texts that may hold a secret, found in one pass over all: a search of each
    text for each form took a quarter of the rendering time.
    """
    hit = pc.match_substring_regex(pa.array(texts, pa.large_string()), secret_scan.TELLTALE)
    found: list[int] = pc.indices_nonzero(hit).to_pylist()
    return found
