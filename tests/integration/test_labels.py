"""A hack planted in the middle of a dialogue bears no loss: labels made by each
trainer's own code, token by token.

A store with two dialogues, `slow → hack → fast` and `slow → fast`, is exported in every layout with
everything shown (`context: any`), read by the trainer's own loader, and the tokens with loss are
compared with the answers that the selection keeps.  Skipped where the trainer is not installed:
`pip install '.[trainers]'` brings TRL and verl.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app import export
from app.domain.dataset.selection import Context, Kind, Turns
from app.domain.source.near_duplicates import Similarity
from app.embedded import Services
from app.export import Spec
from app.export.writers import rows_of
from app.store.postgres.database import Database
from tests.conftest import fresh
from tests.integration import dataset_seed, tiny_trainer

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages

Make = Callable[..., Path]
PLANTED = "planted"


def answer(name: str) -> str:
    return f"Here.\n```python\n{dataset_seed.code(name)}```"


def fill(database: Database) -> None:
    """`a0 slow → planted hack → a2 fast` on one problem, `b0 slow → b1 fast` on another."""
    dialogues = {
        1: {"a0": "slow", PLANTED: "hack", "a2": "fast"},
        2: {"b0": "slow", "b1": "fast"},
    }
    with database.begin() as connection:
        for number, turns in dialogues.items():
            stored = {
                name: dataset_seed.evaluate(
                    connection, dataset_seed.problem(number), dataset_seed.code(name).encode(), kind
                )
                for name, kind in turns.items()
            }
            told = [
                dataset_seed.turn((f"ask for {name}",), answer(name), one)
                for name, one in stored.items()
            ]
            [problem_id] = {one.problem_id for one in stored.values()}
            dataset_seed.trajectories.add(
                connection, problem_id=problem_id, backend="triton", turns=told
            )


@pytest.fixture(scope="module")
def make(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    root = tmp_path_factory.mktemp("labels")
    with fresh(services) as settings:
        database = Database(settings.database_url or "")
        fill(database)

        def one(name: str, kind: Kind | None = None, **spec: Any) -> Path:
            folder = root / f"{name}-{kind}-{len(list(root.iterdir()))}"
            chosen: dict[str, Any] = {
                "similarity": Similarity.RAW,
                "context": Context.ANY,
                "val_fraction": 0.0,
            } | spec
            if kind is Kind.SINGLE:  # shows no history
                del chosen["context"]
            export.export(database, Spec(format=name, kind=kind, **chosen), folder)
            return folder

        yield one
        database.dispose()


def files(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.glob("data/train*"))]


def expected(*names: str) -> list[str]:
    """Trained text of rows, each the answers of these names: every answer ends with
    its end-of-turn token.
    """
    return sorted("".join(f"{answer(name)}<eos>" for name in row.split()) for row in names)


def texts(tokenizer: Any, rows: list[tuple[Any, Any]]) -> list[str]:
    """The text of the tokens of each row that bear loss."""
    found = []
    for ids, bears in rows:
        pairs = zip(list(map(int, ids)), list(map(bool, bears)), strict=True)
        found.append(tokenizer.decode([token for token, bear in pairs if bear]))
    return sorted(found)


ONE_A_TURN = expected("a0", "a2", "b0", "b1")
MASKED = expected("a0 a2", "b0 b1")
BEST = expected("a2", "b1")
EVERY = expected("a0", "b0 b1")
"""Labels of layouts without a mask: a dialogue goes as far as all of it passes."""


# --- TRL ----------------------------------------------------------------------------------------


def trl_labels(rows: Any, tokenizer: Any, folder: Path) -> list[str]:
    """Labels that SFTTrainer's own dataset and collator make of the rows, with its defaults."""
    trl = pytest.importorskip("trl", minversion="1.0")
    arguments = trl.SFTConfig(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        use_cpu=True,
        bf16=False,
        report_to=[],
        max_length=None,
    )
    trainer = trl.SFTTrainer(
        tiny_trainer.model(), args=arguments, train_dataset=rows, processing_class=tokenizer
    )
    found = []
    for batch in trainer.get_train_dataloader():
        for ids, labels in zip(batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True):
            assert all(label in (-100, token) for token, label in zip(ids, labels, strict=True))
            found.append((ids, [label != -100 for label in labels]))
    return texts(tokenizer, found)


