"""Tables of people's remarks: comments and tags on runs, problems, trajectories and
candidates.
"""

from __future__ import annotations

import sqlalchemy as sa

from app.domain.remark import AnnotationTarget
from app.store.tables.base import created_at, id_column, metadata, one_of, reference

comments = sa.Table(
    "comments",
    metadata,
    id_column("comment_id"),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("subject_id", sa.Uuid, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    reference("users.user_id", null=True, index=False),
    created_at(),
    sa.Column("deleted_at", sa.DateTime(timezone=True)),
    one_of("kind", AnnotationTarget),
    sa.Index("ix_comments_subject_id", "subject_id", "comment_id"),
)

tags = sa.Table(
    "tags",
    metadata,
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("subject_id", sa.Uuid, primary_key=True),
    sa.Column("tag", sa.Text, primary_key=True),
    reference("users.user_id", null=True, index=False),
    created_at(),
    one_of("kind", AnnotationTarget),
    sa.Index("ix_tags_tag", "tag", "created_at"),
)
