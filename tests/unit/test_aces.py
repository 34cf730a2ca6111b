"""ACES against definitions written out pair by pair, and against grids and simulated candidates."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from app.domain import aces
from app.domain.aces import Row
from app.domain.evaluation import Status
from app.domain.pass_matrix import OWN, Tested, matrix


def drawn(
    seed: int, candidates: int = 25, tests: int = 5, unknown: float = 0.0, misled: float = 0.8
) -> list[Row]:
    draw = random.Random(seed)
    rows = []
    for _ in range(candidates):
        right = draw.random() < 0.5
        chances = [
            0.9 if right else 0.2,
            0.7 if right else 0.4,
            0.5,
            0.3 if right else misled,
            1.0,
        ][:tests]
        rows.append(
            tuple(None if draw.random() < unknown else draw.random() < chance for chance in chances)
        )
    return rows


def brute_auc(rows: list[Row], test: int, weights: list[float]) -> float | None:
    """The definition, over all pairs of candidates."""

    def score(row: Row) -> float | None:
        known = [ok for place, ok in enumerate(row) if place != test and ok is not None]
        if not known:
            return None
        mean = sum(known) / len(known)
        parts = [mean if ok is None else ok for ok in row]
        return sum(
            weight * part
            for place, (weight, part) in enumerate(zip(weights, parts, strict=True))
            if place != test
        )

    better = [score(row) for row in rows if row[test] is True]
    worse = [score(row) for row in rows if row[test] is False]
    pairs = [(i, k) for i in better for k in worse if i is not None and k is not None]
    if not pairs:
        return None
    wins = [0.5 if math.isclose(i, k, abs_tol=1e-9) else float(i > k) for i, k in pairs]
    return sum(wins) / len(wins)


@pytest.mark.parametrize("unknown", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_loo_auc_and_closed_form_are_the_definitions(seed: int, unknown: float) -> None:
    rows = drawn(seed, unknown=unknown)
    weights = [0.4, 0.1, 0.2, 0.3, 0.0]
    expected = [brute_auc(rows, test, weights) for test in range(5)]
    assert aces.loo_aucs(rows, weights) == pytest.approx(expected)
    raw = []
    for test in range(5):
        known = [row[test] for row in rows if row[test] is not None]
        rate = sum(known) / len(known)
        area = brute_auc(rows, test, [0.2] * 5)
        raw.append(0.0 if area is None else max(0.0, area - 0.5) * rate * (1 - rate))
    assert aces.aces_c(rows) == pytest.approx([one / (sum(raw) or 1) for one in raw])
    assert aces.aces_c(rows)[4] == 0  # all pass


def brute_objective(rows: list[Row], weights: list[float], temperature: float) -> float:
    total = 0.0
    for test, weight in enumerate(weights):
        score = [
            sum(w * ok for j, (w, ok) in enumerate(zip(weights, row, strict=True)) if j != test)
            for row in rows
        ]
        both = itertools.permutations(range(len(rows)), 2)
        pairs = [(score[i], score[k]) for i, k in both if rows[i][test] and not rows[k][test]]
        area = [1 / (1 + math.exp(-(i - k) / temperature)) for i, k in pairs]
        total += weight * (sum(area) / len(area) - 0.5) if area else 0.0
    return total


@pytest.mark.parametrize("seed", range(3))
def test_the_objective_and_its_gradient(seed: int) -> None:
    rows, weights, step = drawn(seed, candidates=12), [0.3, 0.2, 0.1, 0.3, 0.1], 1e-6
    value, slope = aces.objective(aces._pairs(rows), weights, 0.1)
    assert value == pytest.approx(brute_objective(rows, weights, 0.1))
    for place in range(5):
        up, down = (
            [w + sign * step * (j == place) for j, w in enumerate(weights)] for sign in (1, -1)
        )
        numeric = (brute_objective(rows, up, 0.1) - brute_objective(rows, down, 0.1)) / (2 * step)
        assert slope[place] == pytest.approx(numeric, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_optimised_weights_come_near_the_best_of_a_grid(seed: int) -> None:
    rows = drawn(seed, tests=3)
    grid = [(a / 20, b / 20, 1 - a / 20 - b / 20) for a in range(21) for b in range(21 - a)]
    best = max(brute_objective(rows, list(weights), aces.TEMPERATURE) for weights in grid)
    found = aces.aces_o(rows)
    assert (sum(found), min(found)) == (pytest.approx(1), pytest.approx(0, abs=1))
    assert min(found) >= 0
    own = brute_objective(rows, found, aces.TEMPERATURE)
    assert own >= brute_objective(rows, aces.aces_c(rows), aces.TEMPERATURE) - 1e-12
    assert own >= best - 0.01


def test_a_test_that_misleads_gets_no_weight_and_noise_little() -> None:
    rows = drawn(7, candidates=400, misled=0.45)
    first, second, noise, misleading, constant = aces.rank(rows)
    assert min(first.aces_c, second.aces_c) > noise.aces_c
    assert (misleading.aces_c, constant.aces_c, constant.loo_auc) == (0, 0, None)
    assert min(first.loo_auc, second.loo_auc) > 0.55 > 0.5 > misleading.loo_auc


def test_optimised_weights_do_not_need_tests_that_are_good_on_average() -> None:
    """A test that misleads strongly turns the ranking of the closed form round; the
    optimised one recovers.
    """
    first, second, _, misleading, _ = aces.rank(drawn(7, candidates=400))
    assert (first.aces_c, misleading.aces_o) == (0, 0)
    assert first.aces_o + second.aces_o == pytest.approx(1)


def test_outcomes_without_a_message() -> None:
    for rows in (
        [],
        [(True, True)] * 3,
        [(None, True), (None, False)],
        [(True, False), (False, True)],
    ):
        found = aces.rank(rows)
        assert all(one.aces_c == 0 for one in found)
    only, other = aces.rank([(False, True), (True, True), (False, False)])
    assert (only.only_here, other.only_here, only.pass_rate) == (1, 0, pytest.approx(1 / 3))
    with pytest.raises(ValueError, match=r"expected one length, got \[1, 2\]"):
        aces.rank([(True,), (True, False)])


def test_the_simplex_is_the_nearest_point() -> None:
    assert aces.onto_simplex([0.2, 0.3, 0.5]) == pytest.approx([0.2, 0.3, 0.5])
    assert aces.onto_simplex([2.0, 0.0, -1.0]) == pytest.approx([1.0, 0.0, 0.0])
    assert aces.onto_simplex([0.5, 0.5, 0.5]) == pytest.approx([1 / 3] * 3)


def seen(name: str, status: Status, *trials: tuple[str, bool], **more) -> Tested:
    wrong = sum(not ok for _, ok in trials)
    return Tested(
        evaluation_id=name,
        candidate_id=more.pop("candidate", name),
        status=status,
        failed_calls=more.pop("failed", wrong),
        trials=trials,
        **more,
    )


def test_outcomes_that_an_evaluation_does_not_list() -> None:
    own = ((OWN, True),) * 5
    found = matrix(
        [
            seen("right", Status.PASSED, *own),
            seen("sparse", Status.INCORRECT, *own, ("sparse", False)),
            seen("early", Status.INCORRECT, (OWN, False)),
            seen("cut", Status.INCORRECT, *own, ("scaled", False), failed=40),
            seen("excused", Status.PASSED, *own, excused=frozenset({"scaled"})),
            seen("old", Status.INCORRECT, (OWN, False), candidate="right"),
        ]
    )
    assert found.tests == (OWN, "sparse", "scaled")
    assert found.rows == (
        (True, True, True),
        (True, False, True),
        (False, None, None),
        (True, None, False),
        (True, True, None),
    )


def test_cases_are_tests_of_their_own() -> None:
    cases = (("16×16 float32", True), ("1×1 float16", False))
    found = matrix(
        [
            seen(
                "a",
                Status.INCORRECT,
                (OWN, True),
                cases=cases,
                shapes={"16×16 float32": "float32[16×16]"},
            )
        ]
    )
    assert found.tests == ("16×16 float32", "1×1 float16")
    assert found.outputs == ("float32[16×16]", "")
    assert found.rows == ((True, False),)
