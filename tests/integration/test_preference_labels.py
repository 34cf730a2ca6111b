"""Loss of preference pairs and of labelled answers, as each trainer's own code computes it: on the
compared answers alone, never on the history, where a hack stands.

Two dialogues share `right → hack` and differ in the third answer, one right, one wrong.  Everything
may be shown (`context: any`).  Skipped where the trainer is not installed.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app import export
from app.domain.dataset.selection import Context
from app.domain.source.near_duplicates import Similarity
from app.embedded import Services
from app.export import Spec
from app.export.writers import rows_of
from app.store.postgres.database import Database
from tests.conftest import fresh
from tests.integration import dataset_seed, tiny_trainer
from tests.integration.test_labels import PLANTED, answer, files

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages

Make = Callable[[str], Path]
LENGTH = 8192
BETTER, WORSE = f"{answer('better')}<eos>", f"{answer('worse')}<eos>"
LABELLED = {
    (True, f"{answer('first')}<eos>"),
    (False, f"{answer(PLANTED)}<eos>"),
    (True, BETTER),
    (False, WORSE),
}
"""A hack is a bad answer to the messages before it, and bears the loss of a bad
answer in that row alone.
"""


@pytest.fixture(scope="module")
def make(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    with fresh(services) as settings:
        database = Database(settings.database_url or "")
        _fill(database)

        def one(name: str) -> Path:
            folder = tmp_path_factory.mktemp("preferences") / name
            spec = Spec(
                format=name, similarity=Similarity.RAW, context=Context.ANY, val_fraction=0.0
            )
            export.export(database, spec, folder)
            return folder

        yield one
        database.dispose()


def _fill(database: Database) -> None:
    kinds = {"first": "slow", PLANTED: "hack", "better": "fast", "worse": "incorrect"}
    with database.begin() as connection:
        stored = {
            name: dataset_seed.evaluate(
                connection, dataset_seed.problem(1), dataset_seed.code(name).encode(), kind
            )
            for name, kind in kinds.items()
        }
        for last in ("better", "worse"):
            turns = [
                dataset_seed.turn((f"question {place}",), answer(name), stored[name])
                for place, name in enumerate(("first", PLANTED, last))
            ]
            problem_id = stored[last].problem_id
            dataset_seed.trajectories.add(
                connection, problem_id=problem_id, backend="triton", turns=turns
            )


def test_the_hack_stands_in_the_history_of_the_pair(make: Make) -> None:
    [pair] = [row for file in files(make("trl_preference")) for row in rows_of(Path(file))]
    assert [one["content"] for one in pair["prompt"] if one["role"] == "assistant"] == [
        answer("first"),
        answer(PLANTED),
    ]
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == (
        answer("better"),
        answer("worse"),
    )


def text(tokenizer: Any, ids: Any, bears: Any) -> str:
    """Text of the tokens with loss."""
    return str(
        tokenizer.decode([int(token) for token, bear in zip(ids, bears, strict=True) if bear])
    )


# --- TRL ----------------------------------------------------------------------------------------


def trl_batches(kind: str, rows: Any, tokenizer: Any, folder: Path) -> Iterator[Any]:
    trl = pytest.importorskip("trl", minversion="1.0")
    trainer, config = getattr(trl, f"{kind}Trainer"), getattr(trl, f"{kind}Config")
    arguments = config(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        use_cpu=True,
        bf16=False,
        report_to=[],
        max_length=LENGTH,
    )
    made = trainer(
        tiny_trainer.model(),
        ref_model=tiny_trainer.model(),
        args=arguments,
        train_dataset=rows,
        processing_class=tokenizer,
    )
    yield from made.get_train_dataloader()


@pytest.mark.parametrize(("kind", "name"), [("DPO", "trl_preference"), ("KTO", "trl_kto")])
def test_trl(make: Make, tmp_path: Path, kind: str, name: str) -> None:
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("trl", minversion="1.0")
    tokenizer = tiny_trainer.tokenizer()
    rows = datasets.load_dataset("parquet", data_files=files(make(name)), cache_dir=str(tmp_path))[
        "train"
    ]
    found: list[Any] = []
    for batch in trl_batches(kind, rows, tokenizer, tmp_path):
        texts = [
            text(tokenizer, *one)
            for one in zip(batch["input_ids"], batch["completion_mask"], strict=True)
        ]
        found += list(zip(batch["label"].tolist(), texts, strict=True)) if kind == "KTO" else texts
    if kind == "DPO":
        assert found == [BETTER, WORSE]
    else:
        assert set(found) == LABELLED


# --- LLaMA-Factory ------------------------------------------------------------------------------


def llamafactory(folder: Path, cache: Path, stage: str, dataset: str) -> tuple[Any, Any, Any]:
    data = pytest.importorskip("llamafactory.data")
    hparams = pytest.importorskip("llamafactory.hparams")
    tokenizer = tiny_trainer.tokenizer()
    wanted = hparams.DataArguments(
        dataset=dataset,
        dataset_dir=str(folder),
        template="empty",
        cutoff_len=LENGTH,
        preprocessing_num_workers=1,
    )
    model = hparams.ModelArguments(model_name_or_path="none", cache_dir=str(cache / "cache"))
    training = hparams.TrainingArguments(output_dir=str(cache), report_to=[])
    template = data.get_template_and_fix_tokenizer(tokenizer, wanted)
    return (
        data.get_dataset(template, model, wanted, training, stage, tokenizer)["train_dataset"],
        template,
        tokenizer,
    )


def test_llamafactory_pairs(make: Make, tmp_path: Path) -> None:
    collators = pytest.importorskip("llamafactory.data.collator")
    rows, template, tokenizer = llamafactory(
        make("llamafactory_preference"), tmp_path, "rm", "kernels_dpo"
    )
    collator = collators.PairwiseDataCollatorWithPadding(
        template=template, tokenizer=tokenizer, model=None, label_pad_token_id=-100
    )
    batch = collator([dict(row) for row in rows])
    bears = batch["labels"] != -100
    found = [text(tokenizer, *one) for one in zip(batch["input_ids"], bears, strict=True)]
    assert [one.replace("<eos>", "") for one in found] == [answer("better"), answer("worse")]


def test_llamafactory_labelled(make: Make, tmp_path: Path) -> None:
    collators = pytest.importorskip("llamafactory.data.collator")
    rows, template, tokenizer = llamafactory(
        make("llamafactory_kto"), tmp_path, "kto", "kernels_kto"
    )
    collator = collators.KTODataCollatorWithPadding(
        template=template, tokenizer=tokenizer, model=None, label_pad_token_id=-100
    )
    batch = collator([dict(row) for row in rows])
    bears = batch["labels"] != -100
    texts = [
        text(tokenizer, *one).replace("<eos>", "")
        for one in zip(batch["input_ids"], bears, strict=True)
    ]
    assert set(zip(batch["kto_tags"].tolist(), texts, strict=True)) == {
        (good, one.replace("<eos>", "")) for good, one in LABELLED
    }


# --- OpenRLHF -----------------------------------------------------------------------------------


def sum_of_logps() -> Callable[..., Any]:
    """`DPOTrainer._get_batch_logps`, read from its file: importing the module needs
    flash-attn and so a GPU.
    """
    specification = importlib.util.find_spec("openrlhf")
    assert specification is not None
    path = Path(specification.submodule_search_locations[0]) / "trainer/dpo_trainer.py"
    module = ast.parse(path.read_text())
    [function] = [
        one
        for one in ast.walk(module)
        if isinstance(one, ast.FunctionDef) and one.name == "_get_batch_logps"
    ]
    scope: dict[str, Any] = {"torch": pytest.importorskip("torch")}
    exec(compile(ast.Module([function], []), str(path), "exec"), scope)
    found: Callable[..., Any] = scope["_get_batch_logps"]
    return found


def test_openrlhf_pairs(make: Make) -> None:
    """Tokens with loss: DPOTrainer sums their log-probabilities."""
    module, tokenizer = pytest.importorskip("openrlhf.datasets"), tiny_trainer.tokenizer()
    blending = pytest.importorskip("openrlhf.datasets.utils").blending_datasets
    import torch

    told = SimpleNamespace(
        apply_chat_template=True, prompt_key="prompt", chosen_key="chosen", rejected_key="rejected"
    )
    strategy = SimpleNamespace(
        args=SimpleNamespace(data=told), is_rank_0=lambda: True, print=lambda *_: None
    )
    rows = blending(str(make("openrlhf_preference")), None, strategy)
    found = module.RewardDataset(
        rows, tokenizer, LENGTH, strategy, is_dpo=True, num_processors=None
    )
    [pair] = [found[place] for place in range(len(found))]
    chosen, chosen_mask, rejected, rejected_mask, lengths = found.collate_fn([pair])
    for ids, mask, expected in ((chosen, chosen_mask, BETTER), (rejected, rejected_mask, WORSE)):
        logps = torch.zeros((len(ids), ids.shape[1] - 1), requires_grad=True)
        total, _ = sum_of_logps()(None, logps, mask, lengths)
        total.sum().backward()
        assert logps.grad is not None
        assert text(tokenizer, ids[0, 1:], logps.grad[0]) == expected
