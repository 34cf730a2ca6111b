"""A whole trajectory in one scroll: rendered, complete, safe, and as it was sent."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient

from app.web import rendered_markdown
from tests.integration.web_seed import History


def test_all_turns_of_a_trajectory_are_on_one_page(pages: FlaskClient, history: History) -> None:
    text = pages.get(f"/trajectories/{history.seeded.trajectories[0]}/conversation").text
    assert [f'id="turn-{index}"' in text for index in range(5)] == [True, True, True, True, False]
    assert text.count(">Answer ") == 4
    assert text.count(">Feedback ") == 3  # the first message of a user is the task
    assert text.count("<summary>Reasoning, 14 characters</summary>") == 4
    assert 'class="k-kn"' in text  # code is highlighted
    assert text.count('data-copy="turn-0-2-code-1"') == 1


def test_a_conversation_escapes_what_a_model_wrote(pages: FlaskClient, history: History) -> None:
    path = f"/trajectories/{history.seeded.trajectories[0]}/conversation"
    for view in ("", "?view=sent"):
        text = pages.get(path + view).text
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(3)&lt;/script&gt;" in text
    assert "```python" in pages.get(f"{path}?view=sent").text


def test_the_page_of_a_turn_leads_to_the_conversation_and_its_run(
    pages: FlaskClient, history: History
) -> None:
    text = pages.get(f"/trajectories/{history.seeded.trajectories[0]}?turn=2").text
    assert f'/trajectories/{history.seeded.trajectories[0]}/conversation#turn-2"' in text
    assert re.search(r'<a href="/runs/[0-9a-f-]{36}">rl-step-120</a>', text)


@pytest.mark.parametrize(
    "source",
    [
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "![x](https://example.org/pixel.png)",
        '<https://example.org/" onclick="alert(1)>',
        '```"><script>alert(1)</script>\nx\n```',
        "| a |\n|:-:|\n| <svg onload=alert(1)> |",
        "[a]: javascript:alert(1)\n\n[a]",
    ],
)
def test_markdown_brings_no_script_no_image_and_no_style(source: str) -> None:
    html = str(rendered_markdown.rendered(source, "x"))
    tags = re.findall(r"<[^>]*>", html)
    assert not [
        tag for tag in tags if re.search(r"script|img|svg|style=|\son\w+=|javascript:", tag)
    ], html


def test_headings_of_an_answer_are_no_headings_of_the_page() -> None:
    html = str(rendered_markdown.rendered("# Plan\n\n## Step", "x"))
    assert html == '<p class="said-heading">Plan</p>\n<p class="said-heading">Step</p>\n'
