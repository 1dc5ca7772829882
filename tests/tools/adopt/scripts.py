"""Launch scripts as verl's users write them: what is in each, and what adopting it must show."""

from dataclasses import dataclass

COMMON = r"""\
    data.train_files=$HOME/data/gsm8k/train.parquet \
    data.val_files=$HOME/data/gsm8k/test.parquet \
    data.max_prompt_length=512 data.max_response_length=1024 \
    actor_rollout_ref.rollout.name=vllm \
"""


@dataclass(frozen=True)
class Script:
    """A script, parts of the command that must come out, and parts of the reasons."""

    text: str
    command: tuple[str, ...]
    reasons: tuple[str, ...]


SCRIPTS = {
    "GRPO, 7B, FSDP": Script(
        rf"""set -x

python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo {COMMON}    data.train_batch_size=1024 \
    data.truncation='error' \
    actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct \
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=40 \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.rollout.n=5 \
    trainer.logger='["console","wandb"]' \
    trainer.experiment_name='qwen2_7b' $@
""",
        (
            "data.train_files=/home/u/data/gsm8k/train.parquet",
            "rltf.updates_per_batch=4",
            "actor_rollout_ref.rollout.n=5",
            'trainer.logger=["console","wandb"]',
            "data.max_prompt_length=1536",
            "trainer.experiment_name=qwen2_7b_rltf_sd",
            "actor_rollout_ref.rollout.val_kwargs.do_sample=false",
        ),
        (
            "algorithm.adv_estimator=grpo dropped: the rltf trainers compute",
            "ppo_micro_batch_size_per_gpu=40 dropped",
            "algorithm.norm_adv_by_std_in_grpo=false",
            "data.train_files=/home/u/data/gsm8k/train.parquet: not on this machine",
        ),
    ),
    "arrays, case and a probe of the device": Script(
        r"""#!/usr/bin/env bash
# knobs: INFER_BACKEND
set -xeuo pipefail
DEVICE=${DEVICE:-$(ls /no/device 2>/dev/null && echo npu || echo gpu)}
INFER_BACKEND=${INFER_BACKEND:-vllm}
MODEL_PATH=${MODEL_PATH:-Qwen/Qwen3-8B}
export CUDA_DEVICE_MAX_CONNECTIONS=1
name=qwen3_${INFER_BACKEND}_$(echo today)
EXTRA=()
case "${DEVICE}" in
    gpu | cuda)
        tp=${tp:-2}
        if [ "${INFER_BACKEND}" = sglang ] && [[ -n "$MODEL_PATH" ]]; then
            EXTRA+=(+actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend=fa3)
        fi
        ;;
    *) echo "DEVICE? ${DEVICE}" >&2; exit 1 ;;
esac
DATA=(
    algorithm.adv_estimator=grpo   # the method
    data.train_files="['$HOME/a.parquet', '$HOME/b.parquet']"
    data.val_files="['$HOME/c.parquet']"
    data.max_prompt_length=$((1024 * 2))
)
ACTOR=(actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.optim.lr=1e-6)
ROLLOUT=(
    actor_rollout_ref.rollout.name=${INFER_BACKEND}
    actor_rollout_ref.rollout.tensor_model_parallel_size=${tp}
)
python3 -m verl.trainer.main_ppo \
    "${DATA[@]}" actor_rollout_ref.model.path="$MODEL_PATH" "${ACTOR[@]}" "${ROLLOUT[@]}" \
    "${EXTRA[@]}" trainer.experiment_name=${name} "$@" 2>&1 | tee log.txt
""",
        (
            "data.train_files=['/home/u/a.parquet', '/home/u/b.parquet']",
            "data.train_batch_size=1024",
            "rltf.updates_per_batch=4",
            "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
        ),
        ("trainer.experiment_name=qwen3_vllm_today_rltf_sd",),
    ),
    "Megatron": Script(
        rf"""export CUDA_DEVICE_MAX_CONNECTIONS=1
actor_tp=${{ACTOR_TP:-2}}
EXTRA=(model_engine=megatron)
python3 -m verl.trainer.main_ppo {COMMON}    algorithm.adv_estimator=grpo \
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=${{actor_tp}} \
    "${{EXTRA[@]}}"
""",
        ("model_engine=megatron", "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2"),
        (),
    ),
    "Megatron, the old config": Script(
        rf"""python3 -m verl.trainer.main_ppo --config-path=config \
    --config-name='ppo_megatron_trainer.yaml' {COMMON}    algorithm.adv_estimator=grpo \
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 \
    actor_rollout_ref.actor.megatron.grad_offload=True
""",
        (
            "model_engine=megatron",
            "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2",
        ),
        ("grad_offload=True dropped: verl has no such key",),
    ),
    "LoRA on sglang": Script(
        rf"""python3 -m verl.trainer.main_ppo {COMMON}    algorithm.adv_estimator=grpo \
    actor_rollout_ref.model.lora_rank=64 actor_rollout_ref.model.lora_alpha=32 \
    actor_rollout_ref.rollout.load_format=safetensors \
    actor_rollout_ref.rollout.layered_summon=True \
    actor_rollout_ref.rollout.name=sglang
""",
        ("actor_rollout_ref.model.lora_rank=64", "actor_rollout_ref.rollout.name=sglang"),
        (),
    ),
    "several turns and tools": Script(
        rf"""ulimit -n 65535
PROJECT_DIR="$(cd / && pwd)"
function now() {{
    date '+%d-%H-%M'
}}
python3 -m verl.trainer.main_ppo {COMMON}    algorithm.adv_estimator=grpo \
    data.return_raw_chat=True \
    actor_rollout_ref.rollout.name=sglang \
    actor_rollout_ref.rollout.multi_turn.enable=True \
    actor_rollout_ref.rollout.multi_turn.max_assistant_turns=2 \
    actor_rollout_ref.rollout.multi_turn.tool_config_path="$PROJECT_DIR/tools.yaml"
""",
        (),
        (
            "multi_turn.enable=True dropped: ",
            "multi_turn.max_assistant_turns=2 dropped: ",
            "multi_turn.tool_config_path=//tools.yaml dropped: ",
        ),
    ),
    "one step off, in main_ppo's own mode": Script(
        rf"""python3 -m verl.trainer.main_ppo {COMMON}    algorithm.adv_estimator=grpo \
    trainer.v1.trainer_mode=separate_async \
    trainer.v1.separate_async.parameter_sync_step=2 \
    data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=32 \
    actor_rollout_ref.rollout.nnodes=1 actor_rollout_ref.rollout.n_gpus_per_node=4 \
    actor_rollout_ref.rollout.checkpoint_engine.backend=nccl
""",
        (
            "trainer.v1.trainer_mode=rltf_separate_async",
            "actor_rollout_ref.actor.ppo_mini_batch_size=32",
        ),
        (),
    ),
    "a reward function": Script(
        rf"""cd "$(dirname "$0")"
python3 -m verl.trainer.main_ppo {COMMON}    algorithm.adv_estimator=grpo \
    custom_reward_function.path=reward.py custom_reward_function.name=score \
    data.reward_fn_key=source \
    trainer.default_local_dir=/ckpts/mine/
""",
        (
            "custom_reward_function.path=reward.py",
            "custom_reward_function.name=score",
            "rltf/env=reward_function",
            "trainer.default_local_dir=/ckpts/mine_rltf_sd",
        ),
        (
            "data.reward_fn_key=source dropped: has no effect with an rltf: block",
            "custom_reward_function.path=reward.py: grades",
            "custom_reward_function.path=reward.py: not on this machine",
        ),
    ),
    "names of old versions": Script(
        rf"""python3 -m verl.trainer.main_ppo {COMMON}    algorithm.adv_estimator=grpo \
    reward_model.reward_manager=prime \
    actor_rollout_ref.rollout.log_prob_micro_batch_size=32 \
    actor_rollout_ref.actor.ulysses_sequence_parallel=2 \
    +trainer.val_before_train=False \
    trainer.critic_warmup=0 \
    critic.strategy=fsdp2
""",
        ("trainer.val_before_train=False",),
        (
            "reward_model.reward_manager=prime dropped: the environment grades",
            "ulysses_sequence_parallel=2 dropped: verl has no such key",
            "critic.strategy=fsdp2 dropped: no value model",
        ),
    ),
    "DAPO": Script(
        rf"""gen_bsz=$((512 * 3))
python3 -m recipe.dapo.main_dapo {COMMON}    algorithm.adv_estimator=grpo \
    data.truncation='left' data.train_batch_size=512 data.gen_batch_size=${{gen_bsz}} \
    +algorithm.filter_groups.enable=True \
    +algorithm.filter_groups.max_num_gen_batches=10 \
    actor_rollout_ref.actor.clip_ratio_high=0.28 \
    actor_rollout_ref.actor.ppo_mini_batch_size=32 \
    reward_model.reward_manager=dapo \
    +reward_model.reward_kwargs.overlong_buffer_cfg.len=512
""",
        (
            "rltf.refill_rounds=10",
            "rltf.updates_per_batch=16",
            "actor_rollout_ref.actor.clip_ratio_high=0.28",
        ),
        ("reward_kwargs.overlong_buffer_cfg.len=512 dropped", "data.truncation=left dropped"),
    ),
    "one answer, KL in the reward, a loss that is no sum": Script(
        rf"""python3 -m verl.trainer.main_ppo {COMMON}    algorithm.adv_estimator=remax \
    algorithm.use_kl_in_reward=True algorithm.kl_ctrl.kl_coef=0.01 \
    actor_rollout_ref.actor.policy_loss.loss_mode=geo_mean \
    actor_rollout_ref.rollout.n=1
""",
        (
            "actor_rollout_ref.rollout.n=8",
            "actor_rollout_ref.actor.use_kl_loss=true",
            "actor_rollout_ref.actor.kl_loss_coef=0.01",
        ),
        ("loss_mode=geo_mean dropped: not known to be a sum over tokens",),
    ),
}

REFUSED = {
    "algorithm.adv_estimator=gae: this run trains a value model": "",  # verl's default
    "reward_model.enable=True: the environment grades": "algorithm.adv_estimator=grpo"
    " reward_model.enable=True",
    "a=[1: Hydra cannot read it": "a=[1",
    "train.py: is no override": "train.py",
    "-x: remove it": "-x",
}
"""Start of a refusal -> words of a launch that cannot be adopted."""
