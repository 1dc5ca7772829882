"""What is refused or warned of before a worker starts: one clear message each, on the real verl
configuration; chat templates that cannot play the tools of an environment are refused, too.
"""

import logging
import math
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo import core_algos
from verl.utils.config import omega_conf_to_dataclass, validate_config

from rltf_verl.adapters.startup import budget, checks, files
from rltf_verl.adapters.startup.rules import TOKEN_SUM_LOSSES
from rltf_verl.adapters.startup.values import wrong_values
from rltf_verl.config import (
    ConfigError,
    EpisodeLogConfig,
    FeedbackConfig,
    NamedOptions,
    RLTFConfig,
)
from rltf_verl.data.questions import question_of
from rltf_verl.data.schema import row_of
from rltf_verl.envs import make_env
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.findings import Finding
from rltf_verl.types import Problem
from tests.support.acting_fakes import ActorEnv
from tests.support.plan_runs import pretend

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


REFUSED = {
    "rltf.env.name=binary_matrx": ("rltf.env.name", "'binary_matrix'"),
    "rltf.env.n_mim=3": ("rltf.env.n_mim", "'n_min'"),
    "rltf.env.n_min=1": ("rltf.env.n_min", "[2, 100]"),
    "rltf.feedback.provider=jugde": ("rltf.feedback.provider", "'judge'"),
    "rltf.feedback.level=fully": ("rltf.feedback.level", "'full'"),
    "rltf.feedback.guard.action=off": ("rltf.feedback.guard.action", "drop"),
    "rltf.episode.revise=guid": ("rltf.episode.revise", "'guide'"),
    "rltf.feedback_modeling.critic=critic": ("rltf.feedback_modeling.critic", "critique"),
    "rltf.feedback_modeling.weight=0.1 rltf.feedback.level=verdict": (
        "rltf.feedback_modeling.weight",
        "choose one that says what is wrong",
    ),
    f"{ROLLOUT}.n=1 rltf.distill.weight=0": (f"{ROLLOUT}.n", "set it to 8"),
    f"{ACTOR}.policy_loss.loss_mode=mine": (f"{ACTOR}.policy_loss.loss_mode", "token_sum"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_with_key_and_fix(verl_config, case):
    key, word = REFUSED[case]
    with pytest.raises(ConfigError) as refused:
        checks.checked_parts(verl_config(*case.split(" ")))
    assert refused.value.finding.key == key
    assert word in refused.value.finding.fix


def _is_token_sum(name, actor):
    """Whether rows add what they would cost alone, while the policy is still the one that sampled,
    and none add 0.
    """
    log_prob = -torch.rand(5, 4, generator=torch.Generator().manual_seed(0))
    advantages = torch.linspace(-0.05, 0.1, 5)[:, None].expand(5, 4)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])

    def loss(rows, mask=mask):
        value, _ = core_algos.get_policy_loss_fn(name)(
            old_log_prob=log_prob[rows],
            log_prob=log_prob[rows],
            advantages=advantages[rows],
            response_mask=mask[rows],
            loss_agg_mode="token-sum",
            config=actor,
            rollout_is_weights=None,
        )
        return float(value)

    try:
        additive = math.isclose(
            loss(slice(0, 5)), loss(slice(0, 2)) + loss(slice(2, 5)), rel_tol=1e-4, abs_tol=1e-6
        )
        return additive and loss(slice(0, 5), torch.zeros_like(mask)) == 0
    except Exception:  # bypass_mode, on a micro-batch in which nothing was sampled
        return False


def test_the_list_of_token_sums_holds_for_every_loss_that_verl_registers(verl_config):
    """A loss that a new verl brings is refused until it is in the list; what is in the list is
    one.
    """
    config = verl_config(f"{ACTOR}.policy_loss.dro_beta=0.1").actor_rollout_ref.actor
    actor = omega_conf_to_dataclass(config)
    actor.global_batch_info.update(
        dp_size=1, batch_num_tokens=None, global_batch_size=None, loss_scale_factor=None
    )
    sums = {name for name in core_algos.POLICY_LOSS_REGISTRY if _is_token_sum(name, actor)}
    assert sums == set(TOKEN_SUM_LOSSES)
    assert set(core_algos.POLICY_LOSS_REGISTRY) - sums == {"sapo", "geo_mean", "bypass_mode"}


