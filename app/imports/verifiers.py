"""ENQUEUE: import of rollouts that the package `verifiers` has saved: episodes of its API v1
(`traces.jsonl`), one a line, and outputs of the API before it (`results.jsonl`).

A trace is a graph of messages: every path to a leaf with a sampled answer becomes a trajectory, as
it becomes a training sample there.  The problem stands in the task's data (or in `info`):
`reference`, as in `assay import jsonl`, or is the one that the caller names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from app.domain.collection import texts
from app.domain.trajectory import Message
from app.imports import fields
from app.imports.base import (
    Bad,
    BadImportError,
    Imported,
    Sample,
    SampleOptions,
    SampleTurn,
    check,
    code_of,
    store_samples,
)
from app.store.postgres.database import Database

FILE = "traces.jsonl"
_KEPT = ("rewards", "metrics", "info", "is_completed", "ok", "stop_condition", "errors", "calls")
"""Fields of a trace that are kept as claims."""
_OUTPUT = frozenset({"prompt", "completion"})


def verifiers(
    database: Database, path: Path, *, problem: str | None = None, **options: Unpack[SampleOptions]
) -> Imported:
    """Import a file, or the `traces.jsonl` of a run's folder, into one run: a job
    for each answer with code.

    `problem`: the stored problem, by its id or as `<source set>/<name>`, of rows that do not say.
    Rewards, metrics and errors are kept as claims.  A bad line is left out and listed.
    """
    backend = options.get("backend")
    check(options.get("device_class", "cpu"), backend)
    file = path / FILE if path.is_dir() else path
    known = fields.KnownProblems(database)
    return store_samples(
        database,
        _samples(file, problem, backend, known),
        importer="verifiers",
        named=path.resolve().name if path.is_dir() else path.stem,
        recorded={},
        options=options,
    )


def _samples(
    file: Path, problem: str | None, backend: str | None, known: fields.KnownProblems
) -> Iterator[Sample | Bad]:
    for line, where in fields.lines(file):
        try:
            yield from list(_of_line(fields.object_of(line, where), where, problem, backend, known))
        except BadImportError as error:
            yield Bad(message=str(error))


def _of_line(
    row: dict[str, Any],
    where: str,
    problem: str | None,
    backend: str | None,
    known: fields.KnownProblems,
) -> Iterator[Sample]:
    if isinstance(row.get("traces"), list):
        for number, trace in enumerate(row["traces"]):
            yield from _of_trace(trace, f"{where}: trace {number}", problem, backend, known)
    elif "nodes" in row:
        yield from _of_trace(row, where, problem, backend, known)
    elif row.keys() >= _OUTPUT:
        yield _of_output(row, where, problem, backend, known)
    else:
        raise BadImportError(
            f"{where}: expected an episode with `traces`, or an output with `prompt` and"
            " `completion`"
        )


def _of_trace(
    trace: Any, where: str, problem: str | None, backend: str | None, known: fields.KnownProblems
) -> Iterator[Sample]:
    if not isinstance(trace, dict) or not isinstance(trace.get("nodes"), list):
        raise BadImportError(f"{where}: expected an object with a list of nodes")
    task = trace.get("task")
    data = task.get("data") if isinstance(task, dict) else None
    told = _told(data, problem)
    identity = fields.label_of(trace, "id", repr(trace).encode())
    for number, path in enumerate(_paths(trace["nodes"], where)):
        yield Sample(
            where=where,
            label=identity if number == 0 else f"{identity}/{number}",
            problem=fields.problem_of(told, where, known),
            licence=fields.licence_of(told),
            turns=_turns(path, where),
            backend=backend or _backend(told),
            claims={name: trace[name] for name in _KEPT if name in trace} or None,
        )


def _paths(nodes: Sequence[Any], where: str) -> list[list[dict[str, Any]]]:
    """Paths from a root to each leaf, up to its last sampled answer; those without
    one are left out.
    """
    parents = set()
    for number, node in enumerate(nodes):
        parent = node.get("parent") if isinstance(node, dict) else number
        if parent is not None and not (type(parent) is int and 0 <= parent < number):
            raise BadImportError(
                f"{where}: node {number}: expected the number of an earlier node as parent"
            )
        parents.add(parent)
    found: list[list[dict[str, Any]]] = []
    for leaf in (number for number in range(len(nodes)) if number not in parents):
        path, place = [], leaf
        while place is not None:
            path.append(nodes[place])
            place = nodes[place].get("parent")
        path.reverse()
        while path and not path[-1].get("sampled"):
            path.pop()
        if path and path not in found:
            found.append(path)
    if not found:
        raise BadImportError(f"{where}: expected at least one sampled answer, got none")
    return found


def _turns(path: Sequence[dict[str, Any]], where: str) -> tuple[SampleTurn, ...]:
    """Turns of a path: an answer that the model did not give is context of the next one."""
    turns: list[SampleTurn] = []
    waiting: list[Message] = []
    for node in path:
        message = _message(node.get("message"), where)
        if not node.get("sampled"):
            waiting.append(message)
            continue
        turns.append(
            SampleTurn(
                messages=tuple(waiting),
                response=message.content,
                candidate=code_of(message.content),
            )
        )
        waiting = []
    return tuple(turns)


def _of_output(
    row: dict[str, Any],
    where: str,
    problem: str | None,
    backend: str | None,
    known: fields.KnownProblems,
) -> Sample:
    told = _told(row.get("info"), problem)
    return Sample(
        where=where,
        label=fields.label_of(row, "trajectory_id", repr(row).encode()),
        problem=fields.problem_of(told, where, known),
        licence=fields.licence_of(told),
        turns=_turns(_dialogue(row["prompt"], row["completion"], where), where),
        backend=backend or _backend(told),
        claims=fields.further(row, _OUTPUT),
    )


def _dialogue(prompt: Any, completion: Any, where: str) -> list[dict[str, Any]]:
    """Nodes of an output up to its last answer: answers that its prompt quotes are not sampled."""
    if isinstance(prompt, str) and isinstance(completion, str):
        prompt = [{"role": "user", "content": prompt}]
        completion = [{"role": "assistant", "content": completion}]
    if not isinstance(prompt, list) or not isinstance(completion, list):
        raise BadImportError(
            f"{where}: prompt, completion: expected two texts or two lists of messages"
        )
    nodes = [{"message": each, "sampled": False} for each in prompt]
    nodes += [
        {"message": each, "sampled": _message(each, where).role == "assistant"}
        for each in completion
    ]
    while nodes and not nodes[-1]["sampled"]:
        nodes.pop()
    if not nodes:
        raise BadImportError(f"{where}: completion: expected an answer of the role 'assistant'")
    return nodes


def _told(data: Any, problem: str | None) -> dict[str, Any]:
    """Fields of the problem: of the task's data, or of `info` in it, or the caller's."""
    told = data if isinstance(data, dict) else {}
    inner = told.get("info")
    if "reference" not in told and isinstance(inner, dict):
        told = {**told, **inner}
    return fields.with_problem(told, problem)


def _backend(told: dict[str, Any]) -> str | None:
    named = told.get("backend")
    return named if isinstance(named, str) else None


def _message(given: Any, where: str) -> Message:
    """A message with its reasoning before it; parts of a content that are no text are an error."""
    if not isinstance(given, dict) or not isinstance(given.get("role"), str):
        raise BadImportError(f"{where}: expected messages with role and content")
    content = given.get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        if not all(isinstance(part, str) for part in parts):
            raise BadImportError(f"{where}: expected text, got a message with other content")
        content = "\n".join(str(part) for part in parts)
    if content is not None and not isinstance(content, str):
        raise BadImportError(f"{where}: expected text in content, got {type(content).__name__}")
    reasoning = given.get("reasoning_content")
    text = texts.as_turn(content or "", reasoning if isinstance(reasoning, str) else None)
    return Message(role=given["role"], content=text)
