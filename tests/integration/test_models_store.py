"""Endpoints and prompt templates in the database."""

from dataclasses import replace

import pytest

from app.domain.collection.call import EndpointConfig, Prices
from app.domain.collection.templates import Template
from app.domain.request import MissingError, RequestError
from app.endpoints import config as configs
from app.plugins import UnknownPluginError
from app.store.collection import endpoints, prompt_templates

CONFIG = EndpointConfig(
    name="local",
    base_url="http://127.0.0.1:8000/v1",
    dialect="vllm",
    model="Qwen/Qwen3-8B",
    key_env="LOCAL_KEY",
    prices=Prices(input=0.5, output=1.5),
    extra={"chat_template_kwargs": {"enable_thinking": False}},
)


def test_an_endpoint_is_stored_whole(database):
    with database.begin() as connection:
        endpoints.add(connection, CONFIG)
        assert endpoints.get(connection, "local") == CONFIG
        endpoints.probed(connection, endpoints.get(connection, "local"), {"seed": True})
        found = endpoints.find(connection, "local")
    assert found.config == replace(CONFIG, capabilities={"seed": True})
    assert found.probed_at is not None


def test_findings_of_a_probe_are_not_those_of_an_endpoint_changed_meanwhile(database):
    with database.begin() as connection:
        endpoints.add(connection, CONFIG)
        endpoints.add(connection, replace(CONFIG, model="other"), replace=True)
        with pytest.raises(RequestError, match="probe it again"):
            endpoints.probed(connection, CONFIG, {"seed": True})
        assert endpoints.find(connection, "local").probed_at is None


def test_an_endpoint_is_replaced_only_where_that_is_asked_for(database):
    other = replace(CONFIG, model="other")
    with database.begin() as connection:
        endpoints.add(connection, CONFIG)
        with pytest.raises(RequestError, match="exists"):
            endpoints.add(connection, other)
        endpoints.add(connection, other, replace=True)
        assert [one.config.model for one in endpoints.listed(connection)] == ["other"]
        endpoints.remove(connection, "local")
        with pytest.raises(MissingError, match=r"no endpoint 'local'; there are: none"):
            endpoints.get(connection, "local")


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"name": "A b"}, RequestError, "name"),
        ({"base_url": "localhost:8000"}, RequestError, "base_url"),
        ({"base_url": "https://user:pw@host/v1"}, RequestError, "key_env"),
        ({"base_url": "https://host/v1?api_key=x"}, RequestError, "key_env"),
        ({"dialect": "gemini"}, UnknownPluginError, "expected one of"),
        ({"model": " "}, RequestError, "model"),
        ({"key_env": "sk-ant-123"}, RequestError, "environment variable"),
        ({"headers": {"Authorization": "Bearer x"}}, RequestError, "secret"),
        ({"max_in_flight": 0}, RequestError, "max_in_flight"),
        ({"context_tokens": -1}, RequestError, "context_tokens"),
        ({"prices": Prices(input=-1)}, RequestError, "price of input"),
        ({"extra": {"messages": []}}, RequestError, "messages"),
    ],
)
def test_bad_endpoints_are_named(fields, error, message):
    configs.check(CONFIG)
    with pytest.raises(error, match=message) as raised:
        configs.check(replace(CONFIG, **fields))
    assert "sk-ant-123" not in str(raised.value)


def test_versions_of_a_template_stay(database):
    first, second = (
        Template(name="mine", kind="problem", body=f"{{reference}} {n}") for n in (1, 2)
    )
    with database.begin() as connection:
        assert prompt_templates.add(connection, first)
        assert not prompt_templates.add(connection, first)
    with database.begin() as connection:
        assert prompt_templates.add(connection, second)
        assert prompt_templates.find(connection, "mine", "problem") == second
        assert prompt_templates.find(connection, first.ref, "problem") == first
        assert prompt_templates.find(connection, f"mine@{first.sha256[:8]}", "problem") == first


def test_missing_templates_are_named(database):
    with database.begin() as connection:
        with pytest.raises(
            MissingError,
            match=r"no problem template 'mien'; there are: assay, dr_kernel, kernelbench",
        ):
            prompt_templates.find(connection, "mien", "problem")
        with pytest.raises(MissingError):
            prompt_templates.find(connection, "assay@ab", "problem")
        with pytest.raises(MissingError):
            prompt_templates.find(connection, "assay", "system")


def test_shipped_templates_are_kept_once_used(database):
    with database.begin() as connection:
        assert all(one.created_at is None for one in prompt_templates.listed(connection))
        used = prompt_templates.find(connection, "assay", "feedback")
        stored = {one.template.ref for one in prompt_templates.listed(connection) if one.created_at}
    assert stored == {used.ref}


def test_shipped_names_are_taken(database):
    with database.begin() as connection, pytest.raises(RequestError, match="comes with Assay"):
        prompt_templates.add(connection, Template(name="assay", kind="problem", body="{reference}"))
