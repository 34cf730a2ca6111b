"""`assay endpoint`: model servers that collections ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from app.cli import accounts, errors, output
from app.cli.group import Group
from app.domain.collection.call import EndpointConfig, Prices
from app.domain.request import RequestError
from app.endpoints import caller, config, dialects
from app.endpoints import probe as probes
from app.endpoints.scripted import serving
from app.settings import Settings
from app.store.collection import endpoints
from app.store.collection.endpoints import Endpoint


@click.group("endpoint", cls=Group)
def command() -> None:
    """Model servers that collections ask: vLLM, SGLang, OpenRouter, OpenAI, Anthropic, and any
    other server of chat completions.  A key is never stored: an endpoint has the name of the
    environment variable that holds it.

    \b
    assay endpoint add local --url http://127.0.0.1:8000/v1 --model Qwen/Qwen3-8B --dialect vllm
    assay endpoint add sonnet --url https://api.anthropic.com/v1 --model claude-sonnet-4-5 \\
        --dialect anthropic --key-env ANTHROPIC_API_KEY --price-input 3 --price-output 15
    assay endpoint probe local
    assay endpoint list
    assay endpoint remove local
    assay endpoint scripted script.json --port 8090
    """


@command.command("add")
@click.argument("name")
@click.option(
    "--url", "base_url", required=True, help="Base address, with /v1 where the server has it."
)
@click.option("--model", required=True, help="Model as the server names it.")
@click.option(
    "--dialect",
    type=click.Choice(list(dialects.BUILTIN)),
    default="chat",
    show_default=True,
    help="Protocol of the server; chat: any server of chat completions.",
)
@click.option("--key-env", metavar="VARIABLE", help="Environment variable that holds the key.")
@click.option(
    "--max-in-flight", type=int, default=64, show_default=True, help="Most calls at a time."
)
@click.option("--requests-per-minute", type=int, help="Most calls a minute.")
@click.option(
    "--tokens-per-minute", type=int, help="Most tokens a minute, input and output together."
)
@click.option("--price-input", type=float, metavar="USD", help="Price of a million input tokens.")
@click.option(
    "--price-cached-input",
    type=float,
    metavar="USD",
    help="Price of those that the server had cached.",
)
@click.option("--price-output", type=float, metavar="USD", help="Price of a million output tokens.")
@click.option("--context-tokens", type=int, help="Longest prompt and answer together.")
@click.option("--max-output-tokens", type=int, help="Longest answer.")
@click.option(
    "--connect-s", type=float, default=5.0, show_default=True, help="Time-out of connecting."
)
@click.option(
    "--first-token-s",
    type=float,
    default=600.0,
    show_default=True,
    help="Time-out of the first token.",
)
@click.option(
    "--idle-s", type=float, default=120.0, show_default=True, help="Time-out between two pieces."
)
@click.option("--stream/--no-stream", default=True, show_default=True, help="Stream answers.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Header of every call; no secrets.",
)
@click.option(
    "--extra", metavar="JSON", help="Fields of every body, for example '{\"top_k\": 20}'."
)
@click.option("--replace", is_flag=True, help="Change an endpoint of that name.")
@output.json_option()
@click.pass_obj
def add(
    settings: Settings,
    /,
    *,
    headers: tuple[str, ...],
    extra: str | None,
    replace: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Store an endpoint.  Nothing is asked of the server: `assay endpoint probe` does that."""
    prices = {name: given.pop(f"price_{name}") for name in ("input", "cached_input", "output")}
    found = EndpointConfig(
        **given,
        prices=Prices(**prices),
        headers=dict(_pair(one) for one in headers),
        extra=_object(extra) if extra else {},
    )
    config.check(found)
    with accounts.database(settings) as connection:
        endpoints.add(connection, found, replace=replace)
    sentence = f"endpoint {found.name}: {found.model} at {found.base_url} ({found.dialect})"
    output.answer_out(sentence, _fields(found), as_json=as_json)


@command.command("list")
@output.json_option()
@click.pass_obj
def listed(settings: Settings, as_json: bool) -> None:
    """List endpoints with the abilities that the last probe found."""
    with accounts.database(settings) as connection:
        known = endpoints.listed(connection)
    output.records_out(known, _COLUMNS, as_json=as_json, plain=_row)


