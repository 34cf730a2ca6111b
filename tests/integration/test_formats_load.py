"""Small datasets of every layout, read by the libraries that they are for, where those are installed.

`pip install '.[trainers]'` brings TRL and verl; LLaMA-Factory wants an environment of its own, because it pins other
versions of what TRL needs.  Without `datasets` nothing of this runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dataset_seed
import pytest
import tiny_trainer

from app import export, formats
from app.domain.near_duplicates import Similarity
from app.embedded import Services
from app.export import Spec
from app.export.files import rows_of
from app.formats import PARQUET

pytestmark = pytest.mark.filterwarnings("ignore")  # of other people's packages

Make = Callable[[str], Path]


@pytest.fixture(scope="module", autouse=True)
def datasets() -> Any:
    return pytest.importorskip("datasets")


@pytest.fixture(scope="module")
def make(datasets: Any, services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """The dataset of that format, made when it is first asked for."""
    root = tmp_path_factory.mktemp("formats")
    with dataset_seed.filled(services) as database:

        def one(name: str) -> Path:
            if not (root / name).exists():
                export.export(database, Spec(format=name, similarity=Similarity.RAW, val_fraction=0.4), root / name)
            return root / name

        yield one


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / export.manifest.NAME).read_text())
    return found


def files(folder: Path, split: str = "train") -> list[str]:
    found = [str(path) for path in sorted(folder.glob(f"data/{split}*"))]
    assert found
    return found


@pytest.mark.parametrize("name", formats.BUILTIN)
def test_datasets_reads_the_folder_by_its_card(datasets: Any, make: Make, tmp_path: Path, name: str) -> None:
    folder = make(name)
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path))
    assert {split: len(rows) for split, rows in loaded.items()} == manifest(folder)["split"]
    for split, rows in loaded.items():
        assert rows.column_names == formats.find(name).schema.names
        if formats.find(name).container == PARQUET:
            assert "null" not in str(rows.features)
            assert list(rows) == [row for file in files(folder, split) for row in rows_of(Path(file))]


@pytest.fixture
def rows(datasets: Any, make: Make, tmp_path: Path) -> Callable[[str], Any]:
    """The training rows of a format, as `datasets` gives them to TRL."""
    return lambda name: datasets.load_dataset(str(make(name)), cache_dir=str(tmp_path / "cache"))["train"]


@pytest.mark.parametrize(
    ("trainer", "name"),
    [
        ("SFT", "trl_sft"),
        ("SFT", "trl_prompt_completion"),
        ("DPO", "trl_preference"),
        ("KTO", "trl_kto"),
        ("GRPO", "trl_prompts"),
    ],
)
def test_trl_takes_a_step(rows: Callable[[str], Any], tmp_path: Path, trainer: str, name: str) -> None:
    trl = pytest.importorskip("trl", minversion="1.0")
    options: dict[str, Any] = {"output_dir": str(tmp_path), "max_steps": 1, "use_cpu": True, "bf16": False}
    options |= {"report_to": [], "logging_steps": 1, "per_device_train_batch_size": 2}
    more: dict[str, Any] = {}
    if trainer in ("DPO", "KTO"):
        more["ref_model"] = tiny_trainer.model()
    elif trainer == "GRPO":
        options |= {"num_generations": 2, "max_completion_length": 4}
        more["reward_funcs"] = [lambda completions, reference_code, **_: [float(len(one)) for one in reference_code]]
    made = getattr(trl, f"{trainer}Trainer")(
        tiny_trainer.model(),
        args=getattr(trl, f"{trainer}Config")(**options),
        train_dataset=rows(name),
        processing_class=tiny_trainer.tokenizer(),
        **more,
    )
    made.train()
    assert "loss" in made.state.log_history[0]


def test_verl_learns_answers_and_nothing_else(make: Make) -> None:
    module = pytest.importorskip("verl.utils.dataset.multiturn_sft_dataset")
    config = pytest.importorskip("omegaconf").OmegaConf.create({"max_length": 8192, "pad_mode": "no_padding"})
    tokenizer = tiny_trainer.tokenizer()
    paths = files(make("verl_sft"))
    found = module.MultiTurnSFTDataset(paths, tokenizer, config)
    stored = [row for file in paths for row in rows_of(Path(file))]
    assert len(found) == len(stored)
    for item, row in zip((found[place] for place in range(len(found))), stored, strict=True):
        learnt = tokenizer.decode(item["input_ids"][item["loss_mask"].bool()])
        answers = [one["content"] for one in row["messages"] if one["role"] == "assistant"]
        assert all(answer in learnt for answer in answers)
        assert row["messages"][0]["content"] not in learnt


@pytest.mark.parametrize("name", ["verl_rl", "drkernel_rl"])
def test_verl_reads_prompts(make: Make, tmp_path: Path, name: str) -> None:
    module = pytest.importorskip("verl.utils.dataset.rl_dataset")
    config = {"cache_dir": str(tmp_path), "max_prompt_length": 8192, "return_raw_chat": True}
    config = pytest.importorskip("omegaconf").OmegaConf.create(config)
    paths = files(make(name))
    found = module.RLHFDataset(paths, tiny_trainer.tokenizer(), config)
    stored = [row for file in paths for row in rows_of(Path(file))]
    assert len(found) == len(stored)
    for item, row in zip((found[place] for place in range(len(found))), stored, strict=True):
        assert list(item["raw_prompt"]) == row["prompt"]
        assert item["reward_model"]["ground_truth"] == row["reward_model"]["ground_truth"]
        assert item["extra_info"] == row["extra_info"]


@pytest.mark.parametrize(
    ("stage", "name", "known_as"),
    [
        ("sft", "llamafactory_sft", "kernels_sft"),
        ("rm", "llamafactory_preference", "kernels_dpo"),
        ("kto", "llamafactory_kto", "kernels_kto"),
    ],
)
def test_llamafactory_reads(make: Make, tmp_path: Path, stage: str, name: str, known_as: str) -> None:
    data = pytest.importorskip("llamafactory.data")
    hparams = pytest.importorskip("llamafactory.hparams")
    folder, tokenizer = make(name), tiny_trainer.tokenizer()
    wanted = hparams.DataArguments(
        dataset=known_as, dataset_dir=str(folder), template="default", cutoff_len=8192, preprocessing_num_workers=1
    )
    model = hparams.ModelArguments(model_name_or_path="none", cache_dir=str(tmp_path / "cache"))
    training = hparams.TrainingArguments(output_dir=str(tmp_path), report_to=[])
    template = data.get_template_and_fix_tokenizer(tokenizer, wanted)
    found = data.get_dataset(template, model, wanted, training, stage, tokenizer)["train_dataset"]
    assert len(found) == manifest(folder)["split"]["train"]
