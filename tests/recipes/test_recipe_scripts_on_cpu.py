"""run.sh, the scripts of recipes/rltf and the loop of docs/measuring.md: what they would start,
seen by programs that only print their arguments."""

import re
from functools import partial

import pytest

from tests.recipes.composing import RECIPES, rltf_of
from tests.recipes.experiments import EXPERIMENTS, RECIPE
from tests.recipes.seeds import NAMES

RUN, INSTRUCTIONS = RECIPES / "run.sh", RECIPES / "instructions/instructions.sh"
LORA_RATE = "actor_rollout_ref.actor.optim.lr=1e-5"


def run_words(line: str) -> list[str]:
    words = line.split()
    assert words[:3] == ["python3", "-m", "verl.trainer.main_ppo"]
    return words


@pytest.mark.parametrize("name", NAMES)
def test_training_of_another_method(name, start) -> None:
    (line,), _ = start(RUN, name, ROLLOUT="sglang", MODEL="mine", OUT="o")
    words = run_words(line)
    assert f" --config-dir {RECIPES / name / 'config'} --config-name {name} " in line
    assert {
        "actor_rollout_ref.rollout.name=sglang",
        "actor_rollout_ref.model.path=mine",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.4",
        "trainer.default_local_dir=o",
    } <= set(words)
    assert "offload" not in line
    assert [word for word in words if "optim.lr=" in word] == [LORA_RATE]
    (line,), _ = start(RUN, name, TUNE="full")
    assert "optim.lr=" not in line
    assert "actor_rollout_ref.actor.fsdp_config.param_offload=true" in run_words(line)


def test_training_of_an_experiment_of_the_paper(start) -> None:
    (line,), _ = start(RUN, "rltf/kk_sd_ppo", "trainer.test_freq=-1", NUM_GPUS="8")
    words = run_words(line)
    assert {
        *("paper", "task=kk", "method=sd_ppo", "actor_rollout_ref.model.lora_rank=32"),
        *("trainer.n_gpus_per_node=8", "trainer.default_local_dir=outputs/rltf/kk_sd_ppo"),
    } <= {*words}
    assert not [word for word in words if re.search(r"model\.path|offload|optim\.lr", word)]
    assert words[-1] == "trainer.test_freq=-1", "the user's overrides come last"


@pytest.mark.parametrize("name", ["", "rltf", "rltf/kk", "rltf/kk_none", "rl2f/_shared", "none"])
def test_no_name_or_an_unknown_one(name, start) -> None:
    lines, error = start(RUN, name, status=2)
    assert lines == []
    assert set(error.split()) >= {*NAMES, *(f"rltf/{experiment}" for experiment in EXPERIMENTS)}


@pytest.mark.parametrize(
    ("path", "argument", "variables", "refusal"),
    [
        (RUN, "rltf/kk_sd", {"ROLLOUT": "hf"}, "ROLLOUT=hf: must be vllm, sglang or transformers"),
        (RUN, "rltf/kk_sd", {"TUNE": "half"}, "TUNE=half: must be lora or full"),
        *((INSTRUCTIONS, arm, {}, "grpo_single") for arm in ("", "sft")),
        (RECIPE / "prepare_data.sh", "lax", {}, "lax: must be official or strict"),
        (RECIPE / "prepare_data.sh", "strict", {"TASKS": "kk2"}, "TASKS: unknown task kk2"),
    ],
)
def test_values_that_cannot_be(path, argument, variables, refusal, start) -> None:
    lines, error = start(path, argument, status=2, **variables)
    assert lines == []
    assert refusal in error


@pytest.fixture
def reproduce(start, tmp_path):
    """`reproduce_1gpu.sh` where data and a comparison are there already."""
    (tmp_path / "data" / "strict" / "kk").mkdir(parents=True)
    (tmp_path / "data" / "strict" / "kk" / "train.parquet").touch()
    (tmp_path / "o" / "compare").mkdir(parents=True)
    (tmp_path / "o" / "compare" / "compare.md").write_text("| a |\n")
    return partial(start, RECIPE / "reproduce_1gpu.sh", OUT="o")


