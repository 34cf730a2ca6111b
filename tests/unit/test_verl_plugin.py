"""Advantage estimators in verl's layout: one row per trajectory, observations masked."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from app.domain import credit
from app.domain.credit import METHODS, MethodOptions, Turn
from workers.training import verl_plugin

ROOT = Path(__file__).parents[2]

MASK = torch.tensor(
    [
        [1, 1, 0, 1, 0, 1, 1, 1],  # three turns
        [1, 0, 0, 1, 1, 0, 0, 0],  # two
        [1, 1, 1, 1, 0, 0, 0, 0],  # one
        [1, 0, 1, 0, 0, 0, 0, 0],  # two, of another prompt
    ],
    dtype=torch.float64,
)
REWARDS = torch.zeros_like(MASK)
REWARDS[0, 1], REWARDS[0, 3], REWARDS[0, 7] = 0.5, 0.0, 2.0
REWARDS[1, 0], REWARDS[1, 4] = 1.0, 3.0
REWARDS[2, 3] = 1.5
REWARDS[3, 1], REWARDS[3, 2] = 0.25, 1.0  # the first on the observation behind its turn
INDEX = np.array(["p", "p", "p", "q"], dtype=object)
TURNS = [
    (0, (0, 2), 0.5),
    (0, (3, 4), 0.0),
    (0, (5, 8), 2.0),
    (1, (0, 1), 1.0),
    (1, (3, 5), 3.0),
    (2, (0, 4), 1.5),
]
TURNS += [(3, (0, 1), 0.25), (3, (2, 3), 1.0)]


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"grpo_passk", "grpo_passk_no_std"}))
def test_every_method_gives_its_turns_tokens_their_credit(method):
    positions: dict[int, int] = {}
    turns = []
    for row, (start, end), reward in TURNS:
        positions[row] = positions.get(row, 0) + 1
        turns.append(
            Turn(
                group=INDEX[row],
                trajectory=row,
                index=positions[row],
                reward=reward,
                tokens=end - start,
            )
        )
    expected = torch.zeros_like(MASK)
    for (row, (start, end), _), one in zip(
        TURNS, credit.advantages(turns, method, MethodOptions(gamma=0.5)), strict=True
    ):
        expected[row, start:end] = one.advantage
    got, returns = verl_plugin.estimator(method)(REWARDS, MASK, INDEX, config={"gamma": 0.5})
    torch.testing.assert_close(got, expected)
    assert (got * (1 - MASK)).abs().sum() == 0
    if METHODS[method].score == "return-to-go":
        assert returns[0, 0] == 0.5 + 0.5 * (0.0 + 0.5 * 2.0)


def test_nan_is_a_missing_reward():
    rewards = REWARDS.clone()
    rewards[0, 7] = math.nan
    advantages, _ = verl_plugin.estimator("trloo")(rewards, MASK, INDEX)
    assert advantages[0].abs().sum() == 0  # all its returns need the last reward
    assert advantages[1, 0] == pytest.approx(4.0 - 1.5)
    assert not advantages.isnan().any()


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="expected rewards and mask of one shape"):
        verl_plugin.estimator("trloo")(REWARDS, MASK[:, :3], INDEX)
    with pytest.raises(credit.CreditError, match="unknown method 'gropo'"):
        verl_plugin.estimator("gropo")


def test_verl_finds_the_estimators():
    core = pytest.importorskip("verl.trainer.ppo.core_algos")
    names = verl_plugin.register()
    assert names == verl_plugin.register()  # twice is harmless
    found = core.get_adv_estimator_fn("assay_trloo")
    torch.testing.assert_close(
        found(token_level_rewards=REWARDS, response_mask=MASK, index=INDEX, config={"gamma": 1.0})[
            0
        ],
        verl_plugin.estimator("trloo")(REWARDS, MASK, INDEX)[0],
    )
    rloo = core.get_adv_estimator_fn("rloo")(REWARDS.clone(), MASK, INDEX)[0]
    torch.testing.assert_close(found_rloo(core), rloo)


def test_verl_loads_it_by_entry_point(tmp_path):
    pytest.importorskip("verl")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "verl.plugins"
    ]
    folder = tmp_path / "sample-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: sample\nVersion: 1\n")
    listed = "".join(f"{name} = {module}\n" for name, module in points.items())
    (folder / "entry_points.txt").write_text(f"[verl.plugins]\n{listed}")
    program = (
        "import verl; from verl.trainer.ppo.core_algos import get_adv_estimator_fn as f;"
        " print(f('assay_trloo'))"
    )
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "compute" in ran.stdout


def found_rloo(core) -> torch.Tensor:
    return core.get_adv_estimator_fn("assay_rloo")(REWARDS, MASK, INDEX, config={"gamma": 1.0})[0]
