"""The part of `assay demo` that collects: a scripted model writes three turns for
each of two sample problems.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from app.cli import output, services
from app.cli.zoo import Case
from app.client import Client
from app.domain.collection.call import EndpointConfig
from app.domain.request import ConflictError, MissingError
from app.domain.source import source_text
from app.endpoints.scripted.behaviour import Behaviour
from app.endpoints.scripted.process import running
from app.endpoints.scripted.script import Scene, Script
from app.settings import Settings
from app.store.collection import endpoints

ENDPOINT = "scripted"
"""Name under which the scripted server is stored."""
POLL_S = 0.5
"""Seconds between two looks at the collection's state."""
PATIENCE_S = 120.0
"""Seconds for six answers and evaluations after all other candidates: they take about ten."""
ONE_PROGRAM, MANY_PROGRAMS = b"per_program = 8 if", b"per_program = 1 if"
"""Lines of the same kernel with its best tiling and with one that starts eight times
as many programs.
"""

FIRST = ("broken/syntax_error", "wrong/off_by_one_mask", "honest/scaled_add_triton")
"""Turns on the first problem: it does not load, is wrong, is right."""
SECOND = ("hacks/resubmits_reference", "honest/running_sum_triton", "honest/running_sum_triton")
"""Turns on the second one: a cheat, a correct kernel, and a faster tiling of it."""
TURNS = len(FIRST)
ANSWERS = len(FIRST) + len(SECOND)


@dataclass(frozen=True, kw_only=True)
class Started:
    """A collection under way, and the workers that it needs."""

    name: str
    client: Client
    workers: services.Generators

    def answered(self) -> int:
        """Answers of the model so far.  Raises InfrastructureError where a worker is lost."""
        self.workers.check()
        return int(self.client.collection(self.name, full=True)["quality"]["answers"])

    def is_over(self) -> bool:
        """True after the last turn."""
        return bool(self.client.collection(self.name)["state"] != "running")

    def wait(self, tell: Callable[[int], None]) -> dict[str, Any]:
        """Wait; the figures at the end.  `tell` gets the answers so far.  Raises TimeoutError."""
        until_s = time.monotonic() + PATIENCE_S
        while not self.is_over():
            tell(self.answered())
            if time.monotonic() > until_s:
                raise TimeoutError(f"the collection was not over after {PATIENCE_S:.0f} s")
            time.sleep(POLL_S)
        found = self.client.collection(self.name, full=True)
        tell(int(found["quality"]["answers"]))
        return found


@contextmanager
def started(
    client: Client,
    settings: Settings,
    cases: Mapping[str, Case],
    options: Mapping[str, Any],
    device: services.Worker,
) -> Iterator[Started]:
    """A collection of six calls; an error or Ctrl-C stops it.  `options`: of its evaluations."""
    problems = [cases[names[0]] for names in (FIRST, SECOND)]
    with _endpoint(client, cases):
        specification = {
            "name": f"demo {datetime.now(UTC):%Y-%m-%d %H.%M.%S}",
            "endpoint": ENDPOINT,
            "problems": {"source_set": "samples", "names": [case.problem for case in problems]},
            "strategy": {"name": "sequential", "samples": 1, "turns": TURNS},
            "sampling": {"max_tokens": 8192, "token_ids": True},
            "options": dict(options),
            "fresh": True,
        }
        with services.Generators(settings, client, [ENDPOINT], device) as workers:
            name = str(client.collect(specification))
            try:
                yield Started(name=name, client=client, workers=workers)
            except BaseException:
                with suppress(ConflictError):
                    client.change_collection(name, "stop")
                raise


@contextmanager
def _endpoint(client: Client, cases: Mapping[str, Case]) -> Iterator[None]:
    """The model's server, and its endpoint: no later worker shall look for it."""
    with running(script(cases), Behaviour(chunk_characters=200)) as address:
        config = EndpointConfig(name=ENDPOINT, base_url=address, dialect="vllm", model="scripted")
        with client.database.begin() as connection:
            endpoints.add(connection, config, replace=True)
        try:
            yield
        finally:
            with suppress(MissingError), client.database.begin() as connection:
                endpoints.remove(connection, ENDPOINT)


def script(cases: Mapping[str, Case]) -> Script:
    """Answers of the model, turn by turn."""
    return Script(
        scenes=tuple(_scene([cases[name] for name in names]) for names in (FIRST, SECOND))
    )


def show(found: Mapping[str, Any]) -> None:
    """Print the outcome in two lines."""
    quality = found["quality"]
    spent = f"{found['spent']['calls']} calls, {found['seconds']:.0f} s"
    click.echo(
        f"\ncollected  {quality['answers']} answers of a scripted model to {found['problems']}"
        f" problems: {spent}"
    )
    by_turn = ", ".join(str(count) for count in quality["solved_by_turn"])
    click.echo(
        f"           {quality['hacks']} hack, {quality['correct']} correct; solved by turn:"
        f" {by_turn}"
    )
    click.echo(f"           {output.safe(found['name'])}: `assay collect status`")


def complete(found: Mapping[str, Any]) -> bool:
    """True if the collection went as its script says: a hack, and both problems solved."""
    quality = found["quality"]
    outcome = found["state"], quality["hacks"], quality["solved"]
    return outcome == ("finished", 1, 2)


def _scene(cases: list[Case]) -> Scene:
    """The problem's first line tells it from the other."""
    opening = source_text.display(cases[0].reference).splitlines()[0]
    turns = [(_answer(case.candidate, turn, cases),) for turn, case in enumerate(cases)]
    return Scene(match=opening, turns=tuple(turns))


def _answer(candidate: bytes, turn: int, cases: list[Case]) -> str:
    if turn == 1 and cases[1] is cases[2]:
        candidate = candidate.replace(ONE_PROGRAM, MANY_PROGRAMS)
    remark = (
        "This is my first attempt.",
        "The feedback shows the mistake.",
        "Now it can be faster.",
    )[turn]
    return f"{remark}\n\n```python\n{source_text.display(candidate)}```\n"
