"""BROWSE: the rows of a dataset: a table with search, order and statistics of
columns, and one row whole.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import NotFound

from app.store.dataset import exports
from app.store.dataset.exports import Export
from app.web import conversation, export_subprocess, request_context
from app.web.dataset_archive import present
from app.web.identity import requires
from app.web.query_parameters import reads

ROWS = 25
"""Rows on one page."""
CONDITIONS = ("search", "column", "value", "sort")
"""Query parameters that select and order rows, named as in app.export.row_view.Asked."""
PAGES = {"evaluation_id": "evaluations.page", "trajectory_id": "trajectories.page"}
"""Column → endpoint of the page of its value."""

blueprint = flask.Blueprint("dataset_rows", __name__)


@blueprint.get("/exports/<uuid:export_id>/rows")
@requires("read")
@reads("file", "offset", *CONDITIONS, lists=("columns",))
def index(export_id: UUID) -> str:
    """Rows of a file as a table, with a search and statistics of its columns."""
    dataset = _read(export_id)
    files = _tables(dataset)
    name = _file(dataset)
    asked = {each: request_context.argument(each) for each in CONDITIONS}
    offset = request_context.number_argument("offset") or 0
    found = _ask(dataset, name, asked | {"offset": offset, "limit": ROWS})
    chosen = flask.request.args.getlist("columns")
    return flask.render_template(
        "dataset_rows.html",
        export=dataset,
        files=files,
        file=name,
        asked=asked,
        offset=offset,
        limit=ROWS,
        found=found,
        shown=[each["name"] for each in found["columns"] if _is_shown(each, chosen)],
        chosen=chosen,
        statistics={each["name"]: each for each in found["columns"]},
        tallest={each["name"]: max(each["bars"], default=0) for each in found["columns"]},
        here=_here(export_id, name, asked, chosen),
    )


@blueprint.get("/exports/<uuid:export_id>/rows/<int:number>")
@requires("read")
@reads("file")
def page(export_id: UUID, number: int) -> str:
    """One row: its dialogues rendered, its other values, and the evaluations behind it."""
    dataset = _read(export_id)
    name = _file(dataset)
    found = _ask(dataset, name, {"number": number})
    if not found["rows"]:
        raise NotFound(f"The file {name} has no row {number} among its first {found['scanned']}.")
    [row] = found["rows"]
    return flask.render_template(
        "dataset_row.html",
        export=dataset,
        file=name,
        number=number,
        scanned=found["scanned"],
        values=row["whole"]["values"],
        pages=PAGES,
        dialogues={
            column: [
                conversation.message(f"{column}-{place}", *each)
                for place, each in enumerate(messages)
            ]
            for column, messages in row["whole"]["messages"].items()
        },
        origins=row["origins"],
    )


def _is_shown(column: dict[str, Any], chosen: list[str]) -> bool:
    """Chosen columns, or else those with different values."""
    if chosen:
        return column["name"] in chosen
    return bool(column["distinct"] > 1 or (column["distinct"] and column["missing"]))


def _here(
    export_id: UUID, file: str, asked: dict[str, str], chosen: list[str]
) -> Callable[..., str]:
    """URL of the page with other parameters; None removes one."""
    given: dict[str, Any] = {
        "file": file,
        "columns": chosen,
        **{name: value for name, value in asked.items() if value},
    }

    def url(**changed: Any) -> str:
        return flask.url_for("dataset_rows.index", export_id=export_id, **(given | changed))

    return url


def _tables(dataset: Export) -> list[str]:
    """Tables of the folder: the rows first, then lineage and decisions."""
    found = [
        each["path"]
        for each in dataset.manifest["files"]
        if each["path"].endswith((".parquet", ".jsonl"))
    ]
    return sorted(found, key=lambda path: not path.startswith("data/"))


def _file(dataset: Export) -> str:
    """The table that is asked for; the first one by default."""
    files = _tables(dataset)
    name = request_context.argument("file") or next(iter(files), "")
    if name not in files:
        raise NotFound(f"The dataset has no table {name!r}.")
    return name


def _ask(dataset: Export, name: str, page: dict[str, Any]) -> dict[str, Any]:
    asked = {"file": str(present(dataset) / name), "first": _first(dataset, name), "page": page}
    return export_subprocess.ask(request_context.settings(), "rows", asked)


def _first(dataset: Export, name: str) -> int:
    """Index of a file's first row in its split: files of a split follow each other."""
    split, before = PurePosixPath(name).stem.partition("-")[0], 0
    for each in dataset.manifest["files"]:
        if each["path"] == name:
            break
        path = PurePosixPath(each["path"])
        if path.parent == PurePosixPath(name).parent and path.stem.partition("-")[0] == split:
            before += each["rows"] or 0
    return before


def _read(export_id: UUID) -> Export:
    return request_context.found("dataset", export_id, exports.get)
