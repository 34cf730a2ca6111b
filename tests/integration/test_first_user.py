"""Requests before the first user exists: this machine may do everything, others nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flask.testing import FlaskClient

from app.settings import Settings
from app.web import create_app
from app.web.identity import authentication


def test_without_users_this_machine_may_do_everything_and_nobody_else_anything(
    site: FlaskClient,
) -> None:
    assert site.get("/account").status_code == 200
    assert "No login is required from this machine" in site.get("/account").text
    for elsewhere in ({"REMOTE_ADDR": "10.0.0.7"}, {"HTTP_HOST": "rebound.example"}):
        assert site.get("/account", environ_overrides=elsewhere).status_code == 401, elsewhere
        assert site.get("/healthz", environ_overrides=elsewhere).status_code == 200


@pytest.mark.parametrize("header", authentication.FORWARDED)
def test_requests_through_an_unknown_proxy_are_not_local(site: FlaskClient, header: str) -> None:
    """A proxy on this machine connects from the loopback address, and often asks for
    127.0.0.1 by name.
    """
    asked = {"headers": {header: "8.8.8.8", "Host": "127.0.0.1:8000"}}
    assert site.get("/account", **asked).status_code == 401
    assert site.get("/healthz", **asked).status_code == 200


def test_http_1_0_is_what_a_plain_nginx_speaks(site: FlaskClient) -> None:
    assert (
        site.get("/account", environ_overrides={"SERVER_PROTOCOL": "HTTP/1.0"}).status_code == 401
    )


def test_a_trusted_proxy_says_whose_request_it_is(settings: Settings) -> None:
    made = create_app(replace(settings, trusted_proxies=1))
    asked = {"X-Forwarded-For": "8.8.8.8"}
    assert made.test_client().get("/account", headers=asked).status_code == 401
    assert (
        made.test_client().get("/account", headers={"X-Forwarded-For": "127.0.0.1"}).status_code
        == 200
    )
    made.extensions["assay"]["database"].dispose()


@pytest.mark.parametrize("path", ["/v1/runs", "/health", "/runs"])
def test_before_the_first_user_a_request_from_elsewhere_learns_what_is_missing(
    site: FlaskClient, path: str
) -> None:
    answer = site.get(path, headers={"X-Forwarded-For": "8.8.8.8", "Accept": "*/*"})
    assert (answer.status_code, "assay user add NAME --role admin" in answer.text) == (401, True)
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="assay"'
