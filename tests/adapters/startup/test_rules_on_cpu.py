"""Every row of the tables of rules: the config that triggers it gives its finding and no other."""

from collections import Counter

import pytest

from rltf_verl.adapters.startup.rules import IGNORED, RLTF, USELESS, VERL, rule_findings
from rltf_verl.findings import Finding, Rule, findings

ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
MODE = "trainer.v1.trainer_mode"
COLOCATED = f"{MODE}=rltf_colocate_async"
SEPARATE = (
    f"{MODE}=rltf_separate_async {ROLLOUT}.nnodes=1 {ROLLOUT}.n_gpus_per_node=1"
    f" {ROLLOUT}.checkpoint_engine.backend=nccl"
    f" data.train_batch_size=32 {ACTOR}.ppo_mini_batch_size=8"
)
BEST = "rltf.keep_best=val-core/x/acc/mean@1 trainer.test_freq=6 trainer.save_freq=3"
SWITCHES = ("enable", "enabled", "bypass_mode", "eos", "replay", "pf_ppo", "reward")
OTHERS = {
    "data.truncation": "left",
    "reward.reward_manager.name": "dapo",
    "algorithm.norm_adv_by_std_in_grpo": "true",
    "trainer.critic_warmup": "2",
    f"{ACTOR}.loss_scale_factor": "2",
}


def other(key: str) -> str:
    """A value of the key that is neither empty nor the usual one."""
    return OTHERS.get(key) or ("true" if key.endswith(SWITCHES) else "0.9")


