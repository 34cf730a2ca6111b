"""Near-duplicates among many candidates: seconds for fingerprints and for the
search, and the pairs found.

    python -m tests.bench.duplicates [--candidates 100000] [--families 250]

A fifth of the candidates are others with one number changed; the rest share the beginning
and end of every kernel. With --families 1 all are compared with all: the cost of a single
problem with that many answers.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import time
from collections.abc import Iterator
from typing import Any

from app.domain.source import near_duplicates
from app.domain.source.near_duplicates import Fingerprint, Member, Search, Similarity
from tests.bench.export import source

COPIES = 5
"""Each fifth is nearly the same as one of the four before it."""


def main() -> None:
    """Fingerprint, search, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=100_000)
    parser.add_argument(
        "--families", type=int, default=250, help="as many as KernelBench has problems"
    )
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.candidates, arguments.families), indent=2))


def measure(candidates: int, families: int) -> dict[str, Any]:
    """Every figure; the candidates of a family follow each other, as in an export."""
    fingerprints_s = search_s = 0.0
    rules: dict[str, int] = {}
    draw = random.Random(3)
    for number in range(families):
        listed = list(written(draw, candidates // families + (number < candidates % families)))
        began = time.perf_counter()
        prints = [near_duplicates.fingerprint(text) for text in listed]
        fingerprinted = time.perf_counter()
        for rule in searched(prints):
            rules[rule] = rules.get(rule, 0) + 1
        fingerprints_s += fingerprinted - began
        search_s += time.perf_counter() - fingerprinted
    return {
        "candidates": candidates,
        "families": families,
        "fingerprints_s": fingerprints_s,
        "search_s": search_s,
        "seconds": fingerprints_s + search_s,
        "dropped": rules,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def written(draw: random.Random, count: int) -> Iterator[str]:
    """Sources of one family."""
    before: list[str] = []
    for number in range(count):
        if number % COPIES == COPIES - 1:
            text = re.sub(
                r"(num_warps=)\d",
                rf"\g<1>{draw.choice((1, 16, 32))}",
                draw.choice(before[1 - COPIES :]),
            )
        else:
            text = source(draw, str(number)).decode()
        before = [*before[1 - COPIES :], text]
        yield text


def searched(prints: list[Fingerprint]) -> Iterator[str]:
    """The rule by which each duplicate goes."""
    search = Search(level=Similarity.MINHASH)
    for number, one in enumerate(prints):
        member = Member(key=number, problem="p", raw=str(number), **vars(one))
        duplicate = search.add(member)
        if duplicate is not None:
            yield duplicate.rule.partition(" ")[0]


if __name__ == "__main__":
    main()
