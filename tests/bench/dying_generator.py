"""The worker of an endpoint, killing itself at random at every transition of a call
and of a decision.

Started as `celery -A tests.bench.dying_generator worker` with ASSAY's settings and
DIE_SHARE, the share of transitions at which it dies.  Each death appends the
transition's name to the file DIE_LOG.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.collect import advance as decisions
from app.collect import calls, send
from app.store.collection import calls as call_rows
from app.store.collection import claims, ledger, trees
from workers.generator import app as worker
from workers.generator import caller

SHARE = float(os.environ["DIE_SHARE"])
LOG = Path(os.environ["DIE_LOG"])
_luck = random.Random()


def die(where: str) -> None:
    if _luck.random() < SHARE:
        with LOG.open("a") as file:
            file.write(f"{where}\n")
        os.kill(os.getpid(), signal.SIGKILL)


def around(module: Any, name: str) -> None:
    """Die before or after."""
    real: Callable[..., Any] = getattr(module, name)

    def dying(*arguments: Any, **options: Any) -> Any:
        die(f"before {name}")
        answer = real(*arguments, **options)
        die(f"after {name}")
        return answer

    setattr(module, name, dying)


TRANSITIONS: tuple[tuple[Any, str], ...] = (
    (calls, "prepare"),  # before the claim; after its commit
    (claims, "begin"),  # inside the transaction that claims
    (caller, "answer_of"),  # before the request is sent; after the answer has come
    (calls, "store"),  # before the answer is stored; after its commit and its messages
    (call_rows, "record"),  # inside the transaction that stores
    (ledger, "settle"),
    (send, "_send"),  # between a commit and its messages
    (decisions, "_advance"),  # inside the transaction that decides
    (trees, "add"),
    (trees, "decided"),
)
for _module, _name in TRANSITIONS:
    around(_module, _name)
app = worker.app
