"""transformers' `from_pretrained` without a hub: published sizes, random weights.
transformers itself is made up here, because it need not be installed; with it,
`tests/bench/sweep.py --levels 4` says.
"""

import json
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from workers.backends.support import import_hook
from workers.protocol import layout, pretrained
from workers.shims import calls


class PreTrainedConfig:
    """The part of transformers' class that matters here."""

    __module__ = "transformers.configuration_utils"

    def __init__(self, model_type: str = "", **fields: Any) -> None:
        self.fields = {"model_type": model_type, **fields}

    def to_json_string(self, *, use_diff: bool) -> str:
        assert not use_diff
        return json.dumps(self.fields)


class AutoConfig:
    @classmethod
    def for_model(cls, model_type: str, **fields: Any) -> PreTrainedConfig:
        return PreTrainedConfig(model_type, **fields)


class Drawn(torch.nn.Module):
    def __init__(self, config: PreTrainedConfig, dtype: torch.dtype) -> None:
        super().__init__()
        self.config = config
        self.weight = torch.nn.Parameter(torch.randn(4, dtype=dtype))
        self.dropout = torch.nn.Dropout(0.5)


class _BaseAutoModelClass:
    @classmethod
    def from_config(cls, config: PreTrainedConfig, **given: Any) -> Drawn:
        return Drawn(config, **given)


class PreTrainedModel:
    _from_config = _BaseAutoModelClass.from_config


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    module, factory = (
        types.ModuleType("transformers"),
        types.ModuleType("transformers.models.auto.auto_factory"),
    )
    names = {
        "AutoConfig": AutoConfig,
        "PretrainedConfig": PreTrainedConfig,
        "PreTrainedModel": PreTrainedModel,
    }
    for name, value in {
        **names,
        "AutoModelForCausalLM": type("Auto", (_BaseAutoModelClass,), {}),
    }.items():
        setattr(module, name, type(name, (value,), {}))
    factory._BaseAutoModelClass = _BaseAutoModelClass  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", module)
    monkeypatch.setitem(sys.modules, "transformers.models.auto.auto_factory", factory)
    monkeypatch.setenv("EVALUATION_DEVICE", "cpu")
    monkeypatch.setattr(_BaseAutoModelClass, "from_pretrained", None, raising=False)
    import_hook.once_imported("transformers", pretrained.offline)
    return module


def test_a_published_name_has_its_sizes_and_random_fp32_weights(transformers: Any) -> None:
    config = transformers.AutoConfig.from_pretrained("facebook/opt-1.3b", trust_remote_code=True)
    assert config.fields["model_type"] == "opt"
    assert config.fields["num_hidden_layers"] == 24
    model = transformers.AutoModelForCausalLM.from_pretrained("facebook/opt-1.3b", config=config)
    assert model.config is config
    assert model.weight.dtype == torch.float32
    assert not model.training
    assert transformers.PreTrainedModel.from_pretrained("gpt2").config.fields == {
        "model_type": "gpt2"
    }


def test_an_estimate_of_memory_takes_none(transformers: Any) -> None:
    """The largest model has 10.6 GB of weights, and nothing is reserved for an estimate."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_pretrained("gpt2")
    assert model.weight.is_meta


def test_another_name_is_refused_with_those_that_are_known(transformers: Any) -> None:
    with pytest.raises(
        pretrained.UnknownPretrainedError, match=r"meta/llama.*has no network.*gpt2"
    ):
        transformers.AutoConfig.from_pretrained("meta/llama")


def test_a_configuration_travels_as_a_constructor_argument(transformers: Any) -> None:
    config = transformers.AutoConfig.from_pretrained("gpt2")
    node = layout.check(json.loads(json.dumps(layout.describe([["gpt2", config], {}]))))
    (name, again), _ = layout.rebuild(node, iter(()))
    assert name == "gpt2"
    assert again.fields == config.fields
    assert list(layout.values([["gpt2", config], {}])) == list(layout.leaves(node)) == []


@pytest.mark.parametrize("value", [None, 3, "x" * (pretrained.MAX_CONFIG_CHARS + 1)])
def test_what_is_no_configuration_is_refused(value: object) -> None:
    with pytest.raises(layout.UnsupportedError, match="configuration"):
        layout.check({"kind": "config", "value": value})


@pytest.mark.parametrize("text", ["[]", "{}", '{"model_type": 3}'])
def test_a_configuration_without_a_type_is_refused(transformers: Any, text: str) -> None:
    with pytest.raises(ValueError, match="model_type"):
        pretrained.unpacked(text)


def test_parts_in_eval_mode_stay_so_in_a_model_in_train_mode() -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.5).eval())
    calls.set_mode(model, training=True)
    assert model.training
    assert not model[0].training
    model.eval()
    calls.set_mode(model, training=True)
    assert model[0].training
    calls.set_mode(model, training=False)
    assert not model.training
