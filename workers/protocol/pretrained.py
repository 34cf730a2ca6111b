"""EVALUATE: a replacement of transformers' `from_pretrained` for a problem's
processes, which have no network.

Models have the published architecture and sizes, and random fp32 weights under the constructor's
seed; a candidate receives the reference's weights like all parameters.  Learned weights would
change no shape and no launch, and hardly any time, so KernelBench's level 4 is evaluated without
its checkpoints.  Models are in eval mode, as with the original `from_pretrained`.

Tokenizers are not available; a name that `SIZES` lacks raises UnknownPretrainedError.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from types import ModuleType
from typing import Any

import torch

SIZES: dict[str, tuple[str, dict[str, Any]]] = {
    "EleutherAI/gpt-neo-2.7B": (
        "gpt_neo",
        {
            "hidden_size": 2560, "num_layers": 32, "num_heads": 20,
            "attention_types": [[["global", "local"], 16]],
            "embed_dropout": 0.0, "attention_dropout": 0.0, "resid_dropout": 0.0,
        },
    ),
    "facebook/bart-large": ("bart", {}),
    "facebook/opt-1.3b": (
        "opt",
        {
            "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32,
            "ffn_dim": 8192,
            "word_embed_proj_dim": 2048,
        },
    ),
    "google/bigbird-roberta-base": ("big_bird", {}),
    "google/electra-small-discriminator": ("electra", {}),
    "google/reformer-enwik8": (
        "reformer",
        {
            "attention_head_size": 128, "hidden_size": 1024, "num_attention_heads": 8,
            "feed_forward_size": 4096,
            "attn_layers": [*("local", "local", "lsh", "local") * 3], "vocab_size": 258,
            "num_buckets": 512,
            "num_hashes": 4, "axial_pos_shape": [128, 512], "axial_pos_embds_dim": [256, 768],
            "max_position_embeddings": 65536, "local_attn_chunk_length": 128,
            "lsh_attn_chunk_length": 256,
            "is_decoder": True, "hash_seed": None,
        },
    ),
    "gpt2": ("gpt2", {}),
}  # fmt: skip
"""Name → type of its model, and the fields of its published configuration that differ from that
type's defaults: all models of KernelBench's level 4.
"""

MAX_CONFIG_CHARS = 100_000
"""Length limit of a constructor's configuration argument, as JSON."""


class UnknownPretrainedError(LookupError):
    """Error: a model name that is not built in."""


def offline(_: ModuleType) -> None:
    """Replace every `from_pretrained` of configurations and models by the built-in sizes.  Called
    by `import_hook.once_imported("transformers", …)`.
    """
    transformers, factory = (
        _module("transformers"),
        _module("transformers.models.auto.auto_factory"),
    )
    transformers.AutoConfig.from_pretrained = staticmethod(_published)
    transformers.PretrainedConfig.from_pretrained = staticmethod(_published)
    transformers.PreTrainedModel.from_pretrained = classmethod(_model)
    factory._BaseAutoModelClass.from_pretrained = classmethod(_auto_model)


def is_config(value: object) -> bool:
    """Test whether the value is a configuration of transformers, without importing transformers."""
    return any(
        each.__name__ in ("PretrainedConfig", "PreTrainedConfig")
        and each.__module__.startswith("transformers.")
        for each in type(value).__mro__
    )


def packed(config: Any) -> str:
    """A configuration as JSON text, for another process."""
    return str(config.to_json_string(use_diff=False))


def unpacked(text: str) -> Any:
    """The configuration of a packed text.  Raises ValueError for any other text."""
    fields = json.loads(text)
    if not isinstance(fields, dict) or not isinstance(fields.get("model_type"), str):
        raise ValueError(f"expected a configuration with a model_type, got {text[:80]!r}")
    return _module("transformers").AutoConfig.for_model(fields.pop("model_type"), **fields)


def _module(name: str) -> Any:
    """The module, imported on demand, because that takes seconds and transformers
    may not be installed.
    """
    return importlib.import_module(name)


def _published(name: str | os.PathLike[str], *_: object, **__: object) -> Any:
    known = SIZES.get(str(name)) or SIZES.get(str(name).removeprefix("openai-community/"))
    if known is None:
        raise UnknownPretrainedError(
            f"from_pretrained({str(name)!r}): an evaluation has no network, and the built-in models"
            f" are {', '.join(SIZES)}"
        )
    model_type, fields = known
    return _module("transformers").AutoConfig.for_model(model_type, **fields)


def _auto_model(cls: type[Any], /, name: str, *_: object, config: Any = None, **__: object) -> Any:
    return _drawn(
        functools.partial(cls.from_config, config if config is not None else _published(name))
    )


def _model(cls: type[Any], /, name: str, *_: object, config: Any = None, **__: object) -> Any:
    return _drawn(
        functools.partial(cls._from_config, config if config is not None else _published(name))
    )


def _drawn(make: functools.partial[Any]) -> Any:
    """A model with random weights, created on the device: drawing gigabytes on the host takes a
    minute.  On the meta device, where memory is estimated, it has none (memory_estimate.py).
    """
    is_estimated = torch.get_default_device().type == "meta"
    with torch.device("meta" if is_estimated else os.environ.get("EVALUATION_DEVICE", "cpu")):
        return make(dtype=torch.float32).eval()