def test_a_loss_of_your_own_says_that_it_is_a_token_sum(verl_config, monkeypatch):
    monkeypatch.setitem(
        core_algos.POLICY_LOSS_REGISTRY, "mine", SimpleNamespace(rltf_token_sum=True)
    )
    checks.checked_parts(verl_config(f"{ACTOR}.policy_loss.loss_mode=mine"))


def test_an_untested_verl_is_a_warning_that_names_both_versions(verl_config, monkeypatch, caplog):
    checks.checked_parts(verl_config())
    assert not caplog.messages
    monkeypatch.setattr("rltf_verl.adapters.compat.version", lambda name: "0.10.0")
    checks.checked_parts(verl_config())
    assert "verl 0.10.0 is outside the tested range" in caplog.text


def test_a_note_is_no_warning(caplog):
    """As the estimate of memory."""
    found = [Finding("", None, "about 7 GB", "", "note"), Finding("x.y", 1, "much", "", "warning")]
    with caplog.at_level(logging.INFO, checks.__name__):
        checks.require(found)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_rows_longer_than_a_micro_batch_are_refused_where_verl_would_fail(verl_config):
    limit = f"{ACTOR}.ppo_max_token_len_per_gpu=2048"
    config = verl_config(limit, "data.max_response_length=4096", "trainer.device=cuda")
    with pytest.raises(ConfigError, match=rf"^{limit}: a row can have .* set it to at least \d+$"):
        checks.require(budget.check_row_budget(config))


def test_folders_that_cannot_be_made_are_refused(tmp_path):
    """The episode log's and the judge's."""
    (tmp_path / "file").write_text("in the way")
    folder = str(tmp_path / "file" / "log")
    feedback = FeedbackConfig(NamedOptions("judge", {"cache_dir": folder}))
    found = files.check_folders(RLTFConfig(feedback=feedback, episode_log=EpisodeLogConfig(folder)))
    assert [f.key for f in found] == ["rltf.episode_log.dir", "rltf.feedback.cache_dir"]


def test_verls_own_validation_refuses_for_us_and_in_a_run_of_hydra_with_one_line(
    verl_config, monkeypatch
):
    pretend(monkeypatch, "cpu")
    with pytest.raises(ConfigError, match="set it to one of rltf_sync"):
        validate_config(verl_config("trainer.v1.trainer_mode=sync"), False, False)
    hydra = OmegaConf.create({"overrides": {"task": ["rltf.distill.reference=current"]}})
    monkeypatch.setattr("rltf_verl.adapters.hook.HydraConfig.initialized", lambda: True)
    monkeypatch.setattr("rltf_verl.adapters.hook.HydraConfig.get", lambda: hydra)
    monkeypatch.setattr("rltf_verl.adapters.hook.end_process", sys.exit)
    with pytest.raises(SystemExit) as ended:
        validate_config(
            verl_config("rltf.distill.loss=ppo", "trainer.experiment_name=x"), False, False
        )
    # printed to stderr; the exit code is 1
    assert ended.value.code.startswith("rltf: rltf.distill.reference=current: rltf.distill.loss=")

    def interrupted(config):
        raise KeyboardInterrupt

    monkeypatch.setattr(checks, "check_driver", interrupted)
    with pytest.raises(SystemExit) as ended:  # without a traceback
        validate_config(verl_config(), False, False)
    assert ended.value.code == 130


class Tokenizer:
    """A token is a character, and the header of an answer; `tools` are shown, and messages of the
    roles. A setting of the template adds thoughts.
    """

    def __init__(self, *, shows_tools=True, roles=("system", "user", "assistant", "tool")):
        self._shows_tools, self._roles = shows_tools, roles

    def apply_chat_template(
        self, messages, *, add_generation_prompt, tools=(), thoughts=0, **options
    ):
        if not all(message["role"] in self._roles for message in messages):
            raise ValueError("roles must be system, user, assistant")
        shown = repr(tools) if tools and self._shows_tools else ""
        said = [c for m in messages for c in m["content"] + shown]
        return ["?"] * thoughts + said + [":"] * add_generation_prompt


