"""What is refused before a worker starts: one clear message each, on the real verl
configuration.
"""

import logging
import math
import re

import pyarrow.parquet as pq
import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo import core_algos
from verl.utils.config import omega_conf_to_dataclass

from rltf_verl.adapters.startup import budget, checks, files, machine
from rltf_verl.adapters.startup.verl_settings import TOKEN_SUM_LOSSES
from rltf_verl.config import ConfigError
from rltf_verl.data.build import build_parquet
from rltf_verl.data.schema import row_of
from rltf_verl.envs import make_env
from tests.support.engine.tiny_model import tiny_model

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def test_our_own_configuration_passes(verl_config):
    rltf = checks.check_config(verl_config())
    assert (rltf.distill.weight, rltf.distill.baseline, rltf.env.name) == (
        0.1,
        "first_turn",
        "binary_matrix",
    )


REFUSED = {  # what is set, and how the message starts
    "unknown key": ("rltf.gama=1", "rltf.gama=1: unknown key; did you mean rltf.gamma?"),
    "unknown nested key": (
        "rltf.distill.wieght=1",
        "rltf.distill.wieght=1: unknown key; did you mean rltf.distill.weight?",
    ),
    "wrong value": ("rltf.gamma=2", "rltf.gamma=2: must be in [0, 1]"),
    "unknown environment": (
        "rltf.env.name=binary_matrx",
        "rltf.env.name='binary_matrx': is not known; known: ",
    ),
    "unknown option": (
        "rltf.env.n_mim=3",
        "rltf.env.n_mim=3: binary_matrix has no option 'n_mim'; known: ",
    ),
    "option out of range": ("rltf.env.n_min=1", "rltf.env.n_min=1: must be in [2, 100]"),
    "unknown provider": (
        "rltf.feedback.provider=jugde",
        "rltf.feedback.provider='jugde': is not known; known: ",
    ),
    "unknown level": (
        "rltf.feedback.level=fully",
        "rltf.feedback.level='fully': is not known; known: ",
    ),
    "a provider that states the answer, and nobody said that it is meant to": (
        "rltf.feedback.level=full",
        "rltf.feedback.provider=verifier: it states the answer on purpose (",
    ),
    "unknown guard": (
        "rltf.feedback.guard.action=off",
        "rltf.feedback.guard.action=False: must be one of drop, ",
    ),
    "unknown template": (
        "rltf.episode.revise=guid",
        "rltf.episode.revise='guid': is not known; known: ",
    ),
    "bypass_mode": (
        "algorithm.rollout_correction.bypass_mode=true",
        "algorithm.rollout_correction.bypass_mode=True: old log-probs would be the sampler's, ",
    ),
    "constant feedback modelled": (
        "rltf.feedback_modeling.weight=0.1 rltf.feedback.level=verdict",
        (
            "rltf.feedback_modeling.weight=0.1: provider verifier always says the same or is the"
            " policy itself, "
        ),
    ),
    "inline without an appended context": (
        "rltf.feedback_modeling.weight=0.1 rltf.feedback_modeling.form=inline",
        "rltf.feedback_modeling.form=inline: needs rltf.episode.context=append, which is fresh",
    ),
    "an odd number of sessions in pairs": (
        f"rltf.episode.pair_sessions=true {ROLLOUT}.n=3",
        f"{ROLLOUT}.n=3: rltf.episode.pair_sessions=true needs an even number of episodes",
    ),
    "pairs in an asynchronous mode": (
        "rltf.episode.pair_sessions=true trainer.v1.trainer_mode=rltf_colocate_async",
        (
            "rltf.episode.pair_sessions=true: with trainer.v1.trainer_mode=rltf_colocate_async an"
            " interrupted first "
        ),
    ),
    "pairs on an engine without seeds": (
        f"rltf.episode.pair_sessions=true {ROLLOUT}.name=sglang",
        (
            "rltf.episode.pair_sessions=true: two episodes share a first answer by sharing its"
            " seed, which the engine sglang does not take"
        ),
    ),
    "unknown critic": (
        "rltf.feedback_modeling.critic=critic",
        "rltf.feedback_modeling.critic='critic': is not known; known: ",
    ),
    "KL in reward": (
        "algorithm.use_kl_in_reward=true",
        "algorithm.use_kl_in_reward=True: not supported ",
    ),
    "other estimator": ("algorithm.adv_estimator=grpo", "algorithm.adv_estimator=grpo: "),
    "other aggregation": (
        f"{ACTOR}.loss_agg_mode=token-mean",
        f"{ACTOR}.loss_agg_mode=token-mean: every role is ",
    ),
    "sapo": (
        f"{ACTOR}.policy_loss.loss_mode=sapo",
        f"{ACTOR}.policy_loss.loss_mode=sapo: not known to be a sum ",
    ),
    "geo_mean": (
        f"{ACTOR}.policy_loss.loss_mode=geo_mean",
        f"{ACTOR}.policy_loss.loss_mode=geo_mean: not known to ",
    ),
    "bypass_mode as a loss": (
        f"{ACTOR}.policy_loss.loss_mode=bypass_mode",
        f"{ACTOR}.policy_loss.loss_mode=bypass_mode: not known to ",
    ),
    "a loss nobody has": (
        f"{ACTOR}.policy_loss.loss_mode=mine",
        f"{ACTOR}.policy_loss.loss_mode=mine: not known to ",
    ),
    "reward function": (
        "reward.custom_reward_function.path=reward.py",
        (
            "reward.custom_reward_function.path=reward.py: the environment grades, so nothing would"
            " read it; "
        ),
    ),
    "reward function, old key": (
        "custom_reward_function.path=reward.py",
        "custom_reward_function.path=reward.py: the environment grades, ",
    ),
    "reward manager": (
        "reward.reward_manager.module.path=m.py",
        "reward.reward_manager.module.path=m.py: the env",
    ),
    "reward model": (
        "reward.reward_model.enable=true",
        "reward.reward_model.enable=True: the environment grades, ",
    ),
    "reward model, old key": (
        "reward_model.enable=true",
        "reward_model.enable=True: the environment grades, ",
    ),
    "sandbox of verl": (
        "reward.sandbox_fusion.url=http://x/run",
        "reward.sandbox_fusion.url=http://x/run: the env",
    ),
    "critic": (
        "critic.enable=true",
        "critic.enable=True: there is no value model, it would be trained and not used",
    ),
    "pf_ppo": (
        "algorithm.use_pf_ppo=true",
        "algorithm.use_pf_ppo=True: rows are not resampled; set it to False",
    ),
    "tools": (
        f"{ROLLOUT}.multi_turn.enable=true",
        f"{ROLLOUT}.multi_turn.enable=True: the agent loop rltf plays ",
    ),
    "tool file": (
        f"{ROLLOUT}.multi_turn.tool_config_path=t.yaml",
        f"{ROLLOUT}.multi_turn.tool_config_path=t.yaml: ",
    ),
    "other agent loops": (
        f"{ROLLOUT}.agent.agent_loop_config_path=a.yaml",
        f"{ROLLOUT}.agent.agent_loop_config_path=",
    ),
    "loss scale": (
        f"{ACTOR}.loss_scale_factor=2",
        f"{ACTOR}.loss_scale_factor=2: every role is divided by one ",
    ),
    "no end": (
        f"{ROLLOUT}.ignore_eos=true",
        f"{ROLLOUT}.ignore_eos=True: no answer would ever end; ",
    ),
    "routes": (
        f"{ROLLOUT}.enable_rollout_routing_replay=true",
        f"{ROLLOUT}.enable_rollout_routing_replay=True: the ",
    ),
    "prompt key": (
        "data.prompt_key=question",
        "data.prompt_key=question: the rows' questions are in the column ",
    ),
    "engine shorter than prompt and answer": (
        f"{ROLLOUT}.max_model_len=4095",
        (
            f"{ROLLOUT}.max_model_len=4095: shorter than data.max_prompt_length +"
            " data.max_response_length, so answers would be cut before their limit; set it to at"
            " least 4096, or null"
        ),
    ),
    "another answer length for the engine": (
        f"{ROLLOUT}.response_length=64",
        f"{ROLLOUT}.response_length=64: must be data.max_response_length=2048, ",
    ),
    "distillation": ("distillation.enabled=true", "distillation.enabled=True: "),
    "no log-probs": (
        f"{ROLLOUT}.calculate_log_probs=false",
        f"{ROLLOUT}.calculate_log_probs=False: ",
    ),
    "filter_groups": (
        "algorithm.filter_groups.enable=true",
        "algorithm.filter_groups.enable=True: ",
    ),
    "rounds without an end": (
        "rltf.refill_rounds=2 trainer.v1.trainer_mode=rltf_colocate_async",
        (
            "rltf.refill_rounds=2: with trainer.v1.trainer_mode=rltf_colocate_async a batch is what"
            " is ready, "
        ),
    ),
    "fetches of several problems": (
        "rltf.refill_rounds=2 data.gen_batch_size=8",
        (
            "data.gen_batch_size=8: rltf.refill_rounds=2 plays single further problems; set it to"
            " null, "
        ),
    ),
    "recorded batches": (
        "rltf.refill_rounds=2 skip.rollout_tq.enable=true",
        "skip.rollout_tq.enable=True: a batch of rltf.refill_rounds=2 is not what was recorded; ",
    ),
    "negative rounds": (
        "rltf.refill_rounds=-1",
        "rltf.refill_rounds=-1: must be at least 0; 0 is off",
    ),
    "verl's trainer": (
        "trainer.v1.trainer_mode=sync",
        "trainer.v1.trainer_mode=sync: with an rltf: block it must be ",
    ),
    "verl's worker": (
        f"{ROLLOUT}.agent.agent_loop_manager_class=null",
        (
            f"{ROLLOUT}.agent.agent_loop_manager_class=None: must be"
            " rltf_verl.adapters.rollout.agent_worker."
        ),
    ),
    "critic_warmup": (
        "trainer.critic_warmup=2",
        "trainer.critic_warmup=2: there is no value model; set it to 0",
    ),
    "old trainer": (
        "trainer.use_v1=false",
        "trainer.use_v1=False: the rltf trainers are V1 trainers; set it to True",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_with_key_value_and_fix(verl_config, case):
    override, message = REFUSED[case]
    with pytest.raises(ValueError, match="^" + re.escape(message)):  # ConfigError is one
        checks.check_config(verl_config(*override.split(" ")))


IGNORED = {
    "algorithm.gamma=0.9": (
        "algorithm.gamma=0.9: has no effect with an rltf: block; rltf.gamma is the discount"
    ),
    "algorithm.lam=0.95": (
        "algorithm.lam=0.95: has no effect with an rltf: block; there is no value model"
    ),
    "algorithm.norm_adv_by_std_in_grpo=true": (
        "algorithm.norm_adv_by_std_in_grpo=True: has no effect with an rltf: "
    ),
    "reward.reward_manager.name=dapo": (
        "reward.reward_manager.name=dapo: has no effect with an rltf: block; "
    ),
    "data.truncation=left": (
        "data.truncation=left: has no effect with an rltf: block; a question is never cut"
    ),
    f"{ACTOR}.ppo_mini_batch_size=8": (
        f"{ACTOR}.ppo_mini_batch_size=8: has no effect with an rltf: block; "
    ),
    f"{ROLLOUT}.multi_turn.max_user_turns=3": (
        f"{ROLLOUT}.multi_turn.max_user_turns=3: has no effect with an "
    ),
}


@pytest.mark.parametrize("override", IGNORED)
def test_what_has_no_effect_is_a_warning_that_names_the_key(verl_config, caplog, override):
    with caplog.at_level(logging.WARNING):
        checks.check_config(verl_config(override))
    (record,) = [r for r in caplog.records if r.name == checks.__name__]
    assert record.getMessage().startswith(IGNORED[override])


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
    def loss():
        """Never called here."""

    monkeypatch.setitem(core_algos.POLICY_LOSS_REGISTRY, "mine", loss)
    config = verl_config(f"{ACTOR}.policy_loss.loss_mode=mine")
    with pytest.raises(ConfigError, match="set rltf_token_sum=True on the function"):
        checks.check_config(config)
    loss.rltf_token_sum = True
    checks.check_config(config)


def test_a_config_without_our_block_says_where_to_start(verl_config):
    config = verl_config()
    del config["rltf"]
    with pytest.raises(ConfigError, match="no `rltf:` block in the config: start from a config"):
        checks.check_config(config)


def test_an_untested_verl_is_a_warning_that_names_both_versions(verl_config, monkeypatch, caplog):
    monkeypatch.setattr("rltf_verl.adapters.compat.version", lambda name: "0.10.0")
    with caplog.at_level(logging.WARNING):
        checks.check_config(verl_config())
    (record,) = [r for r in caplog.records if r.name == checks.__name__]
    assert "verl 0.10.0 is outside the tested range" in record.getMessage()
    assert "0.9.1" in record.getMessage()


def test_the_installed_verl_is_no_warning(verl_config, caplog):
    with caplog.at_level(logging.WARNING):
        checks.check_config(verl_config())
    assert not [r for r in caplog.records if r.name == checks.__name__]


@pytest.fixture
def platform(monkeypatch):
    """Pretend to be on another machine."""

    def pretend(name, available=True):
        class Device:
            is_available = staticmethod(lambda: available)

        monkeypatch.setattr("verl.utils.device.get_device_name", lambda: name)
        monkeypatch.setattr("verl.utils.device.get_torch_device", lambda: Device)
        monkeypatch.delenv("RAY_ADDRESS", raising=False)

    return pretend


def test_hardware_cpu_needs_the_environment_variable(verl_config, platform, monkeypatch):
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    platform("cuda")
    with pytest.raises(
        ConfigError, match=r"rltf/hardware=cpu but VERL_PLATFORM=''.*start with VERL_PLATFORM=cpu"
    ):
        machine.check_platform(verl_config())


def test_the_environment_variable_needs_hardware_cpu(verl_config, platform):
    platform("cpu")
    with pytest.raises(
        ConfigError, match=r"VERL_PLATFORM=cpu but trainer.device=cuda: add rltf/hardware=cpu"
    ):
        machine.check_platform(verl_config(hardware="gpu"))


def test_a_machine_without_accelerator_is_told_both(verl_config, platform, monkeypatch):
    platform("cuda", available=False)
    with pytest.raises(
        ConfigError, match=r"no accelerator.*VERL_PLATFORM=cpu and rltf/hardware=cpu.*RAY_ADDRESS"
    ):
        machine.check_platform(verl_config(hardware="gpu"))
    monkeypatch.setenv("RAY_ADDRESS", "auto")  # the driver of a cluster needs no GPU of its own
    machine.check_platform(verl_config(hardware="gpu"))


def test_a_reference_model_cannot_be_kept_on_a_cpu(verl_config, platform):
    platform("cpu")
    with pytest.raises(ConfigError, match=r"actor.use_kl_loss=True: .*on a CPU set it to False"):
        machine.check_platform(verl_config(f"{ACTOR}.use_kl_loss=true"))
    lora = "actor_rollout_ref.model.lora_rank=4"  # verl then makes no reference model
    machine.check_platform(verl_config(f"{ACTOR}.use_kl_loss=true", lora))


def test_machines_that_fit_pass(verl_config, platform):
    platform("cpu", available=False)
    machine.check_platform(verl_config())
    platform("cuda")
    machine.check_platform(verl_config(hardware="gpu"))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return build_parquet("binary_matrix", tmp_path_factory.mktemp("data"), 0, 4, 4)


def test_rows_longer_than_a_micro_batch_are_refused_where_verl_would_fail(verl_config):
    limit = f"{ACTOR}.ppo_max_token_len_per_gpu=2048"
    with pytest.raises(ConfigError, match=rf"^{limit}: a row can have .* set it to at least \d+$"):
        budget.check_row_budget(verl_config(limit, "data.max_response_length=4096"))


@pytest.fixture(scope="module")
def startable(tmp_path_factory):
    """What a run on this machine needs beside its data."""
    model = tiny_model(tmp_path_factory.mktemp("model") / "tiny")
    return [
        f"actor_rollout_ref.model.path={model}",
        "trainer.logger=[console]",
        "data.train_batch_size=4",
        "data.max_prompt_length=5000",
    ]


def test_the_driver_checks_the_files_too(verl_config, platform, dataset, startable, tmp_path):
    platform("cpu")
    good = [*startable, f"data.train_files={dataset.train}", f"data.val_files=[{dataset.test}]"]
    checks.check_driver(verl_config(*good))

    broken = tmp_path / "broken.parquet"
    pq.write_table(pq.read_table(dataset.train).drop(["reward_model"]), broken)
    with pytest.raises(
        ValueError,
        match=r"broken.parquet has no column reward_model: make the dataset with `rltf data build`",
    ):
        checks.check_driver(verl_config(*good, f"data.val_files={broken}"))
    nowhere = tmp_path / "nowhere.parquet"
    with pytest.raises(
        ConfigError,
        match=f"^data.train_files={nowhere}: no such file, seen from .*; make the dataset",
    ):
        checks.check_driver(verl_config(*good, f"data.train_files={nowhere}"))
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(
        ConfigError, match=r"^data.val_files: .*text.parquet is not a parquet file .*: make "
    ):
        checks.check_driver(verl_config(*good, f"data.val_files={tmp_path}/text.parquet"))


def test_rows_of_another_environment_are_refused_in_both_files(
    verl_config, platform, dataset, tmp_path
):
    platform("cpu")
    other = build_parquet("knights_knaves", tmp_path / "kk", 0, 4, 4, n_people=2)
    good = {"data.train_files": dataset.train, "data.val_files": dataset.test}
    for key, path in (("data.train_files", other.train), ("data.val_files", other.test)):
        message = (
            f"{key}={path}: its rows were made for the environment knights_knaves (extra_info.env),"
            " and rltf.env.name is binary_matrix; add rltf/env=knights_knaves, or name a file of"
            " binary_matrix"
        )
        with pytest.raises(ConfigError, match="^" + re.escape(message)):
            checks.check_driver(verl_config(*(f"{k}={v}" for k, v in {**good, key: path}.items())))


FOLDERS = {
    "episode log": ("rltf.episode_log.dir", []),
    "record": ("rltf.feedback.record_dir", []),
    "judge": (
        "rltf.feedback.cache_dir",
        [
            "rltf.feedback.provider=judge",
            "rltf.feedback.endpoint={base_url: http://j/v1, model: m}",
            "rltf.feedback.guard.action=drop",
        ],
    ),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_a_folder_that_cannot_be_made_is_refused(verl_config, tmp_path, case):
    key, others = FOLDERS[case]
    (tmp_path / "file").write_text("in the way")
    bad, good = tmp_path / "file" / "log", tmp_path / "new" / "log"

    def check(folder):
        config = verl_config(f"rltf.episode_log.dir={tmp_path}", *others)
        if others:
            del config.rltf.feedback["level"]
        OmegaConf.update(config, key, str(folder))
        files.check_folders(checks.check_config(config))

    with pytest.raises(
        ConfigError,
        match=re.escape(f"{key}={bad}: cannot be written (Not a directory); name another"),
    ):
        check(bad)
    check(good)
    assert not good.parent.exists(), "whoever writes first makes it"


def test_a_run_that_hydra_started_ends_with_one_line(verl_config, platform, monkeypatch):
    """In a process of its own a refusal stays a ConfigError, see below."""
    from verl.utils import config as verl_utils

    platform("cpu")
    monkeypatch.setattr("rltf_verl.adapters.startup.hook.HydraConfig.initialized", lambda: True)
    with pytest.raises(SystemExit) as ended:
        verl_utils.validate_config(
            verl_config("rltf.gamma=2", "trainer.experiment_name=x"), False, False
        )
    assert (
        ended.value.code == "rltf: rltf.gamma=2: must be in [0, 1]"
    )  # printed to stderr; the exit code is 1


def test_verls_own_validation_refuses_for_us_and_leaves_others_alone(verl_config, platform):
    from verl.utils import config as verl_utils

    platform("cpu")
    with pytest.raises(ConfigError, match="it must be one of rltf_sync"):
        verl_utils.validate_config(verl_config("trainer.v1.trainer_mode=sync"), False, False)


class CharTokenizer:
    """One token per character."""

    def apply_chat_template(self, messages, add_generation_prompt, tokenize, return_dict):
        assert add_generation_prompt
        assert tokenize
        assert not return_dict
        return [c for m in messages for c in m["content"]]


@pytest.fixture(scope="module")
def probes():
    env = make_env("binary_matrix", style="compact", n_min=3, n_max=3)
    rows = [row_of(p, env.prompt(p), "train") for p in env.build(0, 40, 0).train]
    return [{**row, "raw_prompt": row["prompt"]} for row in rows]


TELLS = [
    "rltf.feedback.level=full",
    "rltf.feedback.acknowledge_leaks=true",
    "rltf.feedback.guard.action=none",
]
COMPACT = [
    "rltf.env.style=compact",
    "rltf.env.n_min=3",
    "rltf.env.n_max=3",
    "rltf.episode.revise=compact",
]


def test_a_prompt_budget_too_small_for_the_revise_prompt_says_what_is_needed(verl_config, probes):
    def check(tokens, *overrides, num=40):
        config = verl_config(*COMPACT, *TELLS, f"data.max_prompt_length={tokens}", *overrides)
        budget.check_prompt_budget(
            config, checks.checked_parts(config), probes[:num], CharTokenizer()
        )

    with pytest.raises(ConfigError) as refused:
        check(20)
    message = str(refused.value)
    needed = int(re.search(r"set it to at least (\d+) plus the length of an attempt", message)[1])
    assert message.startswith(
        "data.max_prompt_length=20: the revise prompt of template compact needs"
    )
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
    def told(tokens, style="hint", max_tokens=1024):
        config = verl_config(*COMPACT, f"data.max_prompt_length={tokens}")
        endpoint = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "max_tokens": max_tokens}
        config.rltf.feedback = {"provider": "judge", "style": style, "endpoint": endpoint}
        lines = []
        parts = checks.checked_parts(config)
        budget.check_prompt_budget(config, parts, probes, CharTokenizer(), lines.append)
        return lines

    (line,) = told(300)
    assert line.startswith(
        "data.max_prompt_length=300: a judge may write 200 words, and with so many the revise"
        " prompt does not fit at 32 of 32 problems (up to "
    )
    needed = int(re.search(r"Set it to at least (\d+) plus", line)[1])
    assert told(needed) == []
    assert len(told(needed - 1)) == 1
    assert told(needed - 1, style="short") == []
    assert told(needed - 1, max_tokens=100) == []  # some 75 words
    with pytest.raises(ConfigError, match=r"max_prompt_length=11: the revise prompt .* needs"):
        told(11)


def test_a_first_prompt_above_the_limit_is_refused(verl_config, probes):
    config = verl_config(
        *COMPACT, "data.max_prompt_length=5", "rltf.episode.horizon=1", "rltf.distill.weight=0"
    )
    message = (
        r"data.max_prompt_length=5: the first prompt of problem \d+ has 11 tokens; raise it, or"
        r" leave such "
    )
    with pytest.raises(ConfigError, match=message):
        budget.check_prompt_budget(config, checks.checked_parts(config), probes, CharTokenizer())


def test_the_chat_templates_settings_count_for_the_prompts_length(verl_config, probes):
    class Thinking(CharTokenizer):
        def apply_chat_template(
            self, messages, add_generation_prompt, tokenize, return_dict, thoughts=0
        ):
            return ["?"] * thoughts + super().apply_chat_template(
                messages, add_generation_prompt, tokenize, return_dict
            )

    config = verl_config(
        *COMPACT, "data.max_prompt_length=500", "data.apply_chat_template_kwargs.thoughts=490"
    )
    with pytest.raises(
        ConfigError,
        match=r"data.max_prompt_length=500: the first prompt of problem \d+ has 501 tokens",
    ):
        budget.check_prompt_budget(config, checks.checked_parts(config), probes, Thinking())
