"""Chat templates that cannot play the tools of an environment are refused before the run."""

import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltf_verl.adapters.startup import budget, checks
from rltf_verl.adapters.startup.values import wrong_values
from rltf_verl.config import ConfigError
from rltf_verl.data.schema import row_of
from rltf_verl.envs import make_env
from rltf_verl.envs.dry_run import DryRun

ROLES = ("system", "user", "assistant", "tool")


class Tokenizer:
    """A token is a character; `tools` are shown, and messages of the roles."""

    def __init__(self, *, shows_tools: bool, roles: tuple[str, ...] = ROLES) -> None:
        self._shows_tools, self._roles = shows_tools, roles

    def apply_chat_template(self, messages, tools=(), **options):
        if not all(message["role"] in self._roles for message in messages):
            raise ValueError("roles must be system, user, assistant")
        shown = repr(tools) if self._shows_tools else ""
        return [c for m in messages for c in m["content"] + shown]


@pytest.mark.parametrize(
    ("tokenizer", "trouble"),
    [
        (Tokenizer(shows_tools=True), None),
        (Tokenizer(shows_tools=False), "none of the tools of lookup"),
        (Tokenizer(shows_tools=True, roles=ROLES[:3]), "whose messages are of user assistant tool"),
    ],
)
def test_a_template_needs_tools_and_their_answers(verl_config, tokenizer, trouble):
    env = make_env("docs/examples/lookup.py:Lookup")
    problem = env.build(0, 1, 0).train[0]
    row = row_of(problem, env.prompt(problem), "train")
    config = verl_config("data.max_prompt_length=20000")
    parts = replace(checks.checked_parts(config), env=env)

    def check():
        budget.check_prompt_budget(config, parts, [{**row, "raw_prompt": row["prompt"]}], tokenizer)

    if trouble is None:
        check()
    else:
        with pytest.raises(ConfigError, match=trouble):
            check()


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), RuntimeError("no server")])
def test_an_environment_that_never_opens_is_refused(verl_config, tmp_path, cause):
    class Closed(type(make_env("docs/examples/lookup.py:Lookup"))):
        def open(self, problem, seed):
            raise cause

    env = Closed()
    problem = env.build(0, 1, 0).train[0]
    file = tmp_path / "train.parquet"
    pq.write_table(pa.Table.from_pylist([row_of(problem, env.prompt(problem), "train")]), file)
    config = verl_config("data.max_prompt_length=20000", f"data.train_files={file}")
    parts = replace(checks.checked_parts(config), env=env)
    with pytest.raises(ConfigError, match=type(cause).__name__):
        budget.check_budget(config, parts, Tokenizer(shows_tools=True), dry_run=DryRun())


def test_a_slow_explanation_is_a_line(verl_config, monkeypatch):
    told = []
    monkeypatch.setattr("rltf_verl.envs.dry_run.EARLY_S", 0.01)

    class Slow(type(make_env("docs/examples/lookup.py:Lookup"))):
        def explain(self, problem, trajectory, grade, level):
            while not told:
                time.sleep(0.01)
            return super().explain(problem, trajectory, grade, level)

    parts = replace(checks.checked_parts(verl_config()), env=Slow())
    problem = parts.env.build(0, 1, 0).train[0]
    assert budget._Explanations(parts, DryRun(tell=told.append)).of(problem)
    assert told


@pytest.mark.parametrize("tool", [{}, "look", {"function": {"name": "look"}}, None])
def test_tools_that_are_no_schemas_are_refused(tmp_path, tool):
    mine = tmp_path / "mine.py"
    mine.write_text(f"class Mine:\n    tools = ({tool!r},)\n    def step(self): ...\n")
    with pytest.raises(ValueError, match="tools"):
        make_env(f"{mine}:Mine")


FORMAT = "actor_rollout_ref.rollout.multi_turn.format"


def test_a_tool_parser_that_verl_lacks_is_refused(verl_config):
    assert not list(wrong_values(verl_config(f"{FORMAT}=qwen3_coder")))
    (refused,) = wrong_values(verl_config(f"{FORMAT}=llama"))
    assert str(refused).startswith(f"{FORMAT}=llama: not known here; choose one of deepseek_v4, ")
    assert "hermes" in refused.fix
