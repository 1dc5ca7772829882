"""recipes/pretrained: its dialogues tell no house's rule, its config passes the checks, its script
is shell.
"""

import json
import os
import subprocess

import pytest
from omegaconf import OmegaConf

from tests.recipes import house_style
from tests.recipes.composing import RECIPES, composed, program, rltf_of
from tests.support.log_records import line, write
from tests.support.run_files import write_metrics

FOLDER = RECIPES / "pretrained"
SCRIPT = FOLDER / "pretrained.sh"


@pytest.mark.parametrize("family", ["date", "entries", "reply"])
def test_dialogues_teach_to_follow_an_example_and_no_houses_rule(family) -> None:
    rows = program("pretrained/dialogues.py").dialogues(family, 60, 0)
    dialogues = [row["messages"] for row in rows]
    assert [[m["role"] for m in messages] for messages in dialogues] == [["user", "assistant"]] * 60
    corrected = [
        messages for messages in dialogues if "Your earlier answer: " in messages[0]["content"]
    ]
    assert 30 < len(corrected) < 52
    houses = {
        problem.data["house"]
        for problem in house_style.make_house(num_houses=40).build(0, 200, 0).train
    }
    assert not [
        house for house in houses if any(house in messages[0]["content"] for messages in dialogues)
    ]


def test_no_dialogue_answers_as_a_house_would() -> None:
    rules = house_style.conventions.KINDS["date"].rules("house")
    for problem in (
        house_style.make_house(conventions="practice", num_houses=60).build(0, 60, 0).train
    ):
        assert problem.reference not in {
            house_style.conventions.KINDS["date"].written(problem.data["item"], rule)
            for rule in rules
        }


def test_the_trainer_takes_the_scripts_place_so_that_it_gets_its_signals(tmp_path) -> None:
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho $$ > "$OUT/pid"\n')
    python.chmod(0o755)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "OUT": str(tmp_path), "PATH": path}
    script = subprocess.Popen([SCRIPT, "train", "sd"], env=environment)
    assert script.wait(60) == 0
    assert int((tmp_path / "pid").read_text()) == script.pid


@pytest.mark.parametrize("method", ["grpo_single", "grpo", "sd", "fm", "sd_fm", "sft", "raft"])
def test_a_method_composes_and_passes_the_checks(method) -> None:
    rltf = rltf_of("pretrained", f"rltf/method={method}")
    config = composed("pretrained", f"rltf/method={method}")
    assert rltf.env.name.endswith("recipes/pretrained/house_style.py:HouseStyle")
    assert rltf.feedback.provider.options["level"] == "hint"
    assert rltf.feedback.guard.action == "drop"
    assert rltf.distill.log_prob_floor is None
    assert bool(rltf.distill.enabled) == method.startswith("sd")
    assert config.actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype == "bf16"


def test_each_arm_of_the_study_composes_and_passes_the_checks() -> None:
    study = program("pretrained/study.py")
    for arm, overrides in (study.ARMS | study.CONTROLS | study.FM_WEIGHTS).items():
        rltf = rltf_of("pretrained", *study.SHARED, *overrides)
        assert rltf.distill.enabled == arm.startswith("sd "), arm
    assert {run.arm for run in study.main_runs()} <= set(study.ARMS | study.CONTROLS)


def test_four_houses_train_twice_as_long(monkeypatch, tmp_path) -> None:
    study, started = program("pretrained/study.py"), []

    class Ended:
        pid, wait = 2**22 + 1, staticmethod(lambda: 0)

        def __init__(self, command, **_) -> None:
            started.append([word for word in command if "total_training_steps" in word][-1])

    monkeypatch.setattr(study.Study, "data", lambda *_: tmp_path)
    monkeypatch.setattr(study.subprocess, "Popen", Ended)
    for family in ("date", study.FOUR_HOUSES):
        for arm in ("fm", "sdpo"):
            folder, words = tmp_path / "run", study.ARMS[arm]
            study.Study(tmp_path).play(folder, tmp_path, family, 11, 1, words)
    assert [word.rpartition("=")[2] for word in started] == ["16", "12", "32", "24"]


def test_the_report_has_each_arms_rates_and_means_over_houses(monkeypatch) -> None:
    report = program("pretrained/study_report.py")
    points = [{"step": n, "answers": 400 * n, "accuracy": n / 10} for n in range(3)]
    line = {"family": "date", "start": "mixed", "rate": 1e-4, "seconds": 60, "curve": points}
    line |= {"seed": 1, "falls": False}
    line["entropy_and_corrected_at_the_end"] = [0.1, None]
    runs = [(20, "sft"), (11, "sft"), (12, "sft"), (11, "opsd, another problem's text")]
    lines = [line | {"house": house, "arm": arm} for house, arm in runs]
    monkeypatch.setattr(report, "finished", lambda: lines)
    assert "| sft |  | 0.20 after 800 |" in report.rates_table()
    table = report.table("date", "mixed")
    assert "| sft | 2 | 0.06 [0.06, 0.06] | 0.13 " in table
    control = "| opsd, another problem's text | 1 | 0.06 | 0.13 | 0.19 | 1.0 |"
    assert control in table
    better = [{**point, "accuracy": point["accuracy"] + 0.5} for point in points]
    lines += [line | {"house": house, "arm": "sd paper", "curve": better} for house in (11, 12, 13)]
    assert "| sd paper | 0.50 [0.50, 0.50] |" in report.above_sft("date", "mixed")
    page = "a\n<!-- above SFT: date; mixed; constant -->\n\nold\n\n<!-- end -->\nb"
    made = report.filled(page)
    assert "| sd paper |" in made
    assert "old" not in made
    assert report.filled(made) == made
    assert not report.by_arm("date", "mixed", falls=True)
    assert set(report.LOOKS) < set(report.ARMS)


