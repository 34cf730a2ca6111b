"""Small datasets of every layout, read by the libraries that they are for, where
those are installed.

`pip install '.[trainers]'` brings TRL and verl; each of the others needs an environment of its own,
because they pin conflicting versions: app/export/README.md has the commands.  Nothing of theirs is
stubbed: their dataset readers can be imported without their GPU packages.  slime is on no registry:
its test needs a checkout on PYTHONPATH.  Without `datasets` nothing of this runs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app import export, formats
from app.domain.dataset.selection import Kind
from app.domain.source.near_duplicates import Similarity
from app.embedded import Services
from app.export import Spec
from app.export.writers import rows_of
from app.formats import PARQUET
from tests.integration import dataset_seed, tiny_trainer

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages

Make = Callable[..., Path]


@pytest.fixture(scope="module", autouse=True)
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """With a cache of its own: it takes two folders of one name, size and schema for the same."""
    module = pytest.importorskip("datasets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        yield module


@pytest.fixture(scope="module")
def make(
    datasets: Any, services: Services, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Make]:
    """The dataset of that format, made when it is first asked for."""
    root = tmp_path_factory.mktemp("formats")
    with dataset_seed.filled(services) as database:

        def one(name: str, kind: Kind | None = None, val_fraction: float = 0.4) -> Path:
            folder = root / f"{name}-{kind}"
            chosen = not (kind or formats.find(name).kinds[0]).takes_all
            spec = Spec(format=name, kind=kind, val_fraction=val_fraction)
            spec = replace(spec, similarity=Similarity.RAW) if chosen else spec
            if not folder.exists():
                export.export(database, spec, folder)
            return folder

        yield one


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / export.manifest.NAME).read_text())
    return found


def files(folder: Path, split: str = "train") -> list[str]:
    found = [str(path) for path in sorted(folder.glob(f"data/{split}*"))]
    assert found
    return found


def stored(folder: Path) -> list[dict[str, Any]]:
    """The training rows as they were written."""
    return [row for file in files(folder) for row in rows_of(Path(file))]


def side_by_side(found: Any, folder: Path) -> list[tuple[Any, dict[str, Any]]]:
    """Every training row as a library gives it, and as it was written."""
    rows = stored(folder)
    assert len(found) == len(rows)
    return [(found[place], row) for place, row in enumerate(rows)]


def answers(messages: list[dict[str, Any]]) -> list[str]:
    return [one["content"] for one in messages if one["role"] == "assistant"]


@pytest.mark.parametrize("name", formats.BUILTIN)
def test_datasets_reads_the_folder_by_its_card(
    datasets: Any, make: Make, tmp_path: Path, name: str
) -> None:
    folder = make(name)
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path))
    assert {split: len(rows) for split, rows in loaded.items()} == manifest(folder)["split"]
    for split, rows in loaded.items():
        assert rows.column_names == formats.find(name).schema.names
        if formats.find(name).container == PARQUET:
            assert "null" not in str(rows.features)
            assert list(rows) == [
                row for file in files(folder, split) for row in rows_of(Path(file))
            ]


def test_datasets_tells_exports_of_one_name_and_size_apart(
    datasets: Any, make: Make, services: Services, tmp_path: Path
) -> None:
    first = make("openrlhf_prompts")
    with dataset_seed.filled(services) as database:  # the same but for ids
        spec = Spec(format="openrlhf_prompts", val_fraction=0.4)
        export.export(database, spec, tmp_path / first.name)
    for folder in (first, tmp_path / first.name):
        assert list(datasets.load_dataset(str(folder))["train"]) == stored(folder)


@pytest.fixture
def rows(datasets: Any, make: Make, tmp_path: Path) -> Callable[[str], Any]:
    """The training rows of a format, as `datasets` gives them to TRL."""
    return lambda name: datasets.load_dataset(str(make(name)), cache_dir=str(tmp_path / "cache"))[
        "train"
    ]


@pytest.mark.parametrize(
    ("trainer", "name"),
    [
        ("SFT", "trl_sft"),
        ("DPO", "trl_preference"),
        ("KTO", "trl_kto"),
        ("GRPO", "trl_prompts"),
    ],
)
def test_trl_takes_a_step(
    rows: Callable[[str], Any], tmp_path: Path, trainer: str, name: str
) -> None:
    trl = pytest.importorskip("trl", minversion="1.0")
    options: dict[str, Any] = {
        "output_dir": str(tmp_path),
        "max_steps": 1,
        "use_cpu": True,
        "bf16": False,
    }
    options |= {"report_to": [], "logging_steps": 1, "per_device_train_batch_size": 2}
    more: dict[str, Any] = {}
    if trainer in ("DPO", "KTO"):
        more["ref_model"] = tiny_trainer.model()
    elif trainer == "GRPO":
        options |= {"num_generations": 2, "max_completion_length": 4}
        more["reward_funcs"] = [
            lambda completions, reference_code, **_: [float(len(one)) for one in reference_code]
        ]
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
    config = pytest.importorskip("omegaconf").OmegaConf.create(
        {"max_length": 8192, "pad_mode": "no_padding"}
    )
    tokenizer = tiny_trainer.tokenizer()
    folder = make("verl_sft")
    for item, row in side_by_side(
        module.MultiTurnSFTDataset(files(folder), tokenizer, config), folder
    ):
        learnt = tokenizer.decode(item["input_ids"][item["loss_mask"].bool()])
        assert all(answer in learnt for answer in answers(row["messages"]))
        assert row["messages"][0]["content"] not in learnt


@pytest.mark.parametrize("name", ["verl_rl", "drkernel_rl"])
def test_verl_reads_prompts(make: Make, tmp_path: Path, name: str) -> None:
    module = pytest.importorskip("verl.utils.dataset.rl_dataset")
    config = {"cache_dir": str(tmp_path), "max_prompt_length": 8192, "return_raw_chat": True}
    config = pytest.importorskip("omegaconf").OmegaConf.create(config)
    folder = make(name)
    for item, row in side_by_side(
        module.RLHFDataset(files(folder), tiny_trainer.tokenizer(), config), folder
    ):
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
def test_llamafactory_reads(
    make: Make, tmp_path: Path, stage: str, name: str, known_as: str
) -> None:
    data = pytest.importorskip("llamafactory.data")
    hparams = pytest.importorskip("llamafactory.hparams")
    folder, tokenizer = make(name), tiny_trainer.tokenizer()
    wanted = hparams.DataArguments(
        dataset=known_as,
        dataset_dir=str(folder),
        template="default",
        cutoff_len=8192,
        preprocessing_num_workers=1,
    )
    model = hparams.ModelArguments(model_name_or_path="none", cache_dir=str(tmp_path / "cache"))
    training = hparams.TrainingArguments(output_dir=str(tmp_path), report_to=[])
    template = data.get_template_and_fix_tokenizer(tokenizer, wanted)
    found = data.get_dataset(template, model, wanted, training, stage, tokenizer)["train_dataset"]
    assert len(found) == manifest(folder)["split"]["train"]


def openrlhf(folder: Path, **options: Any) -> tuple[Any, Any]:
    """Its dataset classes' rows and "strategy", as its command line makes them of
    `--data.*` options.
    """
    blending = pytest.importorskip("openrlhf.datasets.utils").blending_datasets
    data = SimpleNamespace(apply_chat_template=True, **options)
    strategy = SimpleNamespace(
        args=SimpleNamespace(data=data), is_rank_0=lambda: True, print=lambda *_: None
    )
    return blending(str(folder), None, strategy), strategy


@pytest.mark.parametrize("kind", [Kind.TURN, Kind.SINGLE, Kind.TRAJECTORY])
def test_openrlhf_learns_answers_and_nothing_else(make: Make, kind: Kind) -> None:
    module, tokenizer = pytest.importorskip("openrlhf.datasets"), tiny_trainer.tokenizer()
    folder = make("openrlhf_sft", kind, val_fraction=0.0)
    rows, strategy = openrlhf(folder, input_key="input", output_key="output")
    found = module.SFTDataset(rows, tokenizer, 8192, strategy, num_processors=None, multiturn=False)
    for (ids, _, mask), row in side_by_side(found, folder):
        learnt = tokenizer.decode(
            ids[0][1:][mask[0][:-1].bool()]
        )  # the mask is of the token before
        assert learnt == "".join(f"{answer}<eos>" for answer in answers(row["output"]))


@pytest.mark.parametrize("is_dpo", [False, True])
def test_openrlhf_compares_two_answers(make: Make, is_dpo: bool) -> None:
    module, tokenizer = pytest.importorskip("openrlhf.datasets"), tiny_trainer.tokenizer()
    folder = make("openrlhf_preference")
    rows, strategy = openrlhf(
        folder, prompt_key="prompt", chosen_key="chosen", rejected_key="rejected"
    )
    found = module.RewardDataset(
        rows, tokenizer, 8192, strategy, is_dpo=is_dpo, num_processors=None
    )
    for (chosen, _, rejected, _, prompt), row in side_by_side(found, folder):
        for ids, side in ((chosen[0], "chosen"), (rejected[0], "rejected")):
            [answer] = answers(row[side])
            assert tokenizer.decode(ids).endswith(f"assistant: {answer}<eos>")
            assert prompt == (len(ids) - len(answer) - 1 if is_dpo else 0)  # a token a letter


def test_openrlhf_reads_prompts(make: Make) -> None:
    module, tokenizer = pytest.importorskip("openrlhf.datasets"), tiny_trainer.tokenizer()
    folder = make("openrlhf_prompts")
    rows, strategy = openrlhf(folder, input_key="context_messages", label_key="label")
    for (source, prompt, label, _), row in side_by_side(
        module.PromptDataset(rows, tokenizer, strategy), folder
    ):
        assert row["context_messages"][0]["content"] in prompt
        assert (source, label) == (row["datasource"], row["label"])


def test_axolotl_learns_what_is_marked_and_nothing_else(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXOLOTL_DO_NOT_TRACK", "1")
    module = pytest.importorskip("axolotl.utils.data")
    folder, tokenizer = make("axolotl", Kind.MASKED, val_fraction=0.0), tiny_trainer.tokenizer()
    wanted = pytest.importorskip("axolotl.utils.dict").DictDefault(
        datasets=[
            {"path": str(folder), "type": "chat_template", "message_field_training": "train"}
        ],
        dataset_prepared_path=str(tmp_path),
        sequence_len=8192,
        num_epochs=1,
        micro_batch_size=1,
        batch_size=1,
        val_set_size=0,
    )
    found, *_ = module.prepare_datasets(wanted, tokenizer)
    for item, row in side_by_side(found, folder):
        learnt = [
            token
            for token, label in zip(item["input_ids"], item["labels"], strict=True)
            if label != -100
        ]
        assert tokenizer.decode(learnt) == "".join(
            f"{one['content']}<eos>" for one in row["messages"] if one["train"]
        )


def test_skyrl_hands_the_reference_to_an_environment(make: Make) -> None:
    module, gym = pytest.importorskip("skyrl.train.dataset"), pytest.importorskip("skyrl_gym")
    folder = make("skyrl_prompts")
    found = module.PromptDataset(files(folder), tiny_trainer.tokenizer(), 8192, num_workers=1)
    gym.register(
        id="kernel_assay", entry_point="skyrl_gym.envs.gsm8k.env:GSM8kEnv"
    )  # wants a ground truth
    for item, row in side_by_side(found, folder):
        [one] = found.collate_fn([item])
        assert one["prompt"] == row["prompt"]
        assert one["env_extras"]["extra_info"] == row["extra_info"]
        environment = gym.make(one["env_class"], env_config={}, extras=one["env_extras"])
        assert environment.ground_truth == row["extra_info"]["reference_code"]


@pytest.mark.parametrize("layout", ["nemo_gym_prompts", "nemo_gym_sessions"])
def test_nemo_gym_validates_collates_and_plans_rollouts(
    make: Make, tmp_path: Path, layout: str
) -> None:
    data = pytest.importorskip("nemo_gym.train_data_utils")
    rollouts = pytest.importorskip("nemo_gym.rollout_collection")
    [path], rows = files(make(layout)), stored(make(layout))
    source = Path(shutil.copy(path, tmp_path))  # loaders write their caches beside the file
    dataset = data.DatasetConfig(
        name="kernels", type="train", jsonl_fpath=str(source), license="TBD"
    )
    servers = [SimpleNamespace(name="kernel_agent", datasets=[dataset])]
    processor = data.TrainDataProcessor()
    metrics = processor.validate_samples_and_aggregate_metrics(
        servers, overwrite_metrics_conflicts=False
    )
    assert metrics["train"].number_of_examples == len(rows)
    wanted = data.TrainDataProcessorConfig(
        output_dirpath=str(tmp_path / "out"), mode="train_preparation"
    )
    processor.collate_samples(wanted, servers, metrics)
    planned = rollouts.RolloutCollectionHelper()._preprocess_rows_from_config(
        rollouts.RolloutCollectionConfig(
            input_jsonl_fpath=str(tmp_path / "out/train.jsonl"),
            output_jsonl_fpath=str(tmp_path / "rollouts.jsonl"),
        )
    )
    assert [one["agent_ref"]["name"] for one in planned] == ["kernel_agent"] * len(rows)
    assert [
        {name: one[name] for name in row} for one, row in zip(planned, rows, strict=True)
    ] == rows


def test_slime_reads_prompts(make: Make) -> None:
    module, tokenizer = pytest.importorskip("slime.utils.data"), tiny_trainer.tokenizer()
    [path] = files(make("slime_prompts"))
    options = {
        "prompt_key": "prompt",
        "label_key": "label",
        "metadata_key": "metadata",
        "apply_chat_template": True,
    }
    found = module.Dataset(path, tokenizer=tokenizer, processor=None, max_length=8192, **options)
    for sample, row in side_by_side(found, make("slime_prompts")):
        assert row["prompt"][0]["content"] in sample.prompt
        assert (sample.label, sample.metadata) == (row["label"], row["metadata"])