@pytest.mark.parametrize(
    ("name", "kind", "learnt"),
    [
        ("trl_sft", Kind.TURN, ONE_A_TURN),
        ("trl_sft", Kind.TRAJECTORY, BEST),
        ("trl_sft", Kind.SINGLE, ONE_A_TURN),
    ],
)
def test_trl(make: Make, tmp_path: Path, name: str, kind: Kind, learnt: list[str]) -> None:
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("trl", minversion="1.0")
    folder = make(name, kind)
    rows = datasets.load_dataset("parquet", data_files=files(folder), cache_dir=str(tmp_path))[
        "train"
    ]
    found = trl_labels(rows, tiny_trainer.tokenizer(), tmp_path)
    if kind is Kind.SINGLE:  # shows the code alone
        assert sorted(text.partition("```")[2] for text in found) == sorted(
            text.partition("```")[2] for text in learnt
        )
    else:
        assert found == learnt


@pytest.mark.parametrize(("kind", "learnt"), [(Kind.MASKED, MASKED), (Kind.TURN, ONE_A_TURN)])
def test_trl_masked(make: Make, tmp_path: Path, kind: Kind, learnt: list[str]) -> None:
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("trl", minversion="1.0")
    from app.integrations import trl

    tokenizer = tiny_trainer.tokenizer(generation=True)
    rows = datasets.load_dataset(
        "parquet", data_files=files(make("trl_sft_masked", kind)), cache_dir=str(tmp_path)
    )
    assert trl_labels(trl.masked(rows["train"], tokenizer), tokenizer, tmp_path) == learnt


# --- verl ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "learnt"),
    [
        ("verl_sft", Kind.TRAJECTORY, EVERY),
        ("drkernel_coldstart", Kind.TRAJECTORY, EVERY),
        ("verl_sft_masked", Kind.MASKED, MASKED),
        ("verl_sft_masked", Kind.TURN, ONE_A_TURN),
    ],
)
def test_verl(make: Make, name: str, kind: Kind, learnt: list[str]) -> None:
    module = pytest.importorskip("verl.utils.dataset.multiturn_sft_dataset")
    config = pytest.importorskip("omegaconf").OmegaConf.create(
        {"max_length": 8192, "pad_mode": "no_padding"}
    )
    dataset = module.MultiTurnSFTDataset
    if name == "verl_sft_masked":
        dataset = importlib.import_module("app.integrations.verl_dataset").MarkedDataset
    tokenizer = tiny_trainer.tokenizer()
    turns = {} if kind is not Kind.TRAJECTORY else {"turns": Turns.BEST}
    found = dataset(files(make(name, kind, **turns)), tokenizer, config)
    items = [found[place] for place in range(len(found))]
    assert texts(tokenizer, [(item["input_ids"], item["loss_mask"]) for item in items]) == learnt


def test_verls_own_dataset_refuses_the_masked_layout(make: Make) -> None:
    module = pytest.importorskip("verl.utils.dataset.multiturn_sft_dataset")
    config = pytest.importorskip("omegaconf").OmegaConf.create({"max_length": 8192})
    with pytest.raises(KeyError, match="messages"):
        module.MultiTurnSFTDataset(files(make("verl_sft_masked")), tiny_trainer.tokenizer(), config)


