"""`assay reviews`: opinions of people on evaluations, with their reasons."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import click

from app.cli import list_options, output, services
from app.cli.group import Group
from app.domain.review import GIVEN, HACK_TYPES, Opinion
from app.domain.user import LOCAL, User
from app.settings import Settings
from app.store.dataset import listing
from app.store.review import reviews


@click.group(
    "reviews",
    cls=Group,
    invoke_without_command=True,
)
@click.option("--evaluation", type=click.UUID, help="Only reviews of this evaluation.")
@list_options.LIMIT
@list_options.JSON
@click.pass_context
def command(ctx: click.Context, /, evaluation: UUID | None, limit: int, as_json: bool) -> None:
    """List reviews, newest first, with their reasons.

    \b
    assay reviews --evaluation 0199f3c2-…
    assay reviews add 0199f3c2-… hack --reason "line 7 returns the cache"
    assay reviews undo 0199f3d1-…
    """
    if ctx.invoked_subcommand is not None:
        return
    settings: Settings = ctx.obj
    with services.client(settings) as client, client.database.begin() as connection:
        found = listing.opinions(connection, evaluation_id=evaluation, limit=limit)
    output.records_out(found, _COLUMNS, as_json=as_json)


_COLUMNS: dict[str, Callable[[listing.Review], output.Cell]] = {
    "when": lambda one: output.minute(one.created_at),
    "evaluation": lambda one: str(one.evaluation_id),
    "by": lambda one: one.name,
    "opinion": lambda one: one.label,
    "verdict": lambda one: output.word(one.verdict),
    "reason": lambda one: one.reason,
}


@command.command("add", short_help="Review an evaluation.")
@click.argument("evaluation", type=click.UUID)
@click.argument("label", type=click.Choice(GIVEN))
@click.option(
    "--reason", required=True, help="Why: kept with the review and shown wherever its label counts."
)
@click.option(
    "--hack-type", type=click.Choice(HACK_TYPES), help="Way of cheating, with `hack` and `leak`."
)
@click.option("--second-opinion", is_flag=True, help="Ask for a review by a second person.")
@output.json_option()
@click.pass_obj
def add(
    settings: Settings,
    /,
    evaluation: UUID,
    label: str,
    reason: str,
    hack_type: str | None,
    second_opinion: bool,
    as_json: bool,
) -> None:
    """Review EVALUATION.  `clean`, `hack`, `leak` and `bug` override the detectors from now on;
    datasets that rest on a label that changes become stale (`assay datasets --stale`).
    """
    said = reviews.GivenReview(
        label=Opinion(label), reason=reason, hack_type=hack_type, second_opinion=second_opinion
    )
    with services.client(settings) as client, client.database.begin() as connection:
        review_id = reviews.add(connection, _reviewer(), evaluation, said)
    fields = {"review_id": str(review_id), "evaluation_id": str(evaluation), "label": label}
    output.answer_out(str(review_id), fields, as_json=as_json)


@command.command("undo", short_help="Take a review of this command back.")
@click.argument("review", type=click.UUID)
@output.json_option()
@click.pass_obj
def undo(settings: Settings, /, review: UUID, as_json: bool) -> None:
    """Take REVIEW back, by a further review that says so.  Reviews of named users
    are theirs to take back.
    """
    with services.client(settings) as client, client.database.begin() as connection:
        evaluation_id = reviews.undo(connection, _reviewer(), review)
    sentence = f"evaluation {evaluation_id}: review {review} is taken back"
    fields = {"review_id": str(review), "evaluation_id": str(evaluation_id)}
    output.answer_out(sentence, fields, as_json=as_json)


def _reviewer() -> User:
    return replace(LOCAL, name=f"{getpass.getuser()} (assay)")
