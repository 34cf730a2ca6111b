"""Pages of collected attempts: hostile answers, token ids and call facts."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.endpoints.rate_limit import Limiter
from app.store import tables
from app.store.collection import endpoints, lifecycle, workers
from app.web import create_app
from tests.integration import page_text
from tests.integration.collecting import CODE, LOCAL, Site, said, specification

ANSWERS = ["<script>alert(1)</script> no code\0here", f"first\n{CODE}", f"second\n{CODE}"]


@pytest.fixture
def collected(settings, database, broker, problem_id) -> Iterator[tuple[Site, FlaskClient]]:
    answers = iter(ANSWERS)

    def model(_request):
        answer = said(next(answers))
        return replace(
            answer, token_ids=(5, 6, 7), logprobs=(-0.5, -1.0, -2.0), prompt_token_ids=(1, 2)
        )

    site = Site(database, broker, model)
    site.start(specification())
    site.run()
    app = create_app(settings)
    yield site, app.test_client()
    app.extensions["assay"]["watch"].close()
    app.extensions["assay"]["database"].dispose()


def test_an_attempt_shows_ids_and_escapes_its_answer(collected):
    site, web = collected
    first = min(site.rows("nodes"), key=lambda node: node.turn)
    page = web.get(f"/attempts/{first.node_id}").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "5 (-0.5000) 6 (-1.0000) 7 (-2.0000)" in page


def test_a_rollout_is_a_tree_whose_attempts_lead_to_each_other(collected):
    site, web = collected
    nodes = sorted(site.rows("nodes"), key=lambda node: node.turn)
    page = web.get(f"/rollouts/{nodes[0].rollout_id}").text
    drawing = page.partition('<svg class="tree"')[2].partition("</svg>")[0]
    assert [f"/attempts/{node.node_id}" in drawing for node in nodes] == [True] * 3
    assert drawing.count("<path ") == 2  # one attempt after another
    assert "shield" not in page.partition("no code")[0], "nothing is called clean without code"
    middle = web.get(f"/attempts/{nodes[1].node_id}").text
    for other in (nodes[0], nodes[2]):
        assert f'/attempts/{other.node_id}">{other.key}</a>' in middle
    assert f"/rollouts/{nodes[0].rollout_id}" in middle


def test_the_best_speedup_of_a_rollout_has_its_interval(collected, database):
    site, web = collected
    slow, fast = [node for node in site.rows("nodes") if node.job_id is not None]
    with database.begin() as connection:
        for node, speedup in ((slow, 1.2), (fast, 1.5)):
            outcome = tables.nodes.update().where(tables.nodes.c.node_id == node.node_id)
            connection.execute(outcome.values(outcome=node.outcome | {"speedup": speedup}))
            measured = tables.evaluations.update().where(tables.evaluations.c.job_id == node.job_id)
            ends = {"speedup_ci_low": speedup - 0.1, "speedup_ci_high": speedup + 0.1}
            connection.execute(measured.values(ends))
    [rollout] = site.rows("collection_rollouts")
    shown = page_text.text_of(web.get(f"/collections/{rollout.collection_id}").text)
    assert "1.50× 1.40–1.60×" in shown


def test_a_turn_tells_of_its_call(collected):
    site, web = collected
    last = max(site.rows("nodes"), key=lambda node: node.turn)
    [turn] = [row for row in site.rows("turns") if row.turn_id == last.turn_id]
    page = web.get(f"/trajectories/{turn.trajectory_id}?turn={turn.turn_index}&tab=response").text
    assert "50 tokens in, 20 out; $0.0010" in page
    assert f"/attempts/{last.node_id}" in page


def test_pages_show_how_endpoints_are(collected, settings):
    site, web = collected
    page = web.get("/endpoints").text
    assert "assay endpoint probe local" in page  # it was never probed
    assert "offline" in page
    limiter = Limiter(LOCAL, settings.broker_url)
    permit = limiter.acquire()
    with site.database.begin() as connection:
        endpoints.probed(
            connection,
            endpoints.get(connection, "local"),
            {"seed": True, "models": ["m", "n"], "warnings": ["<b>no usage</b> is reported"]},
        )
        workers.beat(connection, worker="w", endpoint="local", in_flight=1, has_key=True)
        (collection_id,) = (each.collection_id for each in lifecycle.listed(connection))
    for address in ("/endpoints", f"/collections/{collection_id}"):
        page = web.get(address).text
        assert "&lt;b&gt;no usage&lt;/b&gt; is reported" in page
        assert (
            '<td class="number">1</td><td class="number">1</td><td class="number">8 of 64</td>'
            in page
        )
    page = web.get("/endpoints").text
    assert '<dt>Seed</dt><dd class="break">yes</dd>' in page
    assert '<dt>Models</dt><dd class="break">m, n</dd>' in page
    permit.done(None)
    limiter.close()


def test_amounts_with_maxima_in_them_are_at_most(collected, database):
    site, web = collected
    path = f"/collections/{site.rows('collections')[0].collection_id}"
    assert "at most" not in web.get(path).text
    with database.begin() as connection:
        connection.execute(sa.update(tables.collections).values(spent_usd=9.5, spent_tokens=99_999))
    page = web.get(f"{path}/live").text
    assert page.count("at most $9.50") == 2
    assert len(re.findall("at most 99.999", page)) == 2


def test_calls_without_a_price_are_not_free(collected, database):
    site, web = collected
    path = f"/collections/{site.rows('collections')[0].collection_id}/live"
    assert "of unknown cost" not in web.get(path).text
    with database.begin() as connection:
        connection.execute(sa.update(tables.model_calls).values(cost_usd=None))
        connection.execute(sa.update(tables.collections).values(spent_usd=0))
    assert "and 3 calls of unknown cost" in web.get(path).text


def test_a_specification_is_shown_in_parts_and_as_json(collected):
    site, web = collected
    page = web.get(f"/collections/{site.rows('collections')[0].collection_id}").text
    shown, _, folded = page.partition('id="spec-title"')[2].partition("<details>")
    assert re.findall("<h3>(Problems|Strategy|Sampling)<", shown) == [
        "Problems",
        "Strategy",
        "Sampling",
    ]
    assert "<dt>max tokens</dt>" in shown
    assert "&#34;" not in shown, "no JSON outside the fold"
    text = html.unescape(folded.partition('id="spec-json">')[2].partition("</pre>")[0])
    assert json.loads(text)["name"] == "a"


@pytest.mark.parametrize("sort", ["name", "-calls", "tokens", "-usd", "-rollouts"])
def test_collections_are_listed_in_every_order(collected, sort):
    _, web = collected
    page = web.get(f"/collections?sort={sort}").text
    assert page.count('aria-sort="') == 1
    assert "1 row in all" in page
    [row] = web.get(f"/collections.json?sort={sort}").json["collections"]
    assert row["name"] in page
    assert row["spent"]["calls"] > 0
