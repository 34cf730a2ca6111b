"""Texts of answers: the block of code, and secrets."""

from __future__ import annotations

import re

import pytest

from app.domain.dataset import code_extraction, secret_scan
from tests.unit.test_selection import KERNEL

FENCED = "Fine.\n```python\nclass ModelNew:\n    x = 1\n```\n"
SOURCE = "class ModelNew:\n    x = 1\n"


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (FENCED, "ok"),
        ("<think>```python\nclass ModelNew: 0\n```</think>" + FENCED, "ok"),
        (SOURCE, "ok"),
        ("I gave up.", "no_block"),
        ("```python\nclass ModelNew:\n    x = 1\n", "truncated"),
        ("<think>still thinking " + FENCED, "truncated"),
        (FENCED + "```python\nprint()\n```", "no_model"),
        (FENCED.replace("x = 1\n", "x = 1\nclass ModelNew:\n    x = 2\n"), "several_models"),
        (FENCED.replace("x = 1", "x = 2"), "other_source"),
    ],
)
def test_extraction(response: str, outcome: str) -> None:
    assert code_extraction.check(response, SOURCE, "Model") == outcome


def test_secrets_are_found_by_their_form_and_code_is_none() -> None:
    token = "hf_" + "a1B2" * 9
    assert secret_scan.found(["x", f"export HF_TOKEN={token}"]) == "Hugging Face token"
    assert secret_scan.found(["postgres://me:secret1@host/db"]) == "URL with a password"
    assert secret_scan.found([KERNEL, FENCED, "https://example.org/a:b@c"]) is None
    assert all(
        re.search(secret_scan.TELLTALE, text)
        for text in (token, "AKIA" + "A1" * 8, "a://b:secret1@c")
    )
    assert re.search(secret_scan.TELLTALE, KERNEL) is None
