"""run.sh and the scripts of recipes/rltf: what they would start, seen by programs that only print
their arguments."""

import re
from functools import partial

import pytest

from tests.recipes.composing import RECIPES, rltf_of
from tests.recipes.experiments import EXPERIMENTS, RECIPE
from tests.recipes.seeds import NAMES

RUN = RECIPES / "run.sh"
LORA_RATE = "actor_rollout_ref.actor.optim.lr=1e-5"


def run_words(line: str) -> list[str]:
    words = line.split()
    assert words[:3] == ["python3", "-m", "verl.trainer.main_ppo"]
    return words


@pytest.mark.parametrize("name", NAMES)
def test_training_of_another_method(name, start) -> None:
    _, (line,), _ = start(RUN, name, ROLLOUT="sglang", MODEL="mine", OUT="o")
    words = run_words(line)
    assert words[words.index("--config-dir") + 1] == str(RECIPES / name / "config")
    assert words[words.index("--config-name") + 1] == name
    assert {
        "actor_rollout_ref.rollout.name=sglang",
        "actor_rollout_ref.model.path=mine",
        "actor_rollout_ref.actor.fsdp_config.param_offload=true",
        "trainer.default_local_dir=o",
    } <= set(words)
    assert [word for word in words if "optim.lr=" in word] == [LORA_RATE]
    _, (line,), _ = start(RUN, name, "actor_rollout_ref.actor.optim.lr=2e-5")
    assert run_words(line)[-1] == "actor_rollout_ref.actor.optim.lr=2e-5", "the user's comes last"
    _, (line,), _ = start(RUN, name, TUNE="full")
    assert "optim.lr=" not in line


def test_training_of_an_experiment_of_the_paper(start) -> None:
    code, (line,), _ = start(RUN, "rltf/kk_sd_ppo", "trainer.test_freq=-1", NUM_GPUS="8")
    words = run_words(line)
    assert code == 0
    assert {"paper", "task=kk", "method=sd_ppo", "actor_rollout_ref.model.lora_rank=32"} <= {*words}
    assert {"trainer.n_gpus_per_node=8", "trainer.default_local_dir=outputs/rltf/kk_sd_ppo"} <= {
        *words
    }
    assert not [word for word in words if re.search(r"model\.path|offload|optim\.lr", word)]
    assert words[-1] == "trainer.test_freq=-1", "the user's overrides come last"


@pytest.mark.parametrize("name", ["", "rltf", "rltf/kk", "rltf/kk_none", "rl2f/_shared", "none"])
def test_no_name_or_an_unknown_one(name, start) -> None:
    code, lines, error = start(RUN, name)
    assert (code, lines) == (2, [])
    assert set(error.split()) >= {*NAMES, *(f"rltf/{experiment}" for experiment in EXPERIMENTS)}


@pytest.mark.parametrize(
    ("path", "argument", "variables", "refusal"),
    [
        (RUN, "rltf/kk_sd", {"ROLLOUT": "hf"}, "ROLLOUT=hf: must be vllm or sglang"),
        (RUN, "rltf/kk_sd", {"TUNE": "half"}, "TUNE=half: must be lora or full"),
        (RECIPE / "prepare_data.sh", "lax", {}, "lax: must be official or strict"),
        (RECIPE / "prepare_data.sh", "strict", {"TASKS": "kk2"}, "TASKS: unknown task kk2"),
    ],
)
def test_values_that_cannot_be(path, argument, variables, refusal, start) -> None:
    code, lines, error = start(path, argument, **variables)
    assert (code, lines) == (2, [])
    assert refusal in error


def test_data(start) -> None:
    code, lines, _ = start(RECIPE / "prepare_data.sh", RLTF_DATA="d")
    assert code == 0
    assert [line.split()[3] for line in lines] == [
        "knights_knaves",
        "binary_matrix",
        "shortest_path",
        "math",
        "math",
    ]
    assert [line.split("--out ")[1].split()[0] for line in lines] == [
        "d/kk",
        "d/bm",
        "d/sp",
        "d/dapo",
        "d/deepmath",
    ]
    assert all("mode=official" in line and "--seed 0" in line for line in lines)
    assert "--num-train 19800 --num-test 200" in lines[0]
    code, lines, _ = start(
        RECIPE / "prepare_data.sh", "strict", "n_max=4", TASKS="bm writing", WRITING_FILE="a b"
    )
    assert code == 0
    assert lines[0].endswith("mode=strict n_max=4")
    assert "path=a b question_field=prompt" in lines[1]


@pytest.fixture
def reproduce(start, tmp_path):
    """`reproduce_1gpu.sh` where data and a comparison are there already."""
    (tmp_path / "data" / "strict" / "kk").mkdir(parents=True)
    (tmp_path / "data" / "strict" / "kk" / "train.parquet").touch()
    (tmp_path / "o" / "compare").mkdir(parents=True)
    (tmp_path / "o" / "compare" / "compare.md").write_text("| a |\n")
    return partial(start, RECIPE / "reproduce_1gpu.sh", OUT="o")


def test_one_gpu_plans_each_method_and_trains_each_seed(start, reproduce) -> None:
    """The words of the plan are those of the training, and pass the checks at start."""
    code, (data, *lines), error = start(
        RECIPE / "reproduce_1gpu.sh", "plan", "a=b", RLTF_DATA="d", OUT="o", ROLLOUT="sglang"
    )
    assert code == 0, error
    assert data.startswith("rltf data build knights_knaves --out d/kk ")
    plans = [line.split()[4:] for line in lines if line.startswith("rltf plan --problems 1 ")]
    assert [line for line in lines if line.startswith("==")] == ["== grpo", "== sd", "== fm"]
    assert len(plans) == 3
    code, (line, *end), error = reproduce("a=b")
    assert (code, end) == (0, ["", "| a |"]), error
    words = line.split(" -- ")[1].split()
    assert words[-1] == "a=b"
    for method, plan in zip(("grpo", "sd", "fm"), plans, strict=True):
        assert plan[-len(words) :] == words
        assert f" --arm {method}=rltf/kk_{method}" in line
        real = rltf_of(f"rltf/kk_{method}", *words[:-1])
        assert (real.feedback.provider.name, real.env.options["mode"]) == ("verifier", "strict")
        assert (real.distill.weight, real.feedback_modeling.weight) == {
            "grpo": (0.0, 0.0),
            "sd": (0.1, 0.0),
            "fm": (0.0, 0.1),
        }[method]


def test_one_gpu_resumes_what_failed_once_more(reproduce, programs) -> None:
    (programs / "rltf").write_text('#!/bin/bash\necho "rltf $*"\nexit 7\n')
    code, lines, _ = reproduce(SEEDS="4", HOURS="2")
    trained = [line.split() for line in lines if line.startswith("rltf seeds --seeds 4 --out o ")]
    first, again = (float(words[words.index("--hours") + 1]) for words in trained)
    assert first == 2
    assert 1.9 < again <= 2, "the hours that are left"
    assert (code, lines[-1]) == (7, "| a |")


def test_the_judge_listens_on_loopback_only(start) -> None:
    code, (line,), _ = start(
        RECIPE / "serve_judge.sh", "--dtype", "bfloat16", JUDGE_MODEL="m", JUDGE_GPUS="2"
    )
    assert code == 0
    assert line.startswith("vllm serve m --host 127.0.0.1 --port 8000 --tensor-parallel-size 2 ")
    assert line.endswith("--dtype bfloat16")
