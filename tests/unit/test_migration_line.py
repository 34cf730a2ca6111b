"""Migrations form one line."""

from __future__ import annotations

import re

from tests import language

_NAMED = re.compile(r'^(revision|down_revision) = (?:"(\w+)"|None)$', re.M)


def test_every_migration_follows_another_one():
    folder = language.ROOT / "migrations" / "versions"
    named = {path.name: dict(_NAMED.findall(path.read_text())) for path in folder.glob("2*.py")}
    followed = [each["down_revision"] for each in named.values()]
    assert len(set(followed)) == len(followed), (
        "two migrations follow one: `alembic upgrade head` refuses both"
    )
    assert len({each["revision"] for each in named.values()} - set(followed)) == 1
