"""Token ids and logprobs end to end: recorded ones against the model's own.

    python -m tests.bench.model_server check [--device cuda] [--dtype float32]     the client alone
    python -m tests.bench.model_server collect [--device cpu]                      `assay collect`
                                                                                   with its services
    python -m tests.bench.model_server serve [--port 8000]

An OpenAI-compatible server around a transformers model with random weights answers rollouts of two
turns.  The records are joined to token-level rows as for a trainer, and every row is computed again
in one pass of the same model.  The largest difference of a logprob is printed; it ends with 1 where
an id differs, where a second turn is not the first one continued, or where a logprob differs by
more than `--most` (1e-4 with single precision).

`check` needs torch, transformers, urllib3 and msgspec; `collect` the whole project
with its embedded services.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import fmean
from typing import Any

from app.domain.collection import templates, texts
from app.domain.collection.call import EndpointConfig, ModelAnswer, ModelRequest
from app.domain.collection.dialogue import Dialogue
from app.domain.collection.sequences import TokenTurn, joined
from app.domain.collection.spec import parse
from app.domain.problem import Problem
from tests.bench.rl.chat_model import ChatModel
from tests.bench.rl.chat_server import NAME, serving
from tests.bench.rl.problems import PROBLEMS

TURNS = 2
MOST = {"float32": 1e-4, "bfloat16": 0.25, "float16": 0.05}
"""Largest difference of a logprob: a cache of keys and values is not the arithmetic
of a whole pass.
"""
PATIENCE_S = 300.0


def main() -> int:
    """See above."""
    given = _arguments()
    chat = ChatModel(device=given.device, dtype=given.dtype, processed=not given.raw)
    with serving(chat, given.port) as url:
        print(
            json.dumps(
                {"url": url, "parameters": sum(each.numel() for each in chat.model.parameters())}
            ),
            flush=True,
        )
        if given.what == "serve":
            threading.Event().wait()
        endpoint = EndpointConfig(
            name="local",
            base_url=url,
            dialect="vllm",
            model=NAME,
            stream=not given.whole,
            first_token_s=PATIENCE_S,
        )
        report = (
            _checked(given, chat, endpoint)
            if given.what == "check"
            else _collected(given, chat, endpoint)
        )
    print(json.dumps(report, indent=1), flush=True)
    return int(not report["equal"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("check", "collect", "serve"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=tuple(MOST), default="float32")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=96, help="of an answer at most")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--raw", action="store_true", help="logprobs before the temperature")
    parser.add_argument("--whole", action="store_true", help="answers that do not stream")
    parser.add_argument("--most", type=float, help="largest difference of a logprob")
    return parser.parse_args()


def _specification(given: argparse.Namespace, **more: Any) -> dict[str, Any]:
    sampling = {"max_tokens": given.tokens, "temperature": given.temperature, "token_ids": True}
    strategy = {"name": "sequential", "turns": TURNS, "samples": given.rollouts}
    return {
        "name": "model_server",
        "endpoint": "local",
        "strategy": strategy,
        "sampling": sampling,
        **more,
    }


def _problem() -> Problem:
    reference = PROBLEMS["gated_norm"].reference(8, 200).encode()
    return Problem(name="gated_norm", reference=reference, source_set="rl_proof")


def _checked(
    given: argparse.Namespace, chat: ChatModel, endpoint: EndpointConfig
) -> dict[str, Any]:
    """Rollouts with the client alone, and the probe's findings about the server."""
    from app.endpoints.probe import probe

    found = probe(endpoint)
    began = time.perf_counter()
    with ThreadPoolExecutor(4) as pool:
        rollouts = list(
            pool.map(lambda sample: _rollout(given, endpoint, sample), range(given.rollouts))
        )
    seconds = time.perf_counter() - began
    rows = [row.as_json() for turns in rollouts for row in joined(turns)]
    told = {
        name: getattr(found, name)
        for name in ("reachable", "seed", "token_ids", "logprobs_mode", "warnings")
    }
    return {
        "probe": told,
        "calls": TURNS * given.rollouts,
        "seconds": seconds,
        **_compared(given, chat, rows),
    }


