"""COLLECT: the answers of a scripted server, drawn by seed and messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HUGE_CHARACTERS = 10_000_000
"""Characters of the answer of kind `huge`: more than any limit takes."""
UNKNOWN_PROBLEM = "There is no script for this problem."

ODD = {
    "empty": "",
    "no_fence": "class ModelNew:\n    pass\n",
    "prose": "I would rewrite the loop as a kernel, but I will not do it here.",
    "other_language": "```rust\nfn main() {}\n```\n",
    "nul_bytes": "```python\nimport torch\0\nclass ModelNew(torch.nn.Module):\n    pass\n```\n",
    "open_fence": "```python\nimport torch\nclass ModelNew(torch.nn.Module):\n    def forward(",
}
"""Odd answer → its text; `huge` is one more."""
ODDITIES = (*ODD, "huge")


class ScriptError(ValueError):
    """A script that cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Answers for one problem."""

    match: str
    """Text that the first message of the user holds: part of the problem's reference."""
    turns: tuple[tuple[str, ...], ...]
    """Alternatives of each turn; the last turn's are used for all later ones."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """Scenes, the first that matches counts; and shares of odd answers by name."""

    scenes: tuple[Scene, ...]
    odd: Mapping[str, float] = field(default_factory=dict)

    def answer(self, messages: Sequence[Mapping[str, str]], seed: int | None) -> str:
        """The text that follows the messages."""
        draw = Draw.of(seed, messages)
        name = draw.named(self.odd)
        if name is not None:
            return "x" * HUGE_CHARACTERS if name == "huge" else ODD[name]
        opening = "\n".join(one["content"] for one in messages if one["role"] == "user")
        scene = next((one for one in self.scenes if one.match in opening), None)
        if scene is None:
            return UNKNOWN_PROBLEM
        turn = sum(one["role"] == "assistant" for one in messages)
        alternatives = scene.turns[min(turn, len(scene.turns) - 1)]
        return alternatives[draw.number("alternative", len(alternatives))]


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Numbers out of a digest: the same for the same seed and messages."""

    digest: bytes

    @classmethod
    def of(cls, seed: int | None, *values: Any) -> Draw:
        """The draw of a seed and values that are JSON."""
        text = json.dumps([seed, values], sort_keys=True, default=str)
        return cls(digest=hashlib.sha256(text.encode("utf-8", "replace")).digest())

    def share(self, name: str) -> float:
        """A number in [0, 1)."""
        return int.from_bytes(hashlib.sha256(self.digest + name.encode()).digest()[:8]) / 2**64

    def number(self, name: str, count: int) -> int:
        """A whole number below `count`."""
        return int(self.share(name) * count)

    def named(self, shares: Mapping[str, float]) -> str | None:
        """One of the names, each with its share; None for the rest."""
        point = self.share("named")
        for name, share in sorted(shares.items()):
            if point < share:
                return name
            point -= share
        return None


def parsed(text: str) -> Script:
    """A script from JSON: `{"scenes": [{"match", "turns"}], "odd": {name: share}}`.

    Raises ScriptError."""
    try:
        told = json.loads(text)
        scenes = tuple(
            Scene(
                match=str(one["match"]), turns=tuple(tuple(map(str, turn)) for turn in one["turns"])
            )
            for one in told["scenes"]
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ScriptError(f"script: expected scenes with match and turns: {error!r}") from error
    if not all(scene.turns and all(scene.turns) for scene in scenes):
        raise ScriptError("script: expected at least one answer for every turn")
    odd = told.get("odd", {})
    if unknown := sorted(set(odd) - set(ODDITIES)):
        raise ScriptError(f"odd: expected {', '.join(ODDITIES)}, got {', '.join(unknown)}")
    return Script(scenes=scenes, odd=odd)


def written(script: Script) -> str:
    """The script as JSON, for a process that `parsed` reads it in."""
    scenes = [{"match": one.match, "turns": one.turns} for one in script.scenes]
    return json.dumps({"scenes": scenes, "odd": dict(script.odd)})