@command.command("probe")
@click.argument("name")
@output.json_option()
@click.pass_context
def probe(ctx: click.Context, name: str, as_json: bool) -> None:
    """Ask the endpoint NAME for its abilities, with up to a dozen calls of a few tokens, and
    store them: whether it honours seeds, gives token ids and logprobs (raw, or with the
    temperature), reports usage and streams; its limits, and a hash of tokenizer and chat
    template.  Exit code 1: it does not answer.
    """
    with accounts.database(ctx.obj) as connection:
        found = endpoints.get(connection, name)
    with output.err().status("asking"):
        outcome = probes.probe(found, key=caller.key_of(found))
    with accounts.database(ctx.obj) as connection:
        endpoints.probed(connection, found, outcome.capabilities)
    if as_json:
        output.json_out(outcome.capabilities)
    else:
        _show(outcome)
    ctx.exit(errors.NO if outcome.error else errors.OK)


@command.command("remove")
@click.argument("name")
@output.json_option()
@click.pass_obj
def remove(settings: Settings, name: str, as_json: bool) -> None:
    """Delete the endpoint NAME.  Calls that were made stay on record."""
    with accounts.database(settings) as connection:
        endpoints.remove(connection, name)
    fields = {"name": name, "removed": True}
    output.answer_out(f"endpoint {name} removed", fields, as_json=as_json)


@command.command("scripted")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--port",
    default=8090,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port on this machine; 0: a free one.",
)
@click.option(
    "--behaviour",
    default="{}",
    metavar="JSON",
    help='Pace and faults: \'{"faults": {"rate_limited": 0.1}}\'.',
)
def scripted(script: Path, port: int, behaviour: str) -> None:
    """Serve the answers of SCRIPT as a chat server without a model, until Ctrl-C:
    for trying out collections.

    SCRIPT is JSON: {"scenes": [{"match": "text of the problem", "turns": [["answer",
    "alternative"], ["turn two"]]}]}.
    """
    serving.serve(errors.text_of(script), behaviour, port=port)


def _show(outcome: probes.Probe) -> None:
    if outcome.error:
        click.echo(f"error: {output.safe(outcome.error)}", err=True)
    else:
        shown = {
            "model listed": outcome.model_listed,
            "server version": outcome.server_version,
            "context tokens": outcome.context_tokens,
            "streams": outcome.streams,
            "first token": outcome.first_token_ms and f"{outcome.first_token_ms:.0f} ms",
            "usage reported": outcome.usage,
            "reasoning in": outcome.reasoning_field,
            "seed honoured": outcome.seed,
            "token ids": outcome.token_ids,
            "logprobs": outcome.logprobs,
            "logprobs mode": outcome.logprobs_mode,
            "template hash": outcome.template_sha256 and outcome.template_sha256[:12],
            "rate limits": (
                ", ".join(f"{name} {value}" for name, value in outcome.rate.items()) or None
            ),
        }
        for name, value in shown.items():
            click.echo(f"{name:<16}{_word(value)}")
    for warning in outcome.warnings:
        click.echo(f"warning: {output.safe(warning)}", err=True)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not known" if value is None else output.safe(str(value))


_COLUMNS: dict[str, Callable[[Endpoint], output.Cell]] = {
    "name": lambda one: one.config.name,
    "model": lambda one: one.config.model,
    "dialect": lambda one: one.config.dialect,
    "address": lambda one: one.config.base_url,
    "key in": lambda one: one.config.key_env,
    "probed": lambda one: output.minute(one.probed_at) if one.probed_at else "never",
}


def _row(one: Endpoint) -> Mapping[str, Any]:
    return {
        **_fields(one.config),
        "created_at": one.created_at.isoformat(),
        "probed_at": one.probed_at and one.probed_at.isoformat(),
    }


def _fields(one: EndpointConfig) -> dict[str, Any]:
    return {**vars(one), "prices": vars(one.prices)}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise RequestError(f"header: expected NAME=VALUE, got {name!r}")
    return name.strip(), value


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RequestError(f"extra: expected a JSON object: {error}") from error
    if not isinstance(value, dict):
        raise RequestError(f"extra: expected a JSON object, got {type(value).__name__}")
    return value