def _rollout(given: argparse.Namespace, endpoint: EndpointConfig, sample: int) -> list[TokenTurn]:
    """One dialogue as a collection has it."""
    from app.endpoints import caller

    spec = parse(_specification(given, problems={"names": ["*"]}))
    shipped = list(templates.shipped())
    used = {kind: templates.choose(shipped, ref, kind) for kind, ref in texts.refs(spec).items()}
    dialogue = Dialogue(spec, _problem(), used, sample=sample)
    turns: list[TokenTurn] = []
    while dialogue.stop is None:
        request = ModelRequest(
            model=NAME,
            messages=dialogue.messages,
            max_tokens=spec.longest_answer(),
            temperature=spec.sampling.temperature,
            seed=dialogue.seed,
            want_token_ids=True,
            want_logprobs=True,
        )
        answer = caller.call(endpoint, request)
        assert answer.error is None, answer.error
        dialogue.read(answer)
        reward = dialogue.judge(None).outcome.reward
        turns.append(_turn(answer, f"{sample}.{len(turns)}", reward))
    return turns


def _turn(answer: ModelAnswer, key: str, reward: float | None) -> TokenTurn:
    assert answer.prompt_token_ids is not None
    assert answer.token_ids is not None
    assert answer.logprobs is not None
    return TokenTurn(
        key=key,
        model_call_id=answer.provider_id or key,
        prompt=answer.prompt_token_ids,
        answer=answer.token_ids,
        logprobs=answer.logprobs,
        reward=reward,
    )


def _collected(
    given: argparse.Namespace, chat: ChatModel, endpoint: EndpointConfig
) -> dict[str, Any]:
    """Rollouts by `assay collect`, and the rows that it exports for trainers."""
    from app.store.collection import endpoints, token_rows
    from app.store.trajectory import problems
    from tests.bench.collect_site import site, watched

    with site(endpoint.base_url, problem_count=1, flight=4, silence_s=PATIENCE_S, generators=1) as (
        opened,
        client,
    ):
        with client.database.begin() as connection:
            endpoints.add(
                connection,
                replace(endpoint, max_in_flight=4, capabilities=_abilities(endpoint)),
                replace=True,
            )
            problems.add(connection, [_problem()])
        spec = _specification(given, problems={"source_set": "rl_proof"})
        collection_id = client.collect(spec)
        seen = watched(opened, client, collection_id)
        with client.database.snapshot() as connection:
            rows = list(token_rows.rows(connection, collection_id))
    modes = {row["logprobs_mode"] for row in rows}
    return {
        "collection": seen,
        "logprobs_modes": sorted(map(str, modes)),
        **_compared(given, chat, rows),
    }


def _abilities(endpoint: EndpointConfig) -> dict[str, Any]:
    from app.endpoints.probe import probe

    return probe(endpoint).capabilities


def _compared(
    given: argparse.Namespace, chat: ChatModel, rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Recorded rows against the model's own tokens and logprobs."""
    differences: list[float] = []
    wrong_ids = 0
    for row in rows:
        ids, mask = list(row["ids"]), list(row["mask"])
        again = [0.0, *chat.recomputed(ids, given.temperature)]
        differences += [
            abs(a - b) for a, b, own in zip(row["logprobs"], again, mask, strict=True) if own
        ]
        wrong_ids += (
            chat.tokenizer(chat.tokenizer.decode(ids), add_special_tokens=False)["input_ids"] != ids
        )
    most = given.most if given.most is not None else MOST[given.dtype]
    continued = sum(len(row["turn_ends"]) == TURNS for row in rows)
    largest = max(differences, default=float("nan"))
    equal = wrong_ids == 0 and len(rows) == continued == given.rollouts and largest <= most
    return {
        "equal": equal,
        "rows": len(rows),
        "rows_of_all_turns": continued,
        "tokens_compared": len(differences),
        "largest_difference": largest,
        "mean_difference": fmean(differences) if differences else None,
        "rows_with_other_ids": wrong_ids,
        "dtype": given.dtype,
        "temperature": given.temperature,
    }


if __name__ == "__main__":
    sys.exit(main())
