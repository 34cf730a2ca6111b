"""EXPORT: formats of a dataset's rows for the libraries that read them: a file for each
trainer or way of marking loss, a line for each format.

A format is an object with the attributes of `Format`: a class in a module of this folder, an entry
in `BUILTIN`, or an entry point `assay.formats` of another package.
"""

from __future__ import annotations

from app import plugins
from app.formats import (
    drkernel,
    kernelbench,
    llamafactory,
    marked_messages,
    openai,
    openrlhf,
    rewards,
    rl_prompts,
    trl,
    verl,
)
from app.formats.base import JSONL, PARQUET, Format

__all__ = ["BUILTIN", "JSONL", "PARQUET", "Format", "find", "known"]

BUILTIN: dict[str, Format] = {
    "trl_sft": trl.TrlSft(),
    "trl_prompt_completion": trl.TrlSft(),
    "trl_sft_masked": trl.TrlSftMasked(),
    "trl_preference": trl.TrlPreference(),
    "trl_kto": trl.TrlKto(),
    "trl_prompts": trl.TrlPrompts(),
    "verl_sft": verl.VerlSft(),
    "verl_sft_masked": verl.VerlSftMasked(),
    "verl_rl": verl.VerlRl(),
    "openrlhf_sft": openrlhf.OpenRlhfSft(),
    "openrlhf_preference": openrlhf.OpenRlhfPreference(),
    "openrlhf_prompts": openrlhf.OpenRlhfPrompts(),
    "llamafactory_sft": llamafactory.LlamaFactorySft(),
    "llamafactory_preference": llamafactory.LlamaFactoryPreference(),
    "llamafactory_kto": llamafactory.LlamaFactoryKto(),
    "axolotl": marked_messages.AXOLOTL,
    "slime_sft": marked_messages.SLIME,
    "swift_sft": marked_messages.SWIFT,
    "tinker_sft": marked_messages.TINKER,
    "openai_sft": openai.OpenAiSft(),
    "openai_preference": openai.OpenAiPreference(),
    "slime_prompts": rl_prompts.SlimePrompts(),
    "skyrl_prompts": rl_prompts.SkyRlPrompts(),
    "nemo_gym_prompts": rl_prompts.NemoGymPrompts(),
    "nemo_gym_sessions": rl_prompts.NemoGymSessions(),
    "drkernel_coldstart": drkernel.DrKernelColdstart(),
    "drkernel_rl": drkernel.DrKernelRl(),
    "kernelbench_results": kernelbench.KernelBenchResults(),
    "rewards": rewards.Rewards(),
}


def known() -> dict[str, Format]:
    """Every format by name."""
    return plugins.extend("formats", BUILTIN)


def find(name: str) -> Format:
    """The format of that name; app.plugins.UnknownPluginError lists those that there are."""
    return plugins.find("formats", known(), name)