def test_the_law_is_fitted_to_some_runs_and_tried_on_the_others(capsys) -> None:
    law = program("pretrained/law.py")
    settings = list(law.settings())
    assert len(set(settings)) == len(settings) >= 24
    for words in law.LEVELS.values():
        rltf = rltf_of("pretrained", *words, *law.WORDS)
        assert rltf.feedback.guard.action == "none"
    shares = [n / len(settings) for n in range(len(settings))]
    lines = [
        s._asdict()
        | {"before": 0.1, "after": 0.1 + 0.9 * x, "curve": [0.2, 0.6 if x >= law.ENOUGH else 0.2]}
        for s, x in zip(settings, shares, strict=True)
    ]
    law.report(lines)
    said = capsys.readouterr().out
    assert "gain 0.50, 0.50 to 0.50 in 18 runs" in said
    assert "no Δ: 0.00 to 0.00 in 1 runs" in said
    for key in ("family", "rounds", "level", "house"):
        assert f"with the same {key} left out of the mean: 0.00" in said
    lines[-1]["curve"] = [0.2, 0.2]  # unlike the others
    assert law.left_out(lines[8:], "family") > 0.1


def test_the_script_runs_what_it_says(start, tmp_path) -> None:
    def started(*words: str) -> tuple[int, str]:
        code, lines, _ = start(SCRIPT, *words, OUT=str(tmp_path / "o"), SEED="3")
        return code, "\n".join(lines)

    assert started("model") == (0, f"python3 {FOLDER}/fetch_model.py smollm2 {tmp_path}/o/smollm2")
    assert f"--out {tmp_path}/o/data_date_3 --seed 3" in started("data")[1]
    assert f"rltf data build {FOLDER}/house_style.py:HouseStyle --out" in started("data")[1]
    code, line_of_training = started("train", "grpo", "data.seed=1")
    assert code == 0
    assert f"rltf.seed=3 rltf.env.name={FOLDER}/house_style.py:HouseStyle" in line_of_training
    assert "rltf/method=grpo data.max_response_length=48 data.seed=1" in line_of_training
    assert line_of_training.endswith("data.seed=1")
    assert "rltf.imitate.weight=1.0" in started("train", "sft")[1]
    assert started("train")[0] == started()[0] == 2
    merged = f"merge.py {tmp_path}/o/smollm2 {FOLDER}/adapter_date {tmp_path}/o/warm_date"
    assert merged in started("warm_up")[1]
    assert os.access(SCRIPT, os.X_OK)


@pytest.mark.parametrize("family", ["date", "entries", "reply"])
def test_the_adapter_is_small_and_of_the_warm_ups_config(family) -> None:
    folder = FOLDER / f"adapter_{family}"
    adapter = json.loads((folder / "adapter_config.json").read_text())
    asked = OmegaConf.load(FOLDER / "config/warm_up.yaml").model
    assert (adapter["r"], adapter["lora_alpha"]) == (asked.lora_rank, asked.lora_alpha)
    assert set(adapter["target_modules"]) == set(asked.target_modules)
    assert (folder / "adapter_model.safetensors").stat().st_size < 2e6


def test_the_picture_has_the_curve_and_both_conversations(tmp_path) -> None:
    module = program("pretrained/picture.py")
    log = tmp_path / "checkpoints/episodes"
    write(log, [line("1", "2")], step=1)
    write(log, [line("3", "42")], step=2)
    for step, answers in ((0, ("5",)), (4, ("42", "6"))):
        write(log, [line(*answers)], step=step, validate=True)
    key = "val-core/rltf/house_style/acc/mean@1"
    write_metrics(tmp_path / "metrics.jsonl", [(0, {key: 0.0}), (2, {"x": 1}), (4, {key: 0.5})])
    assert module.held_out(tmp_path) == [(0, 0.0), (4, 0.5)]
    found = module.conversations(tmp_path)
    assert [who for who, *_ in found["Held out, without feedback"]][1:] == ["step 0", "step 4"]
    said = {title: [text for _, text, _ in lines] for title, lines in found.items()}
    assert said == {
        "Training, step 2": ["What is 6 times 7?", "so 3", "look at row two", "so 42"],
        "Held out, without feedback": ["What is 6 times 7?", "so 5", "so 42"],
    }
    module.draw({"sd": [tmp_path, tmp_path]}, tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match="no validation"):
        module.held_out(tmp_path)
