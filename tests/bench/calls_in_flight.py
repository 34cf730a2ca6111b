"""Calls in flight in one process under gevent: memory, and time of our own per call.

python -m tests.bench.calls_in_flight [--calls 500] [--characters 20000] [--first-token-s 20]

All calls are sent at once to a scripted server that holds its answers back, so that all are in
flight together; then each answer streams with token ids and logprobs.
"""

# ruff: noqa: E402 (everything below is imported after the patch)

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import argparse
import os
import resource
import time

import gevent
from gevent.pool import Pool

from app.domain.collection.call import EndpointConfig, ModelRequest
from app.domain.trajectory import Message
from app.endpoints import caller
from app.endpoints.scripted.behaviour import Behaviour
from app.endpoints.scripted.process import running
from app.endpoints.scripted.script import Scene, Script
from tests.processes import resident_mb


def measure(calls: int, characters: int, first_token_s: float) -> dict[str, float]:
    """One round; all figures in MB and seconds."""
    script = Script(scenes=(Scene(match="go", turns=(("x" * characters,),)),))
    behaviour = Behaviour(first_token_s=first_token_s, chunk_characters=200)
    prompt = "go " + "import torch\n" * 400
    with running(script, behaviour) as address:
        endpoint = EndpointConfig(
            name="b", base_url=address, dialect="vllm", model="m", connect_s=30, idle_s=300
        )
        pool, before_mb = Pool(calls), resident_mb(os.getpid())
        ended: list[bool] = []

        def call(number: int) -> None:
            asked = ModelRequest(
                model="m",
                messages=(Message(role="user", content=f"{prompt}{number}"),),
                max_tokens=characters,
                seed=number,
                want_token_ids=True,
                want_logprobs=True,
            )
            answer = caller.call(endpoint, asked)
            ended.append(answer.error is None and len(answer.logprobs or ()) == characters)

        cpu_s, begun_s = time.process_time(), time.monotonic()
        greenlets = [pool.spawn(call, number) for number in range(calls)]
        gevent.sleep(first_token_s * 0.9)
        waiting_mb = resident_mb(os.getpid())
        gevent.joinall(greenlets)
        return {
            "calls": calls,
            "answered": sum(ended),
            "before_mb": before_mb,
            "waiting_mb": waiting_mb,
            "most_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "cpu_ms_per_call": (time.process_time() - cpu_s) * 1e3 / calls,
            "wall_s": time.monotonic() - begun_s,
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--characters", type=int, default=20_000)
    parser.add_argument("--first-token-s", type=float, default=20.0)
    given = parser.parse_args()
    found = measure(given.calls, given.characters, given.first_token_s)
    print(" ".join(f"{name}={value:.1f}" for name, value in found.items()))
