"""One step of TRL's GRPO on the CPU: a random model of a few thousand weights, a
vocabulary of letters.
"""

from __future__ import annotations

import string
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any


def step(reward_funcs: list[Callable[..., Any]], reference: str, folder: Path) -> dict[str, float]:
    """Figures that the trainer logged for its first step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _step(reward_funcs, reference, folder)


def tokenizer(*, generation: bool = False) -> Any:
    """A token a letter, with a chat template that wants no more than roles and contents.

    `generation`: the template marks answers as generated."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(
        models.WordLevel({letter: index for index, letter in enumerate(_LETTERS)}, unk_token=" ")
    )
    raw.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    raw.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        eos_token="<eos>",
        padding_side="left",
        chat_template=_MARKED if generation else _TEMPLATE,
    )


def model() -> Any:
    """Random weights."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(_LETTERS),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=0,
            eos_token_id=1,
        )
    )


_LETTERS = ["<pad>", "<eos>", *string.printable]
_TEMPLATE = (
    "{% for one in messages %}{{ one.role }}: {{ one.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)

_MARKED = (
    "{% for one in messages %}{{ one.role }}: {% if one.role == 'assistant' %}{% generation %}{{"
    " one.content }}{{ eos_token }}{% endgeneration %}{% else %}{{ one.content }}{{ eos_token }}{%"
    " endif %}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)


def _step(reward_funcs: list[Callable[..., Any]], reference: str, folder: Path) -> dict[str, float]:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    trainer = GRPOTrainer(
        model(),
        reward_funcs=reward_funcs,
        processing_class=tokenizer(),
        train_dataset=Dataset.from_list([{"prompt": "go", "reference": reference}] * 2),
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=1,
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=4,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
        ),
    )
    trainer.train()
    return {name: value for entry in trainer.state.log_history for name, value in entry.items()}
