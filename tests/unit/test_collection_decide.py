"""Decisions of a collection are a pure function of the stored rows."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.collection import spec as specs
from app.domain.collection.budgets import Amounts, Caps, Fit, fits
from app.domain.collection.call import End
from app.domain.collection.decide import decide
from app.domain.collection.draws import draws
from app.domain.collection.lines import Setting
from app.domain.collection.spec import CollectionSpec
from app.domain.collection.stop_reasons import StopReason
from app.domain.collection.strategies import STRATEGIES, islands
from app.domain.collection.strategies.adaptive import Adaptive
from app.domain.collection.strategies.windowed import Options as WindowOptions
from app.domain.collection.strategies.windowed import consecutive, top
from app.domain.collection.tree import AttemptResult, Node, Stop, Tree

CHOSEN = {
    "independent": {},
    "sequential": {"turns": 5},
    "windowed": {"turns": 3, "iterations": 4, "window": 2},
    "best_of_n": {"n": 5, "turns": 2},
    "adaptive": {"per_round": 4, "rounds": 3, "keep": 4, "turns": 2},
    "beam": {"width": 2, "branch": 2, "rounds": 4},
    "islands": {"attempts": 24, "islands": 3, "parallel": 5, "migrate_every": 2, "drafts": 1},
}
DRAWS = draws(1, "p", 0)
STATUSES = ("passed", "passed", "passed", "incorrect", "compile_error", "no_code", "fault")


def specification(name: str, /, **more: object) -> CollectionSpec:
    return specs.parse(
        {
            "name": "x",
            "problems": {"source_set": "samples"},
            "endpoint": "a",
            "endpoints": ["b"],
            "strategy": {"name": name, **CHOSEN[name]},
            **more,
        }
    )


def imagined(key: str, salt: int) -> AttemptResult:
    """An outcome that depends on the place and nothing else."""
    luck = random.Random(hashlib.sha256(f"{salt} {key}".encode()).digest())
    status = luck.choice(STATUSES)
    if status == "fault":
        return AttemptResult(
            fault=luck.choice((StopReason.ENDPOINT_ERROR, StopReason.EVALUATOR_ERROR)), tokens=10
        )
    if status != "passed":
        return AttemptResult(
            status=status, reward=0.0, tokens=luck.randint(1, 99), end=luck.choice(tuple(End))
        )
    label = luck.choice(("clean", "clean", "suspect", "hack"))
    speedup = luck.uniform(0.5, 4)
    return AttemptResult(
        status=status,
        correct=True,
        label=label,
        speedup=None if label == "hack" else speedup,
        ci_low=None if label == "hack" else speedup * 0.9,
        coverage=luck.random(),
        kernels=luck.randint(0, 9),
        reward=0.0 if label == "hack" else 1 + speedup,
        tokens=luck.randint(1, 99),
        cost_usd=luck.random(),
    )


def spent_by(tree: Tree) -> Amounts:
    done = [node.outcome for node in tree if node.outcome is not None]
    return Amounts(calls=len(done), tokens=sum(each.tokens for each in done))


def grown(
    spec: CollectionSpec, salt: int, order: random.Random, tree: Tree | None = None
) -> tuple[Tree, Stop]:
    """The whole tree, with attempts that end in a random order."""
    tree = tree or Tree()
    for _ in range(1000):
        decision = decide(spec, tree, spent_by(tree), DRAWS)
        if decision.stop is not None:
            assert not decision.generate
            return tree, decision.stop
        tree = tree.with_nodes(Node(**vars(each)) for each in decision.generate)
        pending = sorted(node.key for node in tree if not node.done)
        assert pending, "neither an attempt nor an end nor anything to wait for"
        key = order.choice(pending)
        tree = tree.with_nodes([replace(tree[key], outcome=imagined(key, salt))])
    raise AssertionError("no end")


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=25, deadline=None)
@given(salt=st.integers(0, 10**6), first=st.integers(0, 10**6), second=st.integers(0, 10**6))
def test_the_tree_does_not_depend_on_the_order_in_which_attempts_end(
    name: str, salt: int, first: int, second: int
) -> None:
    spec = specification(name)
    assert grown(spec, salt, random.Random(first)) == grown(spec, salt, random.Random(second))


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=15, deadline=None)
@given(salt=st.integers(0, 10**6), cut=st.integers(0, 40), order=st.integers(0, 10**6))
def test_a_rollout_goes_on_from_every_prefix_as_if_nothing_had_happened(
    name: str, salt: int, cut: int, order: int
) -> None:
    """A prefix is a tree in which some attempts were decided and lost none of their places."""
    spec = specification(name)
    whole, stop = grown(spec, salt, random.Random(order))
    luck, tree = random.Random(cut), Tree()
    for _ in range(cut):
        decision = decide(spec, tree, spent_by(tree), DRAWS)
        if decision.stop is not None:
            break
        survivors = [
            each for each in decision.generate if luck.random() < 0.7
        ]  # the process died between two inserts
        tree = tree.with_nodes(Node(**vars(each)) for each in survivors)
        for node in [node for node in tree if not node.done and luck.random() < 0.5]:
            tree = tree.with_nodes([replace(node, outcome=imagined(node.key, salt))])
    assert grown(spec, salt, random.Random(order + 1), tree) == (whole, stop)


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=15, deadline=None)
@given(salt=st.integers(0, 10**6))
def test_a_strategy_never_makes_more_attempts_than_it_says_and_shows_what_is_done(
    name: str, salt: int
) -> None:
    spec = specification(name)
    tree, stop = grown(spec, salt, random.Random(salt))
    assert len(tree) <= spec.most_attempts
    for node in tree:
        assert set(node.shown) <= set(tree.nodes)
        assert node.parent is None or node.parent in tree
    hacks = {node.key for node in tree if node.outcome and node.outcome.hack}
    assert name in ("adaptive",) or not hacks & set(stop.picked) or len(tree) == len(hacks)
    if name in ("beam", "islands"):
        assert not hacks & {key for node in tree for key in (*node.shown, node.parent)}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), cap=st.integers(1, 500))
def test_reservations_never_pass_a_cap_whatever_the_order(data: st.DataObject, cap: int) -> None:
    caps, spent = Caps(tokens=cap, calls=20), Amounts()
    held: list[Amounts] = []
    for _ in range(60):
        reserved = sum(held, Amounts())
        assert spent.tokens + reserved.tokens <= cap
        assert spent.calls + reserved.calls <= 20
        frees: bool = data.draw(st.booleans())
        if held and frees:
            most = held.pop(data.draw(st.integers(0, len(held) - 1)))
            spent = spent + Amounts(calls=1, tokens=data.draw(st.integers(0, most.tokens)))
            continue
        most = Amounts(calls=1, tokens=data.draw(st.integers(1, 200)))
        if fits(caps, spent, reserved, most)[0] is Fit.YES:
            held.append(most)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_rollout_stops_by_its_own_budget(name: str) -> None:
    spec = specification(name, budgets={"rollout": {"calls": 1}})
    tree, stop = grown(spec, 3, random.Random(0))
    assert stop.reason in (
        StopReason.BUDGET,
        StopReason.MAX_TURNS,
        *(n.outcome.fault for n in tree if n.outcome),
    )
    assert len(tree) < max(2, spec.most_attempts) or len(tree) == spec.most_attempts == 1


@pytest.mark.parametrize(
    ("rewards", "stops", "reason"),
    [
        ([1.0], {"solved": True}, StopReason.SOLVED),
        ([1.0, 2.0], {}, StopReason.MAX_TURNS),
        ([1.0], {}, StopReason.BUDGET),
    ],
)
def test_an_end_that_uses_the_budget_up_is_no_end_by_the_budget(
    rewards: list[float], stops: dict[str, object], reason: StopReason
) -> None:
    changes = {"strategy": {"name": "sequential", "turns": 2}, "stops": stops}
    spec = specification("sequential", budgets={"rollout": {"calls": len(rewards)}}, **changes)
    nodes = [
        replace(node, outcome=replace(node.outcome, label="clean"))
        for node in line_of(rewards)
        if node.outcome
    ]
    decision = decide(spec, Tree().with_nodes(nodes), Amounts(calls=len(rewards)), DRAWS)
    assert decision.stop is not None
    assert decision.stop.reason is reason


def line_of(rewards: list[float]) -> list[Node]:
    return [
        Node(
            key=f"0.{turn}",
            turn=turn,
            outcome=AttemptResult(status="passed", correct=True, reward=value),
        )
        for turn, value in enumerate(rewards)
    ]


def test_windows_are_those_of_the_code_and_of_the_paper() -> None:
    line = line_of([1, 0, 2, 1.5, 1.5, 0.5])
    options = WindowOptions(turns=5, window=4)
    assert [node.turn for node in consecutive(line, options)] == [2, 3, 4, 5]
    assert [node.turn for node in top(line, replace(options, selection="top"))] == [0, 2, 3, 4]
    assert [node.turn for node in consecutive(line_of([1, 1, 1]), replace(options, window=2))] == [
        0,
        1,
    ]


def test_dr_kernels_evaluation_has_fourteen_turns() -> None:
    assert WindowOptions().total == 14


def test_windowed_begins_every_iteration_with_its_window() -> None:
    spec = specification("windowed", stops={})
    tree = Tree()
    for _ in range(8):
        decision = decide(spec, tree, Amounts(), DRAWS)
        if decision.stop:
            break
        node = Node(**vars(decision.generate[0]))
        value = [5.0, 1, 1, 1, 1, 1][node.turn]
        outcome = AttemptResult(status="passed", correct=True, label="clean", reward=value)
        tree = tree.with_nodes([replace(node, outcome=outcome)])
    assert [node.shown for node in tree.line(0)] == [
        (),
        ("0.0",),
        ("0.0", "0.1"),
        ("0.0", "0.1"),
        ("0.0", "0.1"),
        ("0.0", "0.1"),
    ]
    assert len(tree) == 6


def choices(attempts: list[Node]) -> set[str]:
    """Models that islands chooses after these attempts, whatever the draw."""
    spec = specification("islands")
    setting = Setting(draws=DRAWS, stops=spec.stops, context=spec.context, endpoints=spec.models)
    return {
        islands.choose_model(attempts, str(key), spec.strategy_options, setting)
        for key in range(100, 120)
    }


def tried(endpoint: str, count: int, first: int, **facts: Any) -> list[Node]:
    result = AttemptResult(status="passed", correct=True, label="clean", ci_low=1.0, **facts)
    return [Node(key=str(first + at), endpoint=endpoint, outcome=result) for at in range(count)]


def test_a_cost_that_is_not_known_does_not_decide_for_a_model() -> None:
    """Half of the tries each, the same gain: the model without a price is not a
    million times the better one.
    """
    for number in (10, 11):
        attempts = [*tried("a", number, 0, cost_usd=0.01), *tried("b", 21 - number, 50)]
        assert choices(attempts) == {"a" if number == 10 else "b"}


def test_faults_of_an_endpoint_say_nothing_of_its_model() -> None:
    fault = AttemptResult(fault=StopReason.ENDPOINT_ERROR)
    faults = [Node(key=str(90 + at), endpoint="b", outcome=fault) for at in range(4)]
    good = [*tried("a", 10, 0, cost_usd=0.01), *tried("b", 4, 50, cost_usd=0.01)]
    assert choices([*good, *faults]) == {"b"}  # 4 successes and 4 faults beside 10 successes


def test_a_fault_is_in_no_adaptive_pool() -> None:
    spec = specification(
        "adaptive", strategy={"name": "adaptive", "per_round": 4, "rounds": 1, "keep": 4}
    )
    outcomes = [
        AttemptResult(status="passed", correct=True, label="clean", reward=2.0),
        AttemptResult(fault=StopReason.ENDPOINT_ERROR),
        AttemptResult(status="incorrect", reward=0.0),
        AttemptResult(status="incorrect", reward=0.0),
    ]
    tree = Tree.of(
        Node(key=f"{at}.0", sample=at, outcome=outcome) for at, outcome in enumerate(outcomes)
    )
    stop = decide(spec, tree, Amounts(), DRAWS).stop
    assert stop is not None
    assert set(stop.picked) == {"0.0", "2.0", "3.0"}
    assert isinstance(STRATEGIES["adaptive"], Adaptive)


@pytest.mark.parametrize(
    ("stops", "outcomes", "reason"),
    [
        (
            {"solved": True},
            [AttemptResult(correct=True, label="clean", status="passed")],
            StopReason.SOLVED,
        ),
        (
            {"hack": True},
            [AttemptResult(correct=True, label="hack", status="passed")],
            StopReason.HACK,
        ),
        (
            {"target_speedup": 2.0},
            [AttemptResult(correct=True, label="clean", ci_low=2.1)],
            StopReason.TARGET_SPEEDUP,
        ),
        ({"no_code": 2}, [AttemptResult(status="no_code")] * 2, StopReason.NO_CODE),
        (
            {"truncated": True},
            [AttemptResult(status="no_code", end=End.LENGTH)],
            StopReason.TRUNCATED,
        ),
        ({}, [AttemptResult(status="no_code", end=End.REFUSED)], StopReason.REFUSED),
        ({}, [AttemptResult(status="no_code", end=End.CONTENT_FILTER)], StopReason.CONTENT_FILTER),
        ({"no_progress": 2}, [AttemptResult(status="incorrect")] * 3, StopReason.NO_PROGRESS),
        ({}, [AttemptResult(fault=StopReason.CONTEXT_OVERFLOW)], StopReason.CONTEXT_OVERFLOW),
        ({}, [AttemptResult(status="incorrect")] * 5, StopReason.MAX_TURNS),
    ],
)
def test_each_stop_reason_ends_a_line(
    stops: dict[str, object], outcomes: list[AttemptResult], reason: StopReason
) -> None:
    spec = specification("sequential", stops=stops)
    tree = Tree.of(
        Node(key=f"0.{turn}", turn=turn, outcome=each) for turn, each in enumerate(outcomes)
    )
    stop = decide(spec, tree, Amounts(), DRAWS).stop
    assert stop is not None
    assert stop.reason is reason


def test_two_places_of_a_collection_have_different_seeds_and_one_place_the_same() -> None:
    rollouts = [(seed, problem, sample) for seed in (0, 1) for problem in "ab" for sample in (0, 1)]
    places = [draws(*rollout).seed(key) for rollout in rollouts for key in ("0.0", "0.1")]
    assert len(set(places)) == len(places)
    assert draws(0, "a", 0).seed("0.0") == places[0]
    assert all(0 <= place < 2**31 for place in places)
