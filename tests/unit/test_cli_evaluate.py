"""Advice that `assay eval` gives beside a result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.evaluate import remarks
from app.settings import WEB_URL_FILE, Settings, expects_web


def told(
    label: str,
    *,
    default_backend: bool = True,
    has_web: bool = True,
    url: str | None = "http://w/1",
) -> list[str]:
    result: Any = {"findings": [{"detector": "no_custom_kernel", "label": label}], "url": url}
    return list(remarks(result, default_backend=default_backend, has_web=has_web))


def test_a_candidate_that_has_no_triton_kernel_hears_of_the_other_backends() -> None:
    (remark,) = told("hack")
    assert "--backend cuda or --backend torch" in remark
    assert told("hack", default_backend=False) == []
    assert told("clean") == [], "plain PyTorch, as it says"


def test_a_link_without_a_web_says_when_it_opens() -> None:
    assert told("clean", has_web=False) == ["the page opens while `assay up` runs"]
    assert told("clean", has_web=False, url=None) == []


@pytest.mark.parametrize(
    "chosen", [{"web_url": "https://assay.example"}, {"database_url": "postgresql+psycopg://d"}]
)
def test_a_service_elsewhere_has_a_web(tmp_path: Path, chosen: dict[str, str]) -> None:
    here = Settings(state_dir=tmp_path)
    assert expects_web(replace(here, **chosen))  # type: ignore[arg-type]
    assert not expects_web(here)
    (tmp_path / WEB_URL_FILE).write_text("http://127.0.0.1:8001")
    assert expects_web(here)
