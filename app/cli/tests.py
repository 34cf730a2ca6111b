"""`assay tests`: inputs of a problem by how well they tell candidates apart."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

import click
from rich.table import Table

from app.cli import output, services
from app.cli.errors import BadInputError
from app.cli.group import Group
from app.domain import aces, pass_matrix
from app.domain.aces import Ranked
from app.domain.pass_matrix import Matrix
from app.settings import Settings
from app.store.browse import pass_matrix as stored
from app.store.postgres.database import Connection
from app.store.trajectory import problems


@click.group("tests", cls=Group)
def command() -> None:
    """Rank the inputs of a problem (cases, edge cases) by how well they tell candidates apart.

    \b
    assay tests rank 1_Square_matrix_multiplication_
    """


@command.command("rank")
@click.argument("problem", metavar="PROBLEM")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=stored.MOST,
    show_default=True,
    help="Latest evaluations.",
)
@output.json_option("Print tests and weights as JSON.")
@click.pass_obj
def rank(settings: Settings, problem: str, limit: int, as_json: bool) -> None:
    """Print weights of a problem's tests by ACES (arXiv 2604.03922), heaviest first.

    PROBLEM is an id, or a name that one problem has.  Rows of the pass matrix are its latest
    candidates, each once, without hacks; columns are cases of a problem by cases, else kinds of
    inputs: own, and variants such as `sparse`.

    \b
    LOO-AUC   chance that a candidate that passes scores higher on all other tests than one that
              fails; 0.5 is chance
    ACES-C    max(0, LOO-AUC − 0.5) × pass rate × (1 − pass rate), as shares
    ACES-O    weights that maximise the weighted LOO-AUC
    only here candidates that this test alone finds wrong
    """
    with services.client(settings) as client, client.database.snapshot() as connection:
        problem_id = _problem(connection, problem)
        found = pass_matrix.matrix(stored.of_problem(connection, problem_id, limit=limit))
    if not found.rows:
        raise BadInputError(f"problem {problem}: expected candidates with verified calls, got none")
    ranked = aces.rank(found.rows)
    if as_json:
        listed = [
            {"test": test, "outputs": outputs} | asdict(one)
            for test, outputs, one in zip(found.tests, found.outputs, ranked, strict=True)
        ]
        output.json_out(
            {"problem_id": str(problem_id), "candidates": len(found.rows), "tests": listed}
        )
    else:
        output.table_out(_table(found, ranked))


def _problem(connection: Connection, name: str) -> UUID:
    try:
        problem_id = UUID(name)
    except ValueError:
        found = [line.problem_id for line in problems.listed(connection, name=name, limit=2)]
    else:
        found = [] if problems.get(connection, problem_id) is None else [problem_id]
    if len(found) != 1:
        came = "several" if found else "none"
        raise BadInputError(
            f"problem: expected an id, or a name that one problem has, got {name!r} of {came}"
        )
    return found[0]


def _table(found: Matrix, ranked: list[Ranked]) -> Table:
    table = Table("test", "outputs", box=None, pad_edge=False, header_style="dim")
    for name in ("candidates", "pass rate", "LOO-AUC", "ACES-C", "ACES-O", "only here"):
        table.add_column(name, justify="right")
    order = sorted(range(len(ranked)), key=lambda place: -ranked[place].aces_c)
    for place in order:
        one = ranked[place]
        figures = (one.loo_auc, one.aces_c, one.aces_o)
        table.add_row(
            output.safe(found.tests[place]),
            output.safe(found.outputs[place]),
            str(one.measured),
            "–" if one.pass_rate is None else f"{one.pass_rate:.1%}",
            *("–" if figure is None else f"{figure:.3f}" for figure in figures),
            str(one.only_here),
        )
    return table
