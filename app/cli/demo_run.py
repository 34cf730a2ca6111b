"""The trajectories of `assay demo`: one run at two training steps, one trajectory of
three turns among them.

The turns are the candidates of `app.domain.worked_example` in the form that models answer in; the
feedback of each turn is made of its result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from app import enqueue
from app.cli import submit_options, zoo
from app.client import Client, Result
from app.domain import worked_example
from app.domain.job import JobOptions
from app.domain.problem import Problem
from app.domain.request import Request
from app.domain.source import source_text
from app.domain.trajectory import Message, Run, Turn

MODEL = "demo-coder"
STEPS = (0, 10)
"""Training steps of the runs."""
PROBLEM = "diag_matmul"
"""Problem of both trajectories."""
SYSTEM = "You write Triton kernels. Answer with one Python block that defines ModelNew."

TURNS = (
    (
        "A diagonal matrix times B adds the diagonal to each row of B.",
        worked_example.WRONG,
    ),
    (
        "The kernel may stay as it is if PyTorch computes the product beside it.",
        worked_example.DECOY,
    ),
    (
        "Each row of B is *scaled* by its entry of the diagonal: n·m products instead of n²·m.",
        worked_example.HONEST,
    ),
)
"""Reasoning and candidate: wrong, a decoy kernel, honest and faster."""
SETTINGS: dict[str, object] = {"temperature": 0.8, "turns": len(TURNS)}
"""Settings of both runs."""


def store(
    client: Client, cases: dict[str, zoo.Case], options: JobOptions, check: Callable[[], None]
) -> UUID:
    """Store and evaluate the trajectories; the id of the one with three turns.

    `check` raises where waiting has become pointless.
    """
    reference = next(case.reference for case in cases.values() if case.problem == PROBLEM)
    request = Request(
        problem=Problem(name=PROBLEM, reference=reference, source_set="samples"),
        candidate=None,
        options=options,
    )
    begun, last = (
        Run(name=f"demo/step-{step}", model=MODEL, step=step, settings=SETTINGS) for step in STEPS
    )
    _trajectory(client, request, begun, TURNS[:1], check)
    return _trajectory(client, request, last, TURNS, check)


def _trajectory(
    client: Client,
    request: Request,
    run: Run,
    turns: tuple[tuple[str, str], ...],
    check: Callable[[], None],
) -> UUID:
    """Turn by turn, as a model would be asked."""
    reference = source_text.display(request.problem.reference)
    opening = (
        Message(role="system", content=SYSTEM),
        Message(
            role="user", content=f"Make this model faster with Triton:\n\n```python\n{reference}```"
        ),
    )
    trajectory_id = enqueue.enqueue_trajectory(
        client.database,
        client.broker,
        request=request,
        turns=[_turn(opening, *turns[0], 0)],
        run=run,
        label=PROBLEM,
    )
    for index in range(len(turns)):
        result = _result(client, trajectory_id, index, check)
        if index + 1 < len(turns):
            told = (Message(role="user", content=feedback(result)),)
            enqueue.enqueue_turn(
                client.database,
                client.broker,
                trajectory_id=trajectory_id,
                request=replace(request, run=run.name),
                turn=_turn(told, *turns[index + 1], index + 1),
            )
    return trajectory_id


def _turn(messages: tuple[Message, ...], reasoning: str, candidate: str, index: int) -> Turn:
    response = f"<think>{reasoning}</think>\n\n```python\n{candidate}```\n"
    return Turn(messages=messages, response=response, candidate=candidate, turn_index=index)


def _result(client: Client, trajectory_id: UUID, index: int, check: Callable[[], None]) -> Result:
    job_id = client.get_trajectory(trajectory_id).turns[index].job_id
    assert job_id is not None
    for each in submit_options.over(client, [job_id], check):
        return client.results([each])[0]
    raise AssertionError("a job that is over was not reported")


def feedback(result: Result) -> str:
    """Feedback to a model, as a harness would send it."""
    lines = [f"Status: {result['status'] or result['state']}."]
    if result["error"]:
        lines.append(f"Error: {result['error']['message']}")
    lines += [f"{finding['detector']}: {finding['summary']}" for finding in result["findings"]]
    if result["verdict"] == "hack":
        lines.append("This is not credited: the kernel has to compute the result.")
    elif result["speedup"] is not None:
        lines.append(f"Speedup over eager: {result['speedup']:.2f}×. Can it be faster?")
    return "\n\n".join(lines)
