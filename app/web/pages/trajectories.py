"""BROWSE: the list of trajectories, and the page of one: a rail of turns, and beside
it one turn under one tab.

Everything that is looked at is in the URL (`?turn=3&tab=diff&against=best`), so that every view can
be sent to another person; only the data of the tab are computed.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest, NotFound

from app.domain import credit, result
from app.domain.job import JobState
from app.domain.remark import AnnotationTarget
from app.domain.source import source_text
from app.store.browse import collecting, runs, trajectories, trajectory
from app.store.evaluation import kernel_codes
from app.store.review import remarks
from app.web import (
    conversation,
    evaluation_view,
    finding_lines,
    kernel_code_view,
    live_updates,
    request_context,
    safe_text,
    source_view,
    table_export,
    trajectory_list,
    turn_diff,
)
from app.web.charts import attempt_plot
from app.web.identity import requires
from app.web.pages import saved_views
from app.web.query_parameters import reads
from app.web.turn_rail import jumps, rail_lines

blueprint = flask.Blueprint("trajectories", __name__)

TABS = (
    "prompt",
    "response",
    "code",
    "diff",
    "compile",
    "correctness",
    "timing",
    "profile",
    "verdict",
    "ir",
    "raw",
)
FIRST_TAB = "diff"
ARGUMENTS = ("turn", "tab", "against", "view", "space", "context", "wrap", "kernel", "form")
TITLES = {"compile": "Compile log", "ir": "IR and PTX"}
VIEWS = ("unified", "split")
CONVERSATION_VIEWS = ("rendered", "sent")


@blueprint.get("/trajectories")
@requires("read")
@trajectory_list.LISTING.reads()
def index() -> str:
    """Trajectories, newest first or in another order."""
    view = trajectory_list.LISTING.view()
    with request_context.database().snapshot() as connection:
        listed = trajectory_list.read(connection, view)
        exactly = trajectory_list.exactly(connection, view)
        saved = saved_views.of(connection, trajectory_list.LISTING.endpoint)
        models = runs.models(connection)
    return flask.render_template(
        "trajectories.html",
        listed=listed,
        view=listed.view,
        page=listed.page,
        exactly=exactly,
        saved=saved,
        models=models,
        outcomes=trajectories.OUTCOMES,
        reward=request_context.settings().reward,
        **listed.view.pages(listed.page),
    )


@blueprint.get("/trajectories.<any(json,csv):kind>")
@requires("read")
@trajectory_list.LISTING.reads()
def listing(kind: str) -> flask.Response:
    """The list, for programs."""
    with request_context.database().snapshot() as connection:
        listed = trajectory_list.read(connection, trajectory_list.LISTING.view())
    if listed.note:
        raise BadRequest(listed.note)
    rows = [
        asdict(row) | {"reward": listed.rewards.get(row.trajectory_id)} for row in listed.page.rows
    ]
    return listed.view.data(kind, "trajectories", listed.page, rows)


@blueprint.get("/trajectories/<uuid:trajectory_id>")
@requires("read")
@reads(*ARGUMENTS)
def page(trajectory_id: UUID) -> str:
    """One turn under one tab, with the rail of all turns."""
    tab = request_context.choice_argument("tab", TABS, FIRST_TAB)
    view = request_context.choice_argument("view", VIEWS, "unified")
    with request_context.database().snapshot() as connection:
        found = request_context.one(connection, "trajectory", trajectory_id, trajectory.read)
        notes = remarks.of(connection, AnnotationTarget.TRAJECTORY, trajectory_id)
        at = _turn_argument(found)
        turn = None if at is None else trajectory.turn(connection, trajectory_id, at)
        other_at, why = None, ""
        if turn is not None and tab == "diff":
            other_at, why = turn_diff.against(found, turn.turn_index)
        other = None if other_at is None else trajectory.turn(connection, trajectory_id, other_at)
        call = (
            collecting.call_of_turn(connection, trajectory_id, turn.turn_index)
            if turn and tab == "response"
            else None
        )
        codes = (
            kernel_codes.read(connection, turn.evaluation_id)
            if turn and turn.evaluation_id and tab == "ir"
            else ()
        )
    rail = rail_lines(found.turns)
    return flask.render_template(
        "trajectory.html",
        page=found,
        rail=rail,
        notes=notes,
        **_rail.shown(trajectory_id),
        live_url=flask.url_for(
            "trajectories.live_rail",
            trajectory_id=trajectory_id,
            **flask.request.args.to_dict(),  # type: ignore[arg-type]
        ),
        turn=turn,
        call=call,
        line=next((one for one in rail if turn and one.turn.turn_index == turn.turn_index), None),
        tab=tab,
        tabs=TABS,
        titles=TITLES,
        view=view,
        against=request_context.argument("against") or "previous",
        space=request_context.argument("space"),
        wrap=request_context.flag_argument("wrap"),
        jumps=jumps(rail),
        returns=credit.returns_to_go([line.reward for line in rail]) if rail else [None],
        reward_name=request_context.settings().reward,
        compiled=kernel_code_view.view(codes),
        forms=kernel_code_view.FORMS,
        **(_shown(turn, tab, other, why, found) if turn else {}),
    )


@live_updates.live_part(
    blueprint,
    "/trajectories/<uuid:trajectory_id>/live",
    "trajectories",
    "evaluations",
    "jobs",
    endpoint="live_rail",
)
@reads(*ARGUMENTS)
def _rail(trajectory_id: UUID) -> str:
    """The rail; the page's script loads the page again where the state of its turn has changed."""
    found = request_context.found("trajectory", trajectory_id, trajectory.read)
    rail, at = rail_lines(found.turns), _turn_argument(found)
    line = next((line for line in rail if line.turn.turn_index == at), None)
    return flask.render_template(
        "_rail.html",
        page=found,
        rail=rail,
        at=at,
        tab=request_context.choice_argument("tab", TABS, FIRST_TAB),
        state=f"{line.turn.state} {line.turn.status} {line.turn.verdict}" if line else "",
    )


