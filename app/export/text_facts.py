"""EXPORT: facts that a selection needs: keys of problems, fingerprints of solutions,
checks of answers, current verdicts.

Facts are computed once and stored (`app.store.dataset.text_features`): the first export of many
evaluations takes as long as reading all their code, later ones do not.  Each batch is committed; an
interrupted call is continued by the next.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from app.detectors import DETECTORS
from app.domain import benchmarks, filter_fields
from app.domain import filter_language as filters
from app.domain import policy as policies
from app.domain.dataset import code_extraction, problem_family
from app.domain.dataset.decontamination import HeldOut, Index, Match
from app.domain.dataset.selection import Kind, Spec
from app.domain.policy import Policy
from app.domain.source import near_duplicates, source_text
from app.domain.source.near_duplicates import Fingerprint, Similarity
from app.export import tokens
from app.rejudging import rejudge
from app.store import tables
from app.store.dataset import export_matching, export_records, export_texts, text_features
from app.store.dataset.export_matching import Matching
from app.store.evaluation import evaluations
from app.store.postgres.database import Connection, Database

BATCH = 1_000
"""Texts read at once."""
MANY = 5 * BATCH
"""Fingerprints from which on starting processes pays: each start takes a second, as
long as a thousand fingerprints.
"""
MOST_READERS = 8
"""Most processes that read texts, on a host with as many processors or more."""

Progress = Callable[[str, int, int], None]
"""Callback for progress: name of a stage, units done, units in total (0: unknown)."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """Progress that is not shown."""


def policy_of(spec: Spec) -> Policy:
    """The policy of the required verdicts.  Raises UnknownPolicyError for an unknown name."""
    return policies.find(spec.policy) if spec.policy else policies.DEFAULT


def versions() -> dict[str, int]:
    """Detector → installed version."""
    return {name: detector.version for name, detector in DETECTORS.items()}


def facts(
    database: Database,
    spec: Spec,
    kind: Kind,
    progress: Progress = silent,
    only: Matching | None = None,
) -> None:
    """Compute the missing facts that this selection needs: of all evaluations, or of
    those that match.
    """
    tokens.counter(spec.tokenizer)  # a tokenizer that cannot be read is an error before the work
    problems(database, progress)
    if kind.takes_all:
        return
    if spec.similarity in (Similarity.NORMALISED, Similarity.RENAMED, Similarity.MINHASH):
        candidates(database, progress, only)
    if spec.extraction:
        named = filters.names(filters.parse(spec.where))
        answers(
            database,
            progress,
            only,
            failures=kind.uses_failures or bool(named & filter_fields.ON_OUTCOME),
        )


def problems(database: Database, progress: Progress = silent) -> None:
    """Compute the keys of every problem without any."""
    done = 0
    while True:
        with database.begin() as connection:
            found = text_features.problems_without(connection, problem_family.VERSION, BATCH)
            text_features.put(connection, tables.problem_features, [_keys(one) for one in found])
        done += len(found)
        progress("families", done, 0)
        if len(found) < BATCH:
            return


def candidates(
    database: Database, progress: Progress = silent, only: Matching | None = None
) -> None:
    """Compute the fingerprints of every correct candidate without any."""
    with database.begin() as connection:
        left = text_features.candidates_left(
            connection, near_duplicates.VERSION, export_matching.evaluated(only)
        )
    progress("fingerprints", 0, left)

    def page(after: UUID | None) -> tuple[list[text_features.CandidateText], UUID | None]:
        with database.begin() as connection:
            return text_features.candidates_without(
                connection, near_duplicates.VERSION, export_matching.evaluated(only), after, BATCH
            )

    with _fingerprints(left) as read:
        done = 0
        found, after = page(None) if left else ([], None)
        prints = read(source_text.display(one.source) for one in found)
        while (
            found
        ):  # a batch is read from the database, and the one before it stored, while others compute
            done += len(found)
            following, after = page(after) if after is not None and done < left else ([], None)
            rows = [_fingerprint(one, own) for one, own in zip(found, prints, strict=True)]
            prints = read(source_text.display(one.source) for one in following)
            with database.begin() as connection:
                text_features.put(connection, tables.candidate_features, rows)
            progress("fingerprints", done, max(done, left))
            found = following


@contextmanager
def _fingerprints(count: int) -> Iterator[Callable[[Iterable[str]], Iterable[Fingerprint]]]:
    """Fingerprints of sources, in order; many are computed on all processors, because each
    takes most of a millisecond, and while the caller does other work: they have to be
    taken before more are asked for.
    """
    processors = os.cpu_count() or 1
    if count < MANY or processors == 1:
        yield partial(map, near_duplicates.fingerprint)
        return
    command = [sys.executable, "-m", "app.domain.source.fingerprinting"]
    with ExitStack() as stack:
        readers = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(min(processors, MOST_READERS))
        ]
        threads = stack.enter_context(ThreadPoolExecutor(len(readers)))

        def read(texts: Iterable[str]) -> Iterator[Fingerprint]:
            listed = list(texts)
            size = -(-len(listed) // len(readers))
            parts = (listed[place * size : (place + 1) * size] for place in range(len(readers)))
            asked = [
                threads.submit(_asked_of, *each)
                for each in zip(readers, parts, strict=True)
                if listed
            ]
            return chain.from_iterable(map(Future.result, asked))

        yield read


def _asked_of(reader: subprocess.Popen[bytes], texts: list[str]) -> list[Fingerprint]:
    """Fingerprints of some sources, computed by another process."""
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write(json.dumps(texts).encode() + b"\n")
    reader.stdin.flush()
    line = reader.stdout.readline()
    if not line:
        raise RuntimeError(f"a process that reads fingerprints ended with code {reader.wait()}")
    return [
        Fingerprint(normalised=normalised, renamed=renamed, signature=bytes.fromhex(signature))
        for normalised, renamed, signature in json.loads(line)
    ]


def answers(
    database: Database, progress: Progress = silent, only: Matching | None = None, *, failures: bool
) -> None:
    """Check whether the answers of evaluated turns show the evaluated source."""
    with database.begin() as connection:
        left = text_features.turns_left(
            connection, code_extraction.VERSION, export_matching.evaluated(only), failures=failures
        )
    after, done = None, 0
    progress("answers", 0, left)
    while done < left:
        with database.begin() as connection:
            found, after = text_features.turns_without(
                connection,
                code_extraction.VERSION,
                export_matching.evaluated(only),
                after,
                BATCH,
                failures=failures,
            )
            text_features.put(connection, tables.turn_features, [_check(one) for one in found])
        done += len(found)
        progress("answers", done, max(done, left))
        if after is None:
            return


def rejudge_stale(
    database: Database, policy: Policy, progress: Progress = silent, only: Matching | None = None
) -> int:
    """Re-judge evaluations with a verdict by other detectors or another policy; returns
    the number of changed verdicts.
    """
    after, done, changed = None, 0, 0
    while True:
        with database.begin() as connection:
            found, after = text_features.stale_verdicts(
                connection, policy.key, versions(), export_matching.evaluated(only), after, BATCH
            )
        for (evaluation_id,) in found:
            changed += _judge_again(database, evaluation_id, policy)
            done += 1
            progress("judging", done, 0)
        if after is None:
            return changed


def held_out(database: Database, names: Iterable[str]) -> list[HeldOut]:
    """Problems of the named lists: source sets of this database, or files of JSON lines.  Raises
    ValueError for an unknown name or an empty list.
    """
    found: list[HeldOut] = []
    for name in names:
        listed = (
            list(_from_file(Path(name))) if Path(name).is_file() else _from_database(database, name)
        )
        if not listed:
            raise ValueError(
                "held_out: expected a source set or a file of JSON lines with problems, got"
                f" {name!r}"
            )
        found += listed
    return found


def contaminated(database: Database, index: Index, progress: Progress = silent) -> dict[str, Match]:
    """Problem → reason why it must not be trained on."""
    if not len(index):
        return {}
    found: dict[str, Match] = {}
    with database.begin() as connection:
        known = export_records.all_problems(connection)
        for done, (problem_id, problem) in enumerate(known.items(), start=1):
            reference = export_texts.references(connection, [problem_id])[problem_id]
            match = index.problem(reference, problem.entry_point)
            if match is not None:
                found[problem_id] = match
            progress("decontamination", done, len(known))
    return found


def benchmarked(connection: Connection) -> dict[str, Match]:
    """Problem → equal problem of a known benchmark, by semantic key or family."""
    found = (
        (key, benchmarks.match(of, operators))
        for key, of, operators in export_records.problem_keys(connection)
    )
    return {key: match for key, match in found if match is not None}


def _from_database(database: Database, name: str) -> list[HeldOut]:
    with database.begin() as connection:
        known = export_records.all_problems(connection)
        wanted = [identifier for identifier, problem in known.items() if problem.source_set == name]
        references = export_texts.references(connection, wanted)
    return [
        HeldOut(
            name=f"{name}/{known[identifier].problem}",
            reference=references[identifier],
            entry_point=known[identifier].entry_point,
        )
        for identifier in wanted
    ]


def _from_file(path: Path) -> Iterable[HeldOut]:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            fields: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
            reference = fields.get("reference", fields.get("code"))
            name, entry_point = (
                str(fields.get("name", number)),
                str(fields.get("entry_point", "Model")),
            )
        except msgspec.DecodeError as error:
            raise ValueError(f"{path}:{number}: expected a JSON object: {error}") from error
        if not isinstance(reference, str):
            raise ValueError(
                f"{path}:{number}: expected `reference` or `code`, got {sorted(fields)}"
            )
        yield HeldOut(
            name=f"{path.name}/{name}",
            reference=source_text.encode(reference),
            entry_point=entry_point,
        )


def _judge_again(database: Database, evaluation_id: UUID, policy: Policy) -> bool:
    """Judge one again; True if the verdict changed."""
    with database.begin() as connection:
        stored = evaluations.get(connection, evaluation_id)
        return stored is not None and rejudge(connection, stored, policy).changed


def _keys(one: text_features.ProblemText) -> dict[str, Any]:
    keys = problem_family.keys(one.reference, one.entry_point)
    return {
        "problem_id": one.problem_id,
        "version": problem_family.VERSION,
        "family": keys.family,
        "task": keys.task,
    }


def _fingerprint(one: text_features.CandidateText, found: Fingerprint) -> dict[str, Any]:
    return {
        "candidate_id": one.candidate_id,
        "version": near_duplicates.VERSION,
        "normalised": found.normalised,
        "renamed": found.renamed,
        "signature": found.signature,
    }


@functools.lru_cache(maxsize=1_024)
def _opening(messages_json: str) -> str:
    """Texts of the messages, joined: many attempts share them."""
    return "\n".join(str(message["content"]) for message in json.loads(messages_json))


def _check(one: text_features.TurnText) -> dict[str, Any]:
    response, code = source_text.display(one.response), source_text.display(one.source)
    outcome = code_extraction.check(
        response, code, one.entry_point, prompt=_opening(one.opening_json)
    )
    return {"turn_id": one.turn_id, "version": code_extraction.VERSION, "extraction": outcome}
