"""Code of a user's own, as a run composes it and where it cannot be loaded; a refusal has the key
that the user set, also where it is about a setting of a preset.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from omegaconf import OmegaConf

from rltf_verl.adapters.startup.budget import check_prompt_budget
from rltf_verl.adapters.startup.checks import (
    parts_of,
    require,
    start_findings,
    warnings_of,
)
from rltf_verl.adapters.startup.files import (
    changed_prompts,
    check_datasets,
    resolve_files,
)
from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.data.questions import read_questions
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.findings import Finding
from rltf_verl.kinds import trouble
from rltf_verl.objectives import Method
from rltf_verl.registry import load
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.plan.inputs import inspect_run
from tests.adapters.rollout.test_acting_policy_on_cpu import tokenizer_with_tools
from tests.support.configs import composed
from tests.support.fuzz_config import Key, all_keys, with_value

PAGE = (Path(__file__).parents[3] / "docs" / "environments.md").read_text("utf-8")
OWN = PAGE.partition("## Your own\n")[2].partition("\n## ")[0]
SNIPPETS = dict(re.findall(r"```(python|jinja)\n(.*?)```", OWN, re.DOTALL))
NAME, ADDED = "rltf.env.name=./mine.py:Mine", ("+rltf.env.factor=3",)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(SNIPPETS["python"])
    Path("mine.j2").write_text(SNIPPETS["jinja"])
    return build_parquet("./mine.py:Mine", "data", 0, 4, 2, factor=3).train


def run(*overrides: str, data: Path | None = None) -> Any:
    files = [] if data is None else [f"data.{split}_files={data}" for split in ("train", "val")]
    config = composed("rltf_sd", *files, *overrides, "data.train_batch_size=2")
    resolve_files(config)
    return config


def test_the_class_with_an_option_and_a_template(mine: Path) -> None:
    template = "rltf.episode.revise=./mine.j2"
    config = run("rltf/env=own", NAME, "+rltf.env.factor=3", template, data=mine)
    assert config.rltf.env.name == f"{Path.cwd()}/mine.py:Mine", "workers stand in other folders"
    parts = parts_of(config)
    assert parts.env.factor == 3
    assert list(check_datasets(config, parts.env, DryRun())) == []


def test_options_that_the_data_were_made_with(mine: Path) -> None:
    forgot, knows = (run("rltf/env=own", NAME, *more, data=mine) for more in ((), ADDED))
    made_otherwise = [
        f for f in warnings_of(forgot, Method(parts_of(forgot).config)) if "made" in f.why
    ]
    assert [f.key for f in made_otherwise] == ["data.train_files", "data.val_files"]
    assert {f.fix for f in made_otherwise} == {f"add {ADDED[0]}"}
    assert not [f for f in warnings_of(knows, Method(parts_of(knows).config)) if "made" in f.why]


def test_a_question_that_changed_after_the_file_was_built(mine: Path) -> None:
    config = run("rltf/env=own", NAME, *ADDED, data=mine)
    assert not list(changed_prompts(config, parts_of(config).env))
    new = SNIPPETS["python"].replace(
        "def prompt(self", "def prompt(self, problem):\n        return 'new'\n\n    def old(self"
    )
    assert new != SNIPPETS["python"]
    Path("new.py").write_text(new)
    config = run("rltf/env=own", "rltf.env.name=./new.py:Mine", *ADDED, data=mine)
    found = [one for one in start_findings(config, DryRun()) if "its first prompt" in one.why]
    assert [(f.key, f.level) for f in found] == [
        ("data.train_files", "warning"),
        ("data.val_files", "warning"),
    ]


def test_an_explanation_that_raises_is_one_line_with_its_place(mine: Path) -> None:
    Path("raises.py").write_text(SNIPPETS["python"].replace("if not grade.format_ok", "if False"))
    name = "rltf.env.name=./raises.py:Mine"
    config = run("rltf/env=own", name, *ADDED, "rltf.feedback.level=hint", data=mine)
    message = r"rltf\.env\.name=.*raises\.py:Mine: .* problem 0 .*ValueError: .*\(raises\.py:\d+\)"
    parts, tokenizer = parts_of(config), tokenizer_with_tools()
    questions = read_questions(mine, env=parts.env)
    with pytest.raises(ConfigError, match=message):
        require(check_prompt_budget(config, parts, questions, tokenizer, DryRun()))


def values_of(key: Key) -> Iterator[Any]:
    kinds = (key.hint, *get_args(key.hint))
    words = [w for kind in kinds if get_origin(kind) is Literal for w in get_args(kind)]
    return (v for v in (*words, 0, 1) if trouble(v, key.hint) is None)


def refusal_of(block: dict[str, Any], key: Key, value: Any) -> Finding | None:
    try:
        RLTFConfig.from_mapping(with_value(block, key, key.path[-1], value))
    except ConfigError as error:
        return error.finding
    return None


METHODS = ("echo", "grpo_single", "guided", "raft", "teacher/opsd", "teacher/rlcsd")


@pytest.mark.parametrize("method", METHODS)
def test_whatever_is_set_beside_a_method(method: str) -> None:
    config = composed("rltf", f"rltf/method={method}")
    block: Any = OmegaConf.to_container(config.rltf, resolve=True)
    others = 0
    for key in all_keys():
        for value in () if key.around or key.path == ("env", "name") else values_of(key):
            finding = refusal_of(block, key, value)
            if finding is not None:
                line = str(finding.with_chosen_key([f"{key}={value}"]))
                assert line.startswith(f"{key}={value}: "), (value, str(finding))
                others += finding.key != str(key)
    assert others, "refused for a setting of the preset"


def test_the_plan_says_it() -> None:
    words = ("rltf/method=guided", "rltf/hardware=cpu", "rltf.distill.reference=current")
    config = composed("rltf", *words, "actor_rollout_ref.model.path=/nowhere")
    lines = map(str, inspect_run(config, chosen=words).refusals)
    assert any(line.startswith(f"{words[-1]}: rltf.distill.loss=ppo: ") for line in lines)


def test_a_key_of_the_users_own_stays() -> None:
    finding = Finding("rltf.seed", None, "rltf.gamma=0 needs it", "set it to a number")
    assert finding.with_chosen_key(["rltf.seed=null", "rltf.gamma=0"]) == finding
    assert finding.with_chosen_key(["rltf/method=sd"]) == finding
    line = Finding("", None, "rltf.gamma=0: a line that names its key", "")
    assert line.with_chosen_key(["rltf.gamma=0"]) == line
    assert str(finding.with_chosen_key(["+rltf.gamma=0"])) == (
        "rltf.gamma=0: rltf.seed=None: rltf.gamma=0 needs it; set rltf.seed to a number"
    )


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt", "GeneratorExit"])
def test_a_file_that_raises_when_it_is_imported_is_one_line(tmp_path: Path, error: str) -> None:
    (tmp_path / "mine.py").write_text(f"raise {error}\n")
    with pytest.raises(ConfigError, match=error.partition("(")[0]) as refused:
        load("rltf.env.name", f"{tmp_path}/mine.py:Mine")
    assert refused.value.finding.key == "rltf.env.name"
