"""verl without a GPU, for dry runs of a configuration: the platform `cpu` and the
rollout engine `transformers`.

    export VERL_USE_EXTERNAL_MODULES=workers.training.verl_cpu
    python -m verl.trainer.main_ppo --config-dir workers/training/recipes
    --config-name verl_dry_run …

verl 0.9.1 has platforms for accelerators alone, and engines (vLLM, SGLang, TensorRT-LLM) that want
one.  The engine here is the model itself, sampled by `generate` one request at a time: good for
small models.  Needs verl; importing this module replaces the platform of the process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import ray
import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import set_platform
from verl.utils import distributed, import_utils

NAME = "transformers"
"""Value of `actor_rollout_ref.rollout.name`."""


class _Device(ModuleType):
    """`torch.cpu` with the functions that verl asks of every accelerator; memory is
    not measured.
    """

    def __getattr__(self, name: str) -> Any:
        if name in (
            "max_memory_allocated",
            "max_memory_reserved",
            "memory_allocated",
            "memory_reserved",
        ):
            return lambda *_: 0
        if name in ("empty_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats"):
            return lambda *_: None
        if name == "mem_get_info":
            return lambda *_: (0, 0)
        if name == "get_device_name":
            return lambda *_: "CPU"
        return getattr(torch.cpu, name)


class CpuPlatform(PlatformBase):  # type: ignore[misc]  # verl has no types
    """Processor cores in the place of an accelerator."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _Device("cpu")

    def is_available(self) -> bool:
        """Always."""
        return True

    def current_device(self) -> Any:
        """A device, not its number: verl moves tensors to it."""
        return torch.device("cpu")

    def device_count(self) -> int:
        """One place for each process."""
        return 1

    def set_device(self, device_index: int) -> None:
        """Nothing to select."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing to wait for."""

    def manual_seed(self, seed: int) -> None:
        """Seed the process."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """The same."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """The allocator has none."""

    def empty_cache(self) -> None:
        """There is no cache."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:  # noqa: ARG002
        """None: no CUDA version."""
        return None, None

    def communication_backend_name(self) -> str:
        """Backend of torch.distributed."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """Variable that Ray sets; read by nothing here."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:  # noqa: ARG002
        """No profile."""
        yield

    def profiler_start(self) -> None:
        """Not supported."""

    def profiler_stop(self) -> None:
        """Not supported."""

    def ray_resource_name(self) -> str:
        """Places that `ray_init.num_gpus` makes up, because verl counts no other resource."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """None."""
        return []

    def is_ipc_supported(self) -> bool:
        """No device memory to share."""
        return False

    def cudart(self) -> None:
        """None."""


set_platform(CpuPlatform())
os.environ.setdefault(
    "VERL_ENGINE_DEVICE", "cuda"
)  # the training engines are registered for accelerators alone
# verl joins "cpu:gloo" and the platform's own, which PyTorch refuses where both are the CPU's.
distributed.initialize_global_process_group_ray = partial(
    distributed.initialize_global_process_group_ray, backend="gloo"
)
# verl's model patch imports a class of TRL that TRL 1.16 does not have; without TRL
# it leaves that part out.
import_utils.is_trl_available = lambda: False

# Modules that read the platform when they are imported.
from verl.workers.rollout import base, replica  # noqa: E402


class Engine:
    """A model that answers, in a Ray actor of its own.  `path`: folder of the model."""

    def __init__(self, path: str) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self._step: int | None = None
        self._turn = asyncio.Lock()

    async def generate(
        self, prompt_ids: list[int], sampling_params: Mapping[str, Any], **_: Any
    ) -> Any:
        """Tokens of an answer with their log-probabilities, and the training step
        that the weights are of.
        """
        async with self._turn:
            ids, logprobs = await asyncio.to_thread(self._sampled, prompt_ids, sampling_params)
        said = {"token_ids": ids, "log_probs": logprobs, "stop_reason": "completed"}
        return replica.TokenOutput(**said, extra_fields={"global_steps": self._step})

    def _sampled(
        self, prompt_ids: list[int], how: Mapping[str, Any]
    ) -> tuple[list[int], list[float]]:
        warm = how.get("temperature", 1.0) > 0
        drawn = (
            {"temperature": how.get("temperature", 1.0), "top_p": how.get("top_p", 1.0)}
            if warm
            else {}
        )
        config = GenerationConfig(
            do_sample=warm,
            top_k=max(0, how.get("top_k", 0)) if warm else None,
            max_new_tokens=how.get("max_tokens", how.get("max_new_tokens", 1024)),
            eos_token_id=self._model.config.eos_token_id,
            pad_token_id=self._model.config.pad_token_id,
            output_scores=True,
            return_dict_in_generate=True,
            **drawn,
        )
        given = torch.tensor([prompt_ids])
        with torch.inference_mode():
            made = self._model.generate(
                given, attention_mask=torch.ones_like(given), generation_config=config
            )
        ids = made.sequences[0, len(prompt_ids) :].tolist()
        logprobs = [
            float(row[0].log_softmax(-1)[token])
            for row, token in zip(made.scores, ids, strict=True)
        ]
        return ids, logprobs

    async def take(self, weights: Mapping[str, torch.Tensor], step: int | None) -> None:
        """New weights; `step` is the training step that made them."""
        async with self._turn:
            self._model.load_state_dict(weights, strict=False)
            self._step = step

    async def wake_up(self) -> None:
        """Nothing to restore."""

    async def sleep(self) -> None:
        """Nothing to free."""

    async def clear_kv_cache(self) -> None:
        """There is no cache between requests."""

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Requests end by themselves."""

    async def resume_generation(self) -> None:
        """Nothing was aborted."""


class Replica(replica.RolloutReplica):  # type: ignore[misc]
    """The engine of one training process."""

    async def launch_servers(self) -> None:
        """Start the actor."""
        name = _actor(self.replica_rank)
        path = self.model_config.path
        self._server_handle = ray.remote(Engine).options(name=name, num_cpus=0).remote(path)
        self._server_address = name
        self.servers = [self._server_handle]


class Weights(base.BaseRollout):  # type: ignore[misc]
    """The training process's side of the engine: hands over the weights."""

    async def resume(self, tags: list[str]) -> None:
        """Nothing to restore."""

    async def release(self) -> None:
        """Nothing to free."""

    async def update_weights(
        self, weights: Any, *_: Any, global_steps: int | None = None, **__: Any
    ) -> None:
        """Send all weights to the engine."""
        found = {name: tensor.detach().clone() for name, tensor in weights}
        await ray.get_actor(_actor(torch.distributed.get_rank())).take.remote(found, global_steps)


def _actor(rank: int) -> str:
    return f"transformers_{rank}"


replica.RolloutReplicaRegistry.register(NAME, lambda: Replica)
base._ROLLOUT_REGISTRY[NAME, "async"] = f"{__name__}.{Weights.__name__}"
