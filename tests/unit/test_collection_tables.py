"""Lines that tell of a collection on a terminal."""

import pytest

from app.cli import collect, collection_tables


@pytest.mark.parametrize(
    ("state", "reason", "ends", "expected"),
    [
        ("finished", "", {"endpoint_error": 2, "evaluator_error": 1}, True),
        ("finished", "", {"endpoint_error": 2, "max_turns": 1}, False),
        ("finished", "", {"budget": 1}, False),
        ("paused", "endpoint local: HTTP 401: bad key", {}, True),
        ("paused", "by root", {}, False),
        ("stopped", "by root", {"stopped": 3}, False),
    ],
)
def test_faults_alone_are_no_result(state, reason, ends, expected):
    assert collection_tables.at_fault({"state": state, "reason": reason, "ends": ends}) is expected


def test_a_collection_without_a_terminal_is_watched_in_lines(monkeypatch, capsys):
    """The log of a collection that takes hours shows its progress."""
    now_s = [0.0]
    monkeypatch.setattr("app.cli.output.time.monotonic", lambda: now_s[0])
    monkeypatch.setattr(
        "app.cli.collect.time.sleep", lambda period_s: now_s.__setitem__(0, now_s[0] + period_s)
    )

    class Client:
        def collection(self, name):
            assert name == "mine"
            return {
                "state": "running" if now_s[0] < 20 else "finished",
                "rollouts": 4,
                "rollouts_stopped": int(now_s[0] >= 6),
                "waits_until": None,
                "waits_for": None,
                "spent": {"calls": 7, "tokens": 1234, "usd": 0.5},
                "attempts": {"calling": 3},
            }

    collect.watch(Client(), "mine", lambda: None, quiet=True)  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""
    now_s[0] = 0.0
    collect.watch(Client(), "mine", lambda: None, quiet=False)  # type: ignore[arg-type]
    assert capsys.readouterr().err.splitlines() == [
        f"running: {stopped} of 4 rollouts, 7 calls, 1,234 tokens, $0.50, 3 calling, 0 evaluating"
        for stopped in (0, 1)
    ]


def test_a_line_names_the_endpoint_that_is_waited_for():
    found = {"waits_until": "2026-11-24T19:00:00+00:00", "waits_for": "endpoint local: refused"}
    assert collection_tables.waits(found).endswith(":00 for endpoint local: refused")


def test_amounts_with_maxima_in_them_are_bounds() -> None:
    """A call that told no usage counts at the most that it can have cost."""
    told = {"input_tokens": 100, "output_tokens": 50, "usd": 0.25}
    caps = {"tokens": 5_000, "usd": 2.0}
    exact = {
        "calls": [told],
        "spent": {"calls": 1, "tokens": 150, "usd": 0.25},
        "caps": caps,
    }
    assert collection_tables.counted(exact) == "against budgets: 1 calls, 150 tokens, $0.2500"
    bound = {
        "calls": [told],
        "spent": {"calls": 2, "tokens": 4_246, "usd": 0.75},
        "caps": caps,
    }
    assert collection_tables.counted(bound) == (
        "against budgets: 2 calls, at most 4,246 tokens, at most $0.7500"
    )
    assert collection_tables._of_cap(bound, "usd", "${:.4f}") == "at most $0.7500 of $2.0000"