@pytest.fixture(scope="module")
def probes():
    env = make_env("binary_matrix", style="compact", n_min=3, n_max=3)
    rows = [row_of(p, env.prompt(p), "train") for p in env.build(0, 40, 0).train]
    return [{**row, "raw_prompt": row["prompt"]} for row in rows]


COMPACT = [
    "rltf.env.style=compact",
    "rltf.env.n_min=3",
    "rltf.env.n_max=3",
    "rltf.episode.revise=compact",
]


def measured(config, rows):
    """The warnings about the rows' prompts."""
    parts = checks.checked_parts(config)
    questions = [question_of(parts.env, row) for row in rows[:32]]
    found = list(budget.check_prompt_budget(config, parts, questions, Tokenizer(), DryRun()))
    checks.require(found)
    return found


def test_a_prompt_budget_too_small_for_the_revise_prompt_says_what_is_needed(verl_config, probes):
    def check(tokens, *overrides, num=40):
        config = verl_config(
            *COMPACT,
            "rltf.feedback.level=full",
            "rltf.feedback.acknowledge_leaks=true",
            "rltf.feedback.guard.action=none",
            f"data.max_prompt_length={tokens}",
            *overrides,
        )
        measured(config, probes[:num])

    with pytest.raises(ConfigError) as refused:
        check(20)
    finding = refused.value.finding
    needed = int(re.search(r"set it to at least (\d+) plus", finding.fix)[1])
    assert finding.key == "data.max_prompt_length"
    check(needed)  # that very number is enough
    with pytest.raises(
        ConfigError, match=f"max_prompt_length={needed - 1}: .* for problem \\d+ before any attempt"
    ):
        check(needed - 1)
    levels = ["rltf.feedback.level=[location,full]", "rltf.episode.horizon=3"]
    with pytest.raises(ConfigError, match=f"max_prompt_length={needed}: "):
        check(
            needed, *levels
        )  # of several levels the longest counts: in this style, that of the place
    check(needed - 1, "rltf.episode.horizon=1", "rltf.distill.weight=0")  # no revise prompt at all
    check(1, num=0)


def test_a_prompt_that_is_too_long_only_with_much_of_a_judge_is_a_warning(verl_config, probes):
    def warnings(tokens, style="hint", max_tokens=1024):
        config = verl_config(*COMPACT, f"data.max_prompt_length={tokens}")
        endpoint = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "max_tokens": max_tokens}
        config.rltf.feedback = {"provider": "judge", "style": style, "endpoint": endpoint}
        return measured(config, probes)

    (finding,) = warnings(300)
    assert (finding.key, finding.level) == ("data.max_prompt_length", "warning")
    assert "32 of 32 problems" in finding.why
    needed = int(re.search(r"at least (\d+) plus", finding.fix)[1])
    assert warnings(needed) == []
    assert len(warnings(needed - 1)) == 1
    assert warnings(needed - 1, style="short") == []
    assert warnings(needed - 1, max_tokens=100) == []  # some 75 words
    with pytest.raises(ConfigError, match=r"max_prompt_length=12: the revise prompt .* needs"):
        warnings(12)


def test_feedback_modelling_without_a_single_row_is_refused(verl_config, probes, tmp_path):
    """The revise prompt fits, the critic prompt does not."""
    critic = tmp_path / "critic.j2"
    critic.write_text("{{ question }} {{ attempt }}" + "." * 200)

    def warnings(tokens, *overrides):
        modelled = [f"rltf.feedback_modeling.critic={critic}", "rltf.feedback_modeling.weight=0.1"]
        settings = [*COMPACT, *modelled, f"data.max_prompt_length={tokens}"]
        return measured(verl_config(*settings, *overrides), rows)

    rows = probes[:4]
    with pytest.raises(ConfigError, match=r"max_prompt_length=100: .*critic=") as refused:
        warnings(100)
    needed = int(re.search(r"at least (\d+) plus", str(refused.value))[1])
    assert warnings(needed) == []
    assert warnings(100, "rltf.feedback_modeling.weight=0") == []
    longer = [{**m, "content": m["content"] + "12345"} for m in rows[0]["raw_prompt"]]
    rows = [{**rows[0], "raw_prompt": longer}, *rows[1:]]
    (finding,) = warnings(needed)
    assert "does not fit at 1 of 4 problems" in finding.why