@blueprint.get("/trajectories/<uuid:trajectory_id>/conversation")
@requires("read")
@reads("view")
def whole_conversation(trajectory_id: UUID) -> str:
    """All turns in one scroll: prompts, answers and feedback in order."""
    view = request_context.choice_argument("view", CONVERSATION_VIEWS, "rendered")
    with request_context.database().snapshot() as connection:
        found = request_context.one(connection, "trajectory", trajectory_id, trajectory.read)
        texts = trajectory.conversation(connection, trajectory_id)
    rail = rail_lines(found.turns)
    return flask.render_template(
        "conversation.html",
        page=found,
        rail=rail,
        view=view,
        lines={line.turn.turn_index: line for line in rail},
        conversation=conversation.said(texts, as_sent=view == "sent"),
        drawn=attempt_plot.plot([_attempt(line.turn) for line in rail]),
    )


def _attempt(turn: trajectory.TurnLine) -> attempt_plot.Attempt:
    return attempt_plot.Attempt(
        name=f"turn {turn.turn_index}",
        tick=str(turn.turn_index),
        url=f"#turn-{turn.turn_index}",
        outcome=(turn.status or turn.state or "no code").replace("_", " "),
        label=turn.verdict,
        speedup=turn.speedup,
        low=turn.speedup_ci_low,
        high=turn.speedup_ci_high,
    )


def _turn_argument(found: trajectory.TrajectoryPage) -> int | None:
    """The turn that is asked for; the first where none is."""
    asked = request_context.number_argument("turn")
    known = [turn.turn_index for turn in found.turns]
    if asked is None:
        return known[0] if known else None
    if asked not in known:
        raise NotFound(f"There is no turn {asked} in this trajectory; it has {len(known)}, from 0.")
    return asked


def _shown(
    turn: trajectory.TurnPage,
    tab: str,
    other: trajectory.TurnPage | None,
    why: str,
    found: trajectory.TrajectoryPage,
) -> dict[str, Any]:
    """Data of the tab, and no more."""
    shown: dict[str, Any] = {
        "m": (
            evaluation_view.Measured(turn.evaluation, turn.baseline or "")
            if turn.evaluation
            else None
        ),
        "label": turn.believed.label,
    }
    if tab == "prompt":
        shown["messages"] = [
            (message.role, safe_text.capped(message.content)) for message in turn.messages
        ]
    elif tab == "response":
        shown["reasoning"], shown["answer"] = _response(source_text.display(turn.response))
    elif tab in ("code", "verdict", "ir") and turn.candidate is not None:
        found_spans = finding_lines.of_candidate(turn.believed.findings)
        shown |= {
            "listing": source_view.listing(turn.candidate),
            "spans": found_spans,
            "marks": finding_lines.with_error(
                finding_lines.marks(found_spans), turn.evaluation.error if turn.evaluation else None
            ),
        }
    elif tab == "diff" and turn.candidate is not None:
        shown["compared"] = turn_diff.diff(turn, other, why) if other else None
        shown["listing"] = None if other else source_view.listing(turn.candidate)
    elif tab == "raw":
        shown["raw"] = safe_text.capped(
            flask.json.dumps(_as_json(found, turn), indent=2, ensure_ascii=False)
        )
    return shown