CASES: list[tuple[str, str, str]] = [
    *((f"{key}={other(key)}", key, "error") for key in USELESS),
    *((f"{key}={other(key)}", key, "warning") for key in IGNORED),
    ("trainer.use_v1=false", "trainer.use_v1", "error"),
    ("algorithm.adv_estimator=grpo", "algorithm.adv_estimator", "error"),
    (f"{ACTOR}.loss_agg_mode=token-mean", f"{ACTOR}.loss_agg_mode", "error"),
    (f"{ACTOR}.policy_loss.loss_mode=sapo", f"{ACTOR}.policy_loss.loss_mode", "error"),
    (f"{ROLLOUT}.calculate_log_probs=false", f"{ROLLOUT}.calculate_log_probs", "error"),
    (f"{MODE}=sync", MODE, "error"),
    (
        f"{ROLLOUT}.agent.agent_loop_manager_class=null",
        f"{ROLLOUT}.agent.agent_loop_manager_class",
        "error",
    ),
    ("data.prompt_key=question", "data.prompt_key", "error"),
    (f"{ROLLOUT}.prompt_length=64", f"{ROLLOUT}.prompt_length", "error"),
    (f"{ROLLOUT}.response_length=64", f"{ROLLOUT}.response_length", "error"),
    (f"{ROLLOUT}.max_model_len=4095", f"{ROLLOUT}.max_model_len", "error"),
    (f"{SEPARATE} {ROLLOUT}.nnodes=0", f"{ROLLOUT}.nnodes", "error"),
    (
        f"{SEPARATE} {ROLLOUT}.checkpoint_engine.backend=naive",
        f"{ROLLOUT}.checkpoint_engine.backend",
        "error",
    ),
    (
        f"{SEPARATE} trainer.v1.separate_async.parameter_sync_step=2",
        f"{ACTOR}.ppo_mini_batch_size",
        "error",
    ),
    (
        f"{COLOCATED} data.train_batch_size=1000 {ACTOR}.ppo_mini_batch_size=1000 {ROLLOUT}.n=8"
        " trainer.n_gpus_per_node=8",
        f"{ROLLOUT}.max_num_seqs",
        "error",
    ),
    (f"{SEPARATE} {MODEL}.lora_rank=4", f"{MODEL}.lora.merge", "error"),
    (f"{ACTOR}.strategy=fsdp {MODEL}.lora_rank=4", f"{ACTOR}.strategy", "error"),  # peft >= 0.21
    (f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.use_kl_loss", "error"),
    (f"{ACTOR}.ppo_mini_batch_size=8", f"{ACTOR}.ppo_mini_batch_size", "warning"),
    (f"{BEST} trainer.save_freq=4", "rltf.keep_best", "error"),
    (f"{BEST} {ACTOR}.checkpoint.async_save=true", f"{ACTOR}.checkpoint.async_save", "error"),
    (f"{COLOCATED} rltf.feedback.provider=shuffled", "trainer.v1.trainer_mode", "error"),
    (
        f"rltf.feedback.provider=shuffled data.train_batch_size=9 {ROLLOUT}.agent.num_workers=8",
        "data.train_batch_size",
        "error",
    ),
    (
        "rltf.feedback.provider=shuffled rltf.refill_rounds=1",
        "rltf.refill_rounds",
        "error",
    ),
    (f"rltf.episode.pair_sessions=true {ROLLOUT}.n=3", f"{ROLLOUT}.n", "error"),
    (f"rltf.episode.pair_sessions=true {COLOCATED}", "rltf.episode.pair_sessions", "error"),
    (
        f"rltf.episode.pair_sessions=true {ROLLOUT}.name=sglang",
        "rltf.episode.pair_sessions",
        "error",
    ),
    (f"rltf.refill_rounds=2 {COLOCATED}", "rltf.refill_rounds", "error"),
    ("rltf.refill_rounds=2 data.gen_batch_size=8", "data.gen_batch_size", "error"),
    ("rltf.refill_rounds=2 skip.rollout_tq.enable=true", "skip.rollout_tq.enable", "error"),
]
FINE = (
    "",
    SEPARATE,
    f"{SEPARATE} {MODEL}.lora_rank=4 {MODEL}.lora.merge=true",
    f"{COLOCATED} {MODEL}.lora_rank=4",
    f"{ACTOR}.strategy=fsdp",
    f"{ACTOR}.strategy=fsdp {MODEL}.lora_rank=4 {MODEL}.lora.merge=true",
    f"{ACTOR}.use_kl_loss=true {MODEL}.lora_rank=4",
    f"{ROLLOUT}.max_model_len=4096",
    f"{COLOCATED} data.train_batch_size=124 {ACTOR}.ppo_mini_batch_size=124 {ROLLOUT}.n=8",
    f"{COLOCATED} data.train_batch_size=1000 {ACTOR}.ppo_mini_batch_size=1000 {ROLLOUT}.n=8"
    f" {ROLLOUT}.max_num_seqs=8000",
    f"data.train_batch_size=1000 {ACTOR}.ppo_mini_batch_size=1000 {ROLLOUT}.n=8",
    BEST,
    "rltf.feedback.provider=siblings",
    f"{COLOCATED} rltf.teacher.shuffled=true",
    f"rltf.feedback.provider=shuffled data.train_batch_size=16 {ROLLOUT}.agent.num_workers=8",
)


@pytest.fixture
def fired(verl_config):
    def of(overrides: str) -> list[Finding]:
        config = verl_config(*overrides.split())
        return [*rule_findings(config, "error"), *rule_findings(config, "warning")]

    return of


@pytest.mark.parametrize(("overrides", "key", "level"), CASES)
def test_a_row_is_the_finding_of_its_config(fired, overrides: str, key: str, level: str) -> None:
    (finding,) = fired(overrides)
    assert (finding.key, finding.level) == (key, level)
    assert "{" not in finding.why + finding.fix
    assert "None" not in finding.why + finding.fix
    assert "\n" not in str(finding)


@pytest.mark.parametrize("overrides", FINE)
def test_a_config_that_works_has_no_finding(fired, overrides: str) -> None:
    assert fired(overrides) == []


@pytest.mark.parametrize("key", ["trainer.save_freq", "trainer.test_freq"])
def test_a_best_checkpoint_needs_validations_and_checkpoints(fired, key: str) -> None:
    assert [finding.key for finding in fired(f"{BEST} {key}=-1")] == ["rltf.keep_best"]


def test_each_row_has_a_case() -> None:
    rows = Counter((rule.key, rule.level) for rule in (*VERL, *RLTF))
    assert rows == Counter((key, level) for _, key, level in CASES)


def test_a_finding_names_the_value_and_fills_in_other_settings() -> None:
    rule: Rule[int] = Rule("a.b", lambda n: n > 1, "{a.c} is less, {} is text", "set it to {d}")
    settings = {"a": {"b": 5, "c": 3}, "d": "x"}
    assert [*map(str, findings([rule], 2, settings))] == [
        "a.b=5: 3 is less, {} is text; set it to x"
    ]
    assert [*findings([rule], 1, settings)] == []