@pytest.fixture
def output(tmp_path):
    """Name of a run -> its output."""
    return lambda run: tmp_path / "o" / run / "output.txt"


def test_one_gpu_plans_each_method_and_trains_each_seed(start, reproduce, output) -> None:
    """The words of the plan are those of the training, and pass the checks at start."""
    (data, *lines), _ = start(
        RECIPE / "reproduce_1gpu.sh", "plan", "a=b", RLTF_DATA="d", OUT="o", ROLLOUT="sglang"
    )
    assert data.startswith("rltf data build knights_knaves --out d/kk ")
    plans = [line.split()[4:] for line in lines if line.startswith("rltf plan --problems 1 ")]
    assert [line for line in lines if line.startswith("==")] == ["== grpo", "== sd", "== fm"]
    lines, _ = reproduce("a=b", ROLLOUT="sglang")
    assert lines[-2:] == ["", "| a |"]
    for method, plan in zip(("grpo", "sd", "fm"), plans, strict=True):
        for seed in "012":
            run = output(f"{method}_seed{seed}").parent
            trained = run_words((run / "output.txt").read_text())
            own = trained[3:-4]
            assert [word for word in own if word not in plan] == [
                f"trainer.default_local_dir={run / 'checkpoints'}"
            ]
            assert len(own) == len(plan)
            assert trained[-4:] == [
                f"rltf.seed={seed}",
                f"data.seed={seed}",
                f"trainer.experiment_name={run.name}",
                f"hydra.run.dir={run / 'hydra'}",
            ]
        words = plan[plan.index("trainer.nnodes=1") + 2 :]
        assert words[-1] == "a=b"
        real = rltf_of(f"rltf/kk_{method}", *words[:-1])
        assert (real.feedback.provider.name, real.env.options["mode"]) == ("verifier", "strict")
        assert (real.distill.weight, real.feedback_modeling.weight) == {
            "grpo": (0.0, 0.0),
            "sd": (0.1, 0.0),
            "fm": (0.0, 0.1),
        }[method]


FAILS = '#!/bin/bash\necho "$* in $VERL_FILE_LOGGER_PATH"\n[[ "$*" != *"$FAILING"* ]] || exit 7\n'
"""A trainer; the run that `FAILING` names ends with 7."""


def starts(path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_one_gpu_resumes_what_failed_once_more_and_skips_what_has_finished(
    reproduce, programs, output
) -> None:
    (programs / "python3").write_text(FAILS)
    lines, error = reproduce(SEEDS="4,5", FAILING="name=sd_seed4", status=7)
    runs = [f"{method}_seed{seed}" for seed in "45" for method in ("grpo", "sd", "fm")]
    begun = [line.partition(":")[0] for line in lines if ": output in " in line]
    assert begun == [*runs, "sd_seed4"], "all methods of a seed before the next seed"
    assert error.count("sd_seed4: failed with exit status 7") == 2
    assert {run: starts(output(run)) for run in runs} == {
        **dict.fromkeys(runs, 1),
        "sd_seed4": 2,
    }
    folder = output("fm_seed5").parent
    assert output("fm_seed5").read_text().endswith(f" in {folder / 'metrics.jsonl'}\n")
    compared = ["grpo_seed4", "grpo_seed5", "sd_seed5", "fm_seed4", "fm_seed5"]
    folders = " ".join(str(output(run).parent) for run in compared)
    assert f"rltf compare {folders} --out {folder.parent / 'compare'}" in lines
    assert lines[-1] == "| a |"
    lines, error = reproduce(SEEDS="4,5", FAILING="none")
    begun = [line for line in lines if ": output in " in line]
    assert (begun, error) == ([f"sd_seed4: output in {output('sd_seed4')}"], "")


def test_the_judge_listens_on_loopback_only(start) -> None:
    (line,), _ = start(
        RECIPE / "serve_judge.sh", "--dtype", "bfloat16", JUDGE_MODEL="m", JUDGE_GPUS="2"
    )
    assert line.startswith("vllm serve m --host 127.0.0.1 --port 8000 --tensor-parallel-size 2 ")
    assert line.endswith("--dtype bfloat16")