def test_the_chat_templates_settings_count_for_the_prompts_length(verl_config, probes):
    config = verl_config(
        *COMPACT, "data.max_prompt_length=500", "data.apply_chat_template_kwargs.thoughts=490"
    )
    with pytest.raises(
        ConfigError,
        match=r"data.max_prompt_length=500: the first prompt of problem \d+ has 502 tokens",
    ):
        measured(config, probes)


@pytest.mark.parametrize(
    ("tokenizer", "trouble"),
    [
        (Tokenizer(), "^$"),
        (Tokenizer(shows_tools=False), r"none of the tools of lookup; .*chat_template\.jinja"),
        (
            Tokenizer(roles=("system", "user", "assistant")),
            "whose messages are of user assistant tool",
        ),
    ],
)
def test_a_template_needs_tools_and_their_answers(verl_config, tokenizer, trouble):
    env = make_env("docs/examples/lookup.py:Lookup")
    problem = env.build(0, 1, 0).train[0]
    row = row_of(problem, env.prompt(problem), "train")
    config = verl_config("data.max_prompt_length=20000")
    parts = replace(checks.checked_parts(config), env=env)
    questions = [question_of(env, row)]
    found = budget.check_prompt_budget(config, parts, questions, tokenizer, DryRun())
    assert re.search(trouble, " ".join(map(str, found)))


def test_an_environment_that_never_opens_is_refused(verl_config, tmp_path):
    env = ActorEnv()
    env.fails = ("open",)
    parts = replace(checks.checked_parts(verl_config()), env=env)
    (finding,) = budget.check_world(parts, Problem("actor", 0, {}, ""), DryRun())
    assert "SystemExit" in finding.why


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


SEPARATE = (
    "trainer.v1.trainer_mode=rltf_separate_async",
    "trainer.v1.separate_async.parameter_sync_step=4",
    "data.train_batch_size=8",
    f"{ACTOR}.ppo_mini_batch_size=2",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
)
UNCLIPPED = f"{ACTOR}.policy_loss.loss_mode=importance_sampling"


EPOCHS = f"{ACTOR}.ppo_epochs=2"
TWO_UPDATES = "rltf.updates_per_batch=2"


@pytest.mark.parametrize(
    ("overrides", "key", "words"),
    [
        ((TWO_UPDATES, UNCLIPPED), UNCLIPPED, "(rltf.updates_per_batch=2)"),
        (
            (f"{ACTOR}.ppo_epochs=3", "rltf.distill.weight=0", UNCLIPPED),
            UNCLIPPED,
            f"({ACTOR}.ppo_epochs=3)",
        ),
        (
            (*SEPARATE, UNCLIPPED),
            UNCLIPPED,
            "(trainer.v1.separate_async.parameter_sync_step=4)",
        ),
        ((TWO_UPDATES, UNCLIPPED), UNCLIPPED, "choose rltf_ppo"),
        # the default clips
        ((TWO_UPDATES,), None, ""),
        ((f"{ACTOR}.ppo_epochs=3", "rltf.distill.weight=0"), None, ""),
        (SEPARATE, None, ""),
        # one update needs no trust region
        ((UNCLIPPED,), None, ""),
        ((SEPARATE[1], UNCLIPPED), None, ""),  # of a mode that is not the chosen one
        ((TWO_UPDATES, UNCLIPPED, "rltf.attempt.weight=0"), None, ""),
        # rows without a ratio
        ((EPOCHS,), "rltf.distill.reference=current", "set it to old with rltf.distill.loss=ppo"),
        ((EPOCHS, "rltf.distill.reference=old", "rltf.distill.loss=ppo"), None, ""),
        ((EPOCHS, "rltf.distill.weight=0"), None, ""),
    ],
)
def test_a_loss_that_clips_nothing_is_warned_about_where_the_ratio_moves(
    verl_config, caplog, overrides, key, words
):
    checks.checked_parts(verl_config(*overrides))
    texts = [record.getMessage() for record in caplog.records]
    keys = [text.partition(": ")[0] for text in texts if "update" in text or "epochs" in text]
    assert keys == ([key] if key else [])
    assert words in " ".join(texts)