# --- LLaMA-Factory ------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "learnt"), [(Kind.TURN, ONE_A_TURN), (Kind.TRAJECTORY, BEST)])
def test_llamafactory(make: Make, tmp_path: Path, kind: Kind, learnt: list[str]) -> None:
    data = pytest.importorskip("llamafactory.data")
    hparams = pytest.importorskip("llamafactory.hparams")
    folder, tokenizer = make("llamafactory_sft", kind), tiny_trainer.tokenizer()
    told = json.loads((folder / "llamafactory.json").read_text()) | {"dataset_dir": str(folder)}
    stage = told.pop("stage")
    wanted = hparams.DataArguments(
        **told, template="empty", cutoff_len=8192, preprocessing_num_workers=1
    )
    model = hparams.ModelArguments(model_name_or_path="none", cache_dir=str(tmp_path / "cache"))
    training = hparams.TrainingArguments(output_dir=str(tmp_path), report_to=[])
    template = data.get_template_and_fix_tokenizer(tokenizer, wanted)
    rows = data.get_dataset(template, model, wanted, training, stage, tokenizer)["train_dataset"]
    collator = data.SFTDataCollatorWith4DAttentionMask(
        template=template, tokenizer=tokenizer, model=None, label_pad_token_id=-100
    )
    batch = collator(
        [{name: row[name] for name in ("input_ids", "attention_mask", "labels")} for row in rows]
    )
    bears = [
        (ids, labels != -100)
        for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)
    ]
    assert [text.replace("<eos>", "") for text in texts(tokenizer, bears)] == [
        text.replace("<eos>", "") for text in learnt
    ]


# --- OpenRLHF, axolotl, OpenAI, slime, tinker-cookbook, ms-swift --------------------------------


@pytest.mark.parametrize(("kind", "learnt"), [(Kind.TURN, ONE_A_TURN), (Kind.TRAJECTORY, BEST)])
def test_openrlhf(make: Make, kind: Kind, learnt: list[str]) -> None:
    module, tokenizer = pytest.importorskip("openrlhf.datasets"), tiny_trainer.tokenizer()
    blending = pytest.importorskip("openrlhf.datasets.utils").blending_datasets
    told = SimpleNamespace(apply_chat_template=True, input_key="input", output_key="output")
    strategy = SimpleNamespace(
        args=SimpleNamespace(data=told), is_rank_0=lambda: True, print=lambda *_: None
    )
    rows = blending(str(make("openrlhf_sft", kind)), None, strategy)
    found = module.SFTDataset(rows, tokenizer, 8192, strategy, num_processors=None, multiturn=False)
    items = [found[place] for place in range(len(found))]  # a mask is of the token before
    assert texts(tokenizer, [(ids[0][1:], mask[0][:-1]) for ids, _, mask in items]) == learnt


@pytest.mark.parametrize(("kind", "learnt"), [(Kind.MASKED, MASKED), (Kind.TURN, ONE_A_TURN)])
def test_axolotl(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, learnt: list[str]
) -> None:
    monkeypatch.setenv("AXOLOTL_DO_NOT_TRACK", "1")
    module = pytest.importorskip("axolotl.utils.data")
    wanted = pytest.importorskip("axolotl.utils.dict").DictDefault(
        datasets=[
            {
                "path": str(make("axolotl", kind)),
                "type": "chat_template",
                "message_field_training": "train",
            }
        ],
        dataset_prepared_path=str(tmp_path),
        sequence_len=8192,
        num_epochs=1,
        micro_batch_size=1,
        batch_size=1,
        val_set_size=0,
    )
    tokenizer = tiny_trainer.tokenizer()
    rows, *_ = module.prepare_datasets(wanted, tokenizer)
    bears = [(row["input_ids"], [label != -100 for label in row["labels"]]) for row in rows]
    assert texts(tokenizer, bears) == learnt


