"""Static files that are joined for every page."""

from __future__ import annotations

from pathlib import Path

from app import web
from app.web import bundles

STATIC = Path(web.__file__).parent / "static"


def test_a_joined_file_has_its_parts_in_order_and_those_of_paper_for_paper_only() -> None:
    style = bundles.texts(STATIC)["page.css"].decode()
    places = [style.index((STATIC / part).read_text()) for part in bundles.BUNDLES["page.css"]]
    assert places == sorted(places)
    assert style[places[-1] - len("@media print {\n") : places[-1]] == "@media print {\n"
    assert style.count("{") == style.count("}")


def test_scripts_that_are_joined_share_no_names() -> None:
    for part in bundles.BUNDLES["page.js"]:
        code = [
            line
            for line in (STATIC / part).read_text().splitlines()
            if line and not line.startswith(("//", '"use strict"', " ", "})();"))
        ]
        assert code == ["(() => {"], part
