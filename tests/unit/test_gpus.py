"""GPUs as nvidia-smi lists them, with one that only pretends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app import gpus
from app.cli import up
from app.domain.device import slots_worth
from app.embedded import commands
from app.settings import Settings

FOUR = """0, GPU-aaaa1111-0, NVIDIA H200
1, GPU-bbbb2222-0, NVIDIA H200
2, GPU-cccc3333-0, NVIDIA A100-SXM4-80GB
3, GPU-dddd4444-0, Strange, Inc. H100
"""
THREE = FOUR.rsplit("3, ", 1)[0]

Smi = Callable[..., None]


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    """`smi(text, code)`: output and exit code of the only nvidia-smi on PATH."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def say(text: str = THREE, code: int = 0) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {code}\n")
        program.chmod(0o755)

    return say


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "gpu"),
    ],
)
def test_the_class_is_in_the_name(name: str, expected: str) -> None:
    assert gpus.Gpu(index=0, uuid="", name=name).device_class == expected


def test_every_gpu_is_listed(smi: Smi) -> None:
    smi(FOUR)
    assert [(gpu.index, gpu.uuid, gpu.device_class) for gpu in gpus.listed()] == [
        (0, "GPU-aaaa1111-0", "h200"),
        (1, "GPU-bbbb2222-0", "h200"),
        (2, "GPU-cccc3333-0", "a100"),
        (3, "GPU-dddd4444-0", "h100"),
    ]


def test_no_driver_is_no_gpu(smi: Smi) -> None:
    assert gpus.listed() == []  # no nvidia-smi, unless this machine has one in /usr/bin
    smi("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9)
    assert gpus.listed() == []


def test_a_driver_that_fails_is_an_error(smi: Smi) -> None:
    """Else the CPU would be served in its place."""
    smi("Failed to initialize NVML: Driver/library version mismatch\n", 18)
    with pytest.raises(gpus.NvidiaSmiError, match=r"exit code 18: Failed .* version mismatch"):
        gpus.visible()


def test_an_unexpected_answer_is_an_error(smi: Smi) -> None:
    smi("0, NVIDIA H200\n")
    with pytest.raises(
        gpus.NvidiaSmiError, match="expected 'index, uuid, name', got '0, NVIDIA H200'"
    ):
        gpus.listed()


@pytest.mark.parametrize(
    ("allowed", "seen"),
    [
        ("0,2", [0, 2]),
        ("1", [1]),
        ("GPU-bbbb", [1]),
        ("GPU-cccc3333-0, 0", [0, 2]),
        ("", []),
        ("-1", []),
        ("7", []),
    ],
)
def test_only_what_cuda_may_see_is_visible(
    smi: Smi, monkeypatch: pytest.MonkeyPatch, allowed: str, seen: list[int]
) -> None:
    smi()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", allowed)
    assert [gpu.index for gpu in gpus.visible()] == seen


def test_a_worker_sees_its_gpu_and_no_other(smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpus.binding(1) == {"CUDA_VISIBLE_DEVICES": "1"}
    smi()
    assert gpus.binding(1) == {"CUDA_VISIBLE_DEVICES": "GPU-bbbb2222-0"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert gpus.binding(1) == {"CUDA_VISIBLE_DEVICES": "GPU-bbbb2222-0"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert gpus.binding(3) == {"CUDA_VISIBLE_DEVICES": "0"}


def test_the_environment_of_a_worker(smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    smi()
    gpu = commands.worker_environment(Settings(device_class="a100", device_index=2))
    assert gpu["CUDA_VISIBLE_DEVICES"] == "GPU-cccc3333-0"
    assert Settings.from_env(_assays(gpu)).concurrency == 8
    cpu = commands.worker_environment(Settings())
    assert "CUDA_VISIBLE_DEVICES" not in cpu
    assert Settings.from_env(_assays(cpu)).concurrency == 1
    assert commands.worker_environment(Settings(slots=2))["ASSAY_SLOTS"] == "2"


def _assays(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("ASSAY_")}


@pytest.mark.parametrize(
    ("device_class", "slots"),
    [("cpu", 1), ("h200", 8), ("h100", 8), ("b200", 8), ("t4", 2), ("gpu", 4)],
)
def test_a_worker_has_as_many_slots_as_its_device_is_worth(device_class: str, slots: int) -> None:
    assert Settings(device_class=device_class).concurrency == slots
    assert (
        Settings.from_env({"ASSAY_SLOTS": "auto", "ASSAY_DEVICE_CLASS": device_class}).concurrency
        == slots
    )
    assert (
        Settings.from_env({"ASSAY_SLOTS": "3", "ASSAY_DEVICE_CLASS": device_class}).concurrency == 3
    )


def test_assay_up_gives_each_gpu_what_was_asked_for_else_what_it_is_worth(smi: Smi) -> None:
    smi()
    worth = [
        Settings(device_class=each.device_class, slots=each.slots).concurrency
        for each in up.devices(Settings())
    ]
    assert worth == [slots_worth(each.device_class) for each in up.devices(Settings())]
    assert max(worth) == 8
    assert {each.slots for each in up.devices(Settings(slots=2))} == {2}
    assert {each.slots for each in up.devices(Settings(slots=2), 5)} == {5}