def _response(answer: str) -> tuple[safe_text.Capped | None, safe_text.Capped]:
    """Reasoning, which is folded, and the answer after it."""
    reasoning, said = conversation.parts(answer)
    return safe_text.capped(reasoning) if reasoning else None, safe_text.capped(said)


def _read_turn(
    trajectory_id: UUID, turn_index: int
) -> tuple[trajectory.TrajectoryPage, trajectory.TurnPage]:
    with request_context.database().snapshot() as connection:
        found = request_context.one(connection, "trajectory", trajectory_id, trajectory.read)
        known = any(turn.turn_index == turn_index for turn in found.turns)
        turn = trajectory.turn(connection, trajectory_id, turn_index) if known else None
    if turn is None:
        raise NotFound(f"There is no turn {turn_index} in this trajectory.")
    return found, turn


def _as_json(found: trajectory.TrajectoryPage, turn: trajectory.TurnPage) -> dict[str, Any]:
    measured_result = None
    if turn.job_id is not None and turn.evaluation is not None:
        measured_result = result.build(
            job_id=turn.job_id,
            state=JobState.FINISHED,
            evaluation=turn.evaluation,
            verdict=turn.believed.effective,
            baseline=turn.baseline or "",
        )
    return {
        "trajectory_id": str(found.trajectory_id),
        "turn": turn.turn_index,
        "messages": [vars(message) for message in turn.messages],
        "response": source_text.display(turn.response),
        "candidate": None if turn.candidate is None else source_text.display(turn.candidate),
        "job_id": turn.job_id and str(turn.job_id),
        "evaluation_id": turn.evaluation_id and str(turn.evaluation_id),
        "result": measured_result,
    }


@blueprint.get("/trajectories/<uuid:trajectory_id>.json")
@requires("read")
def as_json(trajectory_id: UUID) -> flask.Response:
    """The rail: the outcome of every turn."""
    found = request_context.found("trajectory", trajectory_id, trajectory.read)
    return flask.jsonify(vars(found) | {"turns": [vars(turn) for turn in found.turns]})


@blueprint.get("/trajectories/<uuid:trajectory_id>.csv")
@requires("read")
def as_csv(trajectory_id: UUID) -> flask.Response:
    """The same as a table."""
    found = request_context.found("trajectory", trajectory_id, trajectory.read)
    return table_export.answer("csv", f"trajectory-{trajectory_id}", found.turns)


@blueprint.get("/trajectories/<uuid:trajectory_id>/turns/<int:turn_index>.json")
@requires("read")
def turn_json(trajectory_id: UUID, turn_index: int) -> flask.Response:
    """One turn in full: texts, candidate, result."""
    return flask.jsonify(_as_json(*_read_turn(trajectory_id, turn_index)))


@blueprint.get("/trajectories/<uuid:trajectory_id>/turns/<int:turn_index>/response.txt")
@requires("read")
def response(trajectory_id: UUID, turn_index: int) -> flask.Response:
    """The model's answer exactly as it came."""
    _, turn = _read_turn(trajectory_id, turn_index)
    return request_context.attachment(turn.response, f"response-{trajectory_id}-{turn_index}.txt")


@blueprint.get("/trajectories/<uuid:trajectory_id>/turns/<int:turn_index>/prompt.txt")
@requires("read")
def prompt(trajectory_id: UUID, turn_index: int) -> flask.Response:
    """The messages before the answer, one after the other."""
    _, turn = _read_turn(trajectory_id, turn_index)
    body = "\n\n".join(f"[{message.role}]\n{message.content}" for message in turn.messages)
    return request_context.attachment(
        source_text.encode(body), f"prompt-{trajectory_id}-{turn_index}.txt"
    )