@pytest.mark.parametrize(("kind", "learnt"), [(Kind.MASKED, MASKED), (Kind.TURN, ONE_A_TURN)])
def test_weights_of_openais_rows(make: Make, kind: Kind, learnt: list[str]) -> None:
    rows = [
        row["messages"] for file in files(make("openai_sft", kind)) for row in rows_of(Path(file))
    ]
    assert all(("weight" in one) == (one["role"] == "assistant") for row in rows for one in row)
    weighed = [
        "".join(f"{one['content']}<eos>" for one in row if one.get("weight")) for row in rows
    ]
    assert sorted(weighed) == learnt


def _without_spaces(labels: list[str]) -> list[str]:
    """Labels without the spaces and ends of turns, which differ between templates."""
    return [re.sub(r"<eos>|<\|im_end\|>|User:|\s", "", one) for one in labels]


def _dialogues(folder: Path) -> list[list[dict[str, Any]]]:
    return [row["messages"] for file in files(folder) for row in rows_of(Path(file))]


@pytest.mark.parametrize(("kind", "learnt"), [(Kind.MASKED, MASKED), (Kind.TURN, ONE_A_TURN)])
def test_slime(make: Make, kind: Kind, learnt: list[str]) -> None:
    masks, tokenizer = pytest.importorskip("slime.utils.mask_utils"), tiny_trainer.tokenizer()
    generator = masks.MultiTurnLossMaskGenerator(tokenizer, tokenizer_type="qwen")
    bears = [generator.get_loss_mask(one) for one in _dialogues(make("slime_sft", kind))]
    assert texts(tokenizer, bears) == learnt


@pytest.mark.parametrize(("kind", "learnt"), [(Kind.MASKED, MASKED), (Kind.TURN, ONE_A_TURN)])
def test_tinker_cookbook(make: Make, kind: Kind, learnt: list[str]) -> None:
    renderers = pytest.importorskip("tinker_cookbook.renderers")
    datum_of = pytest.importorskip("tinker_cookbook.supervised.data").conversation_to_datum
    tokenizer = tiny_trainer.tokenizer()
    renderer = renderers.get_renderer("role_colon", tokenizer)
    customized, bears = renderers.TrainOnWhat.CUSTOMIZED, []
    for dialogue in _dialogues(make("tinker_sft", kind)):
        datum = datum_of(dialogue, renderer, None, customized, reduction="none")
        inputs = datum.loss_fn_inputs
        bears.append((inputs["target_tokens"].data, inputs["weights"].data))
    assert _without_spaces(texts(tokenizer, bears)) == _without_spaces(learnt)


@pytest.mark.parametrize(("kind", "learnt"), [(Kind.MASKED, MASKED), (Kind.TURN, ONE_A_TURN)])
def test_swift(make: Make, tmp_path: Path, kind: Kind, learnt: list[str]) -> None:
    load = pytest.importorskip("swift.dataset").load_dataset
    processor, template = pytest.importorskip("swift.model"), pytest.importorskip("swift.template")
    tokenizer = tiny_trainer.tokenizer()
    for part in (tokenizer, tiny_trainer.model()):
        part.save_pretrained(tmp_path)
    read = processor.get_processor(str(tmp_path), model_type="qwen2")
    layout = template.get_template(read, template_type="chatml")
    layout.set_mode("train")
    rows, _ = load(files(make("swift_sft", kind)), load_from_cache_file=False)
    encoded = [layout.encode(row) for row in rows]
    bears = [(one["input_ids"], [label != -100 for label in one["labels"]]) for one in encoded]
    assert _without_spaces(texts(tokenizer, bears)) == _without_spaces(learnt)


def test_the_card_names_what_stands_in_the_context(make: Make) -> None:
    shown = (make("trl_sft") / "README.md").read_text()
    assert "(`context`: `any`): any, hacks included." in shown
    clean = make("trl_sft", context=None)
    assert "(`context`: `clean`): right and clean." in (clean / "README.md").read_text()
    rows = [row for file in files(clean) for row in rows_of(Path(file))]
    assert len(rows) == 3
    assert PLANTED not in json.dumps(rows)
