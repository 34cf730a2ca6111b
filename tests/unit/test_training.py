"""Losses and mismatch correction: values and gradients of the references' own code;
traps that their users met.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from workers.training import losses, mismatch
from workers.training.aggregate import Aggregation, aggregate

VECTORS = json.loads((Path(__file__).parent / "loss_vectors.json").read_text())
NEAR: dict[str, Any] = {"atol": 1e-6, "rtol": 1e-6}
TRAJECTORY = torch.tensor([0, 0, 0, 1, 1, 1])


def tensor(values: list) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


BATCHES = [{name: tensor(values) for name, values in batch.items()} for batch in VECTORS["batches"]]
KINDS = {
    "clip": losses.Clip,
    "weight": losses.Weight,
    "regulariser": losses.Regulariser,
    "divergence": losses.Divergence,
}


def named(kind: str, *keys: str) -> list:
    return [
        pytest.param(one, id="-".join([str(at), *(str(one.get(key)) for key in keys)]))
        for at, one in enumerate(VECTORS[kind])
    ]


def loss_of(
    name: str, log_prob: torch.Tensor, batch: dict[str, torch.Tensor], args: dict
) -> torch.Tensor:
    given = {key: KINDS[key](value) if key in KINDS else value for key, value in args.items()}
    function = getattr(losses, name)
    if name == "opmd":
        return function(log_prob, batch["advantages"], batch["mask"], **given)
    return function(log_prob, batch["old"], batch["advantages"], batch["mask"], **given)


@pytest.mark.parametrize("case", named("losses", "loss"))
def test_losses_and_gradients_are_those_of_the_reference(case):
    batch, args = BATCHES[case["batch"]], dict(case["args"])
    mode, divisor = args.pop("mode"), None
    if mode == "seq-mean-token-mean-all":  # Trinity-RFT counts rows without tokens
        mode, divisor = "seq-mean-token-mean", len(batch["mask"])
    log_prob = batch["new"].clone().requires_grad_()
    loss = aggregate(
        loss_of(case["loss"], log_prob, batch, args),
        batch["mask"],
        Aggregation(mode),
        divisor=divisor,
    )
    loss.backward()
    torch.testing.assert_close(loss.detach(), tensor(case["value"]), **NEAR)
    torch.testing.assert_close(log_prob.grad, tensor(case["gradient"]), **NEAR)


@pytest.mark.parametrize("case", named("aggregates", "mode"))
def test_aggregation_is_that_of_kernelgym(case):
    batch = BATCHES[case["batch"]]
    got = aggregate(batch["new"], batch["mask"], Aggregation(case["mode"]), scale=case["scale"])
    torch.testing.assert_close(got, tensor(case["value"]), **NEAR)


@pytest.mark.parametrize("case", named("rejection", "level", "upper"))
def test_rejection_is_that_of_kernelgym(case):
    batch = BATCHES[case["batch"]]
    got = mismatch.rejection_mask(
        batch["old"] - batch["rollout"],
        batch["mask"],
        level=mismatch.Level(case["level"]),
        upper=case["upper"],
        lower=case["lower"],
        trajectory=TRAJECTORY,
    )
    assert got.tolist() == case["mask"]


@pytest.mark.parametrize("case", named("weights", "level", "upper"))
def test_weights_are_those_of_kernelgym_and_verl(case):
    batch = BATCHES[case["batch"]]
    given = {"level": mismatch.Level(case["level"]), "upper": case["upper"]}
    given["trajectory"] = TRAJECTORY if case["trajectories"] else None
    function = mismatch.icepop_weights if "lower" in case else mismatch.importance_weights
    if "lower" in case:
        given["lower"] = case["lower"]
    got = function(batch["old"] - batch["rollout"], batch["mask"], **given)
    torch.testing.assert_close(got, tensor(case["weights"]), **NEAR)


@pytest.mark.parametrize("case", named("metrics"))
def test_metrics_are_those_of_kernelgym(case):
    batch = BATCHES[case["batch"]]
    assert mismatch.metrics(batch["old"], batch["rollout"], batch["mask"]) == pytest.approx(
        case["metrics"], abs=1e-6
    )


def test_topr_tapers_whole_rows_of_bad_answers_only():
    log_prob = tensor([[-1.0, -2.0], [-1.0, -2.0]]).requires_grad_()
    behaviour = tensor([[-0.5, -1.0], [-0.5, -1.0]])
    mask, rewards = torch.ones(2, 2, dtype=torch.float64), tensor([[1.0], [-1.0]])
    losses.topr(log_prob, behaviour, rewards, mask).sum().backward()
    taper = math.exp(-1.5)  # the row's product, once; a good answer keeps weight 1
    torch.testing.assert_close(log_prob.grad, tensor([[-1.0, -1.0], [taper, taper]]))
    more_likely = losses.topr(log_prob, behaviour - 5, rewards, mask)
    torch.testing.assert_close(more_likely.detach()[1], log_prob.detach()[1])  # never above 1


def test_geometric_rejection_passes_while_the_veto_fires():
    ratio = torch.full((1, 1000), 1e-5, dtype=torch.float64)
    ratio[0, 0] = math.log(0.9e-4)
    ratio[0, 1:] -= ratio.mean()
    mask = torch.ones_like(ratio)
    assert mismatch.rejection_mask(ratio, mask).sum() == 1000
    assert mismatch.veto_mask(ratio, mask).sum() == 0


def test_the_veto_is_per_row_and_strict():
    ratio = tensor([[0.0, math.log(1e-4)], [0.0, math.log(1e-4) - 1e-6]])
    assert mismatch.veto_mask(ratio, torch.ones_like(ratio)).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    masked = tensor([[1.0, 1.0], [1.0, 0.0]])
    assert mismatch.veto_mask(ratio, masked).tolist() == masked.tolist()


def test_the_direction_of_ratios_is_train_over_rollout():
    more_likely = torch.full((1, 4), 1e-2, dtype=torch.float64)
    mask = torch.ones_like(more_likely)
    assert mismatch.rejection_mask(more_likely, mask, lower=0.5, upper=1.0).sum() == 0
    assert mismatch.rejection_mask(-more_likely, mask, lower=0.5, upper=1.0).sum() == 4


def test_a_long_row_fails_a_product_that_a_geometric_mean_passes():
    ratio = torch.full((1, 4000), 5e-4, dtype=torch.float64)
    mask = torch.ones_like(ratio)
    assert mismatch.rejection_mask(ratio, mask, level=mismatch.Level.SEQUENCE, upper=3.0).sum() == 0
    assert mismatch.rejection_mask(ratio, mask).sum() == 4000


def test_a_divisor_of_trajectories_does_not_depend_on_rows():
    values, mask = torch.ones(3, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.float64)
    mode = Aggregation.SEQ_MEAN_TOKEN_SUM
    assert aggregate(values, mask, mode) == 2
    assert aggregate(values, mask, mode, divisor=2) == 3
    assert aggregate(values, mask * 0, mode) == 0


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda x: mismatch.rejection_mask(x, x, upper=0.5, lower=1.0),
            "expected 0 <= lower <= upper",
        ),
        (lambda x: mismatch.veto_mask(x, x, below=0.0), "expected more than 0, got 0.0"),
        (lambda x: mismatch.importance_weights(x, x, upper=-1.0), "expected more than 0, got -1.0"),
        (
            lambda x: mismatch.icepop_weights(x, x, lower=2.0, upper=1.0),
            "expected 0 <= lower <= upper",
        ),
        (lambda x: mismatch.metrics(x, x, x * 0), "expected at least one token"),
        (lambda x: losses.ppo_dual_clip(x, x, x, x, dual=1.0), "expected more than 1, got 1.0"),
    ],
)
def test_bad_arguments_are_named(call, expected):
    with pytest.raises(ValueError, match=expected.replace(".", r"\.")):
        call(torch.zeros(1, 1))
