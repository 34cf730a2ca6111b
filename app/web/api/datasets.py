"""BROWSE: `/v1/datasets`: every dataset that was made of this database, and whether
it still stands.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

import flask
from msgspec import Struct

from app.domain.user import Scope
from app.store.dataset import exports, listing
from app.web import request_context
from app.web.api.endpoint import answer, operation
from app.web.api.schemas import Limit


@dataclass(frozen=True, kw_only=True)
class DatasetAnswer(listing.Dataset):
    """A dataset with its manifest."""

    manifest: dict[str, Any]
    """Selection, funnel, files and hashes; its `spec` can be sent to `/v1/exports`
    to make the dataset anew.
    """


class DatasetList(Struct, kw_only=True):
    """Datasets, newest first."""

    datasets: list[listing.Dataset]


class DatasetQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """Datasets to list."""

    stale: bool = False
    """Only those that rest on a verdict that has changed since."""
    limit: Limit = 50


@operation("GET", "/datasets", Scope.READ, query=DatasetQuery, answers={200: DatasetList})
def index(query: DatasetQuery) -> flask.Response:
    """Datasets, newest first."""
    with request_context.database().snapshot() as connection:
        found = listing.datasets(connection, stale=query.stale, limit=query.limit)
    return answer({"datasets": [asdict(each) for each in found]})


@operation(
    "GET", "/datasets/<uuid:export_id>", Scope.READ, answers={200: DatasetAnswer}, refusals=(404,)
)
def read(export_id: UUID) -> flask.Response:
    """One dataset with its manifest."""
    found = request_context.found("dataset", export_id, exports.get)
    told = DatasetAnswer(
        export_id=found.export_id,
        name=found.name,
        format=found.format,
        where=found.where_text,
        rows=found.row_count,
        directory=found.directory,
        created_at=found.created_at,
        stale_at=found.stale_at,
        stale_reason=found.stale_reason,
        manifest=found.manifest,
    )
    return answer(asdict(told))
