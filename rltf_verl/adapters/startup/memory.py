"""An estimate of what a run takes of one GPU's memory, or of a CPU's machine, by part, in bytes and
then in GB of 10⁹. No GPU has confirmed it, so it warns and refuses nothing.

Where the numbers come from:

* weights, gradients, optimiser: verl's FSDP engine keeps weights and gradients in
  `fsdp_config.model_dtype`, Adam two numbers for each; all of it is in shards, and all of a rank's
  shards are on its GPU in an update, offload or not. `ema` and `base` teachers keep one set more.
* gathered weights: what FSDP has whole at one time, in bf16: the matrices of the vocabulary, one
  layer and the next.
* layers: `KEPT` and `WORKING`, measured with torch's allocator on a small Llama on the CPU, bf16
  (`tests/adapters/startup/test_memory_on_cpu.py` measures again).
* logits: bf16, and one copy for each thing that keeps one; verl's cross-entropy of flash-attn needs
  none. A teacher's divergence: `benchmarks/logit_memory.py`, and one more for the sum of gradients.
  Our engine on a CPU makes them for a teacher only (`cpu/actor/head.py`).
* rollout: vLLM takes `gpu_memory_utilization` of the card, weights and cache; our sampler takes
  at most that, and keeps its weights there in an update.
* `OTHER`: contexts of CUDA and NCCL, a sleeping vLLM, the allocator's gaps. Not measured. On a
  CPU the other processes: 1.6 of the 17 GB of a run of a model of 0.5 B, for which this has 15.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from math import floor
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from transformers import AutoModelForCausalLM

from rltf_verl.adapters.startup.rules import ACTOR, MODEL, ROLLOUT, Setting
from rltf_verl.findings import Finding
from rltf_verl.kinds import name_of
from rltf_verl.objectives.teacher import uses_lora
from rltf_verl.sampler import ROLLOUT_NAME

GB = 1e9
OTHER, DIVERGENCE = {False: 4.0, True: 2.0}, 5.1
"""GB of a GPU, and on a CPU; bytes a logit."""
KEPT, WORKING = {False: 2, True: 3}, {False: (25, 12), True: (37, 15)}
"""Without and with LoRA: bytes per token that a checkpointed layer keeps until its backward pass,
per number of the hidden state; and what one layer needs when it is computed again, per number of
the hidden state and of the inner one of its MLP.
"""
FP32 = 1.7
"""Times the bytes of layers in bf16: measured 1.6 with LoRA, 1.8 without."""
TILED = 12
"""Bytes a logit of our engine on a CPU: fp32, and twice that in the backward pass."""
WARNED, WORTH = 0.95, 0.01
"""Shares of the card: from where on it is too little; the least that a change must save."""
KEEPS_WEIGHTS = {False: ("ema", "base", "trust_region"), True: ("ema",)}
"""Without and with LoRA: the teachers that have a second set of the trained weights."""
BUDGET, UTILIZATION = f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ROLLOUT}.gpu_memory_utilization"
FSDP, DISTILL = f"{ACTOR}.fsdp_config", "rltf.logit_distill"
UPDATE, SENDING, SAMPLING = "in an update", "sending new weights", "while sampling"
BY_TOKENS = ("layers", "a layer", "logits", "divergence")
"""Parts that grow with the tokens of a micro-batch."""
CACHE = "rollout's cache"
Lever = Callable[[Setting, Mapping[str, float], float], dict[str, Any]]
"""Settings, a moment's parts, GB too much -> what to set, so that it takes that much less."""


def weights_of(model_config: Any, rank: int) -> tuple[int, int, int]:
    """Counts of a model that is built without memory for its weights.

    Args:
        model_config: its config.
        rank: of LoRA on all linear layers but the head; 0: all weights are trained.

    Returns:
        How many weights there are; are trained; are in the embedding and the head.

    Raises:
        ValueError: transformers has no such language model.
        AttributeError: it has other names for its sizes.
    """
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(deepcopy(model_config))
    head, total = model.get_output_embeddings(), sum(p.numel() for p in model.parameters())
    # By identity: a model whose head is its embedding has one matrix, not two.
    ends = {id(w): w.numel() for w in (model.get_input_embeddings().weight, head.weight)}
    # LoRA adds A, [r, in], and B, [out, r], to each linear layer.
    adapter = rank * sum(
        m.in_features + m.out_features
        for m in model.modules()
        if isinstance(m, torch.nn.Linear) and m is not head
    )
    return total + adapter, adapter or total, sum(ends.values())


def memory_of(get: Setting, model: Any, card: float | None) -> dict[str, dict[str, float]]:
    """Estimated GB of one GPU, or of a CPU's machine: moment of a step → part → GB.
    Empty for other engines than FSDP.

    Args:
        get: the run's settings.
        model: config of the model's text part.
        card: GB of a GPU; None: not known, so without the moment that it decides.

    Raises:
        ValueError, AttributeError: as of `weights_of`.
        TypeError: a setting is no number.
    """
    if not str(get(f"{ACTOR}.strategy")).startswith("fsdp"):
        return {}
    on_cpu, ranks = get("trainer.device") == "cpu", get("trainer.n_gpus_per_node")
    rank = get(f"{MODEL}.lora.rank") or get(f"{MODEL}.lora_rank") or 0
    total, trained, ends = weights_of(model, int(rank))
    lora, num_layers = trained < total, model.num_hidden_layers
    # verl's default of −1 means all devices.
    # All ranks of a CPU share its memory.
    shards = 1 if on_cpu else max(0, get(f"{FSDP}.fsdp_size")) or get("trainer.nnodes") * ranks
    each = _bytes(get(f"{FSDP}.model_dtype")) / GB / shards
    # FSDP2's offload policy keeps the shards in the host's memory.
    each *= not get(f"{FSDP}.offload_policy")
    tokens = _lengths(get)[1] * (ranks if on_cpu else 1) / GB
    kept, working = _layer(get, model, tokens, lora)
    keeps = get(f"{DISTILL}.weight") and name_of(get("rltf.teacher.kind")) in KEEPS_WEIGHTS[lora]
    other, sampler = OTHER[on_cpu], _bytes(get(f"{ROLLOUT}.dtype")) * total / GB
    held = {
        "weights": total * each,
        "gradients": trained * each,
        "optimiser": 2 * trained * each,  # Adam's two moments
        "teacher's weights": trained * each * bool(keeps),
        # FSDP gathers embeddings and head whole, and of the layers the one at work and the next
        "gathered weights": 2 * (ends + 2 * (total - ends) / num_layers) / GB,
        "layers": kept * num_layers,
        "other": other,
    }
    stays = {
        "weights": 0.0 if get(f"{FSDP}.param_offload") else held["weights"],
        "optimiser": 0.0 if get(f"{FSDP}.optimizer_offload") else held["optimiser"],
        "other": other,
    }
    loss = _loss(get, tokens * model.vocab_size)
    # Not at the same time: the larger of the two counts.
    moments = {UPDATE: held | (loss if sum(loss.values()) > working else {"a layer": working})}
    if on_cpu or get(f"{ROLLOUT}.name") == ROLLOUT_NAME:  # vLLM's leave for the update
        moments[UPDATE]["rollout's weights"] = sampler
    if not on_cpu:
        rollout = {"rollout's weights": sampler / get(f"{ROLLOUT}.tensor_model_parallel_size")}
        moments[SENDING] = stays | {"weights": held["weights"]} | rollout
        if card:
            cache = get(UTILIZATION) * card - sum(rollout.values())
            moments[SAMPLING] = stays | rollout | {CACHE: max(0.0, cache)}
    for name, parts in moments.items():
        moments[name] = {part: size for part, size in parts.items() if size}
    return moments


def _layer(get: Setting, model: Any, tokens: float, lora: bool) -> tuple[float, float]:
    """What a layer keeps of a number of tokens until its backward pass, and needs then."""
    of_hidden, of_inner = WORKING[lora]
    wide = FP32 if get(f"{FSDP}.mixed_precision.param_dtype") == "fp32" else 1
    whole = wide * tokens * (of_hidden * model.hidden_size + of_inner * model.intermediate_size)
    if get(f"{MODEL}.enable_gradient_checkpointing"):
        return wide * tokens * KEPT[lora] * model.hidden_size, whole
    return whole, 0.0


def _loss(get: Setting, logits: float) -> dict[str, float]:
    """What the loss keeps of a number of logits."""
    reads = get(f"{DISTILL}.weight") and name_of(get(f"{DISTILL}.divergence")) != "sampled_token"
    tiled = get("trainer.device") == "cpu" and get(f"{ACTOR}.use_dynamic_bsz")
    if get(f"{MODEL}.use_fused_kernels") or (tiled and not reads):
        return {}
    each = TILED if tiled else 2 * _copies(get)
    return {"logits": each * logits, "divergence": DIVERGENCE * logits * bool(reads)}


def _bytes(dtype: Any) -> int:
    return 2 if "16" in str(dtype) else 4


def _lengths(get: Setting) -> tuple[int, int]:
    """Most tokens of a row, and of a micro-batch of an update."""
    row = get("data.max_prompt_length") + get("data.max_response_length")
    packed = row * (get(f"{ACTOR}.ppo_micro_batch_size_per_gpu") or 1)
    return row, get(BUDGET) if get(f"{ACTOR}.use_dynamic_bsz") else packed


def _copies(get: Setting) -> int:
    """The logits, and copies that verl's engine keeps of them until the backward pass."""
    attention = get(f"{MODEL}.override_config.attn_implementation")
    return (
        1
        + (get(f"{ROLLOUT}.temperature") != 1)
        + (attention not in (None, "flash_attention_2"))  # the gradient of `algos.log_probs`
        + 2 * bool(get(f"{ACTOR}.calculate_entropy") or get(f"{ACTOR}.entropy_coeff"))
    )


def card_here(config: DictConfig) -> float | None:
    """GB of this machine's smallest GPU, or of a CPU's memory."""
    if config.trainer.device == "cpu":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB
    sizes = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return min((gpu.total_memory / GB for gpu in sizes), default=None)


def memory_findings(config: DictConfig, model: Any, card: float | None) -> Iterator[Finding]:
    """The estimate, a note for each moment; a warning instead where the card has less.

    Args and errors: as of `memory_of`.
    """
    get = partial(OmegaConf.select, config)
    whose = "the machine's" if get("trainer.device") == "cpu" else "a GPU's"
    for moment, parts in memory_of(get, model, card).items():
        total, of_card = sum(parts.values()), f" of {card:.0f}" if card else ""
        largest = sorted(parts.items(), key=lambda part: -part[1])
        shares = ", ".join(f"{name} {size:.1f}" for name, size in largest)
        line = f"{whose} memory, estimated, {moment}: {total:.0f}{of_card} GB ({shares})"
        if not card or total <= WARNED * card:
            yield Finding("", None, line, "", "note")
        else:
            key, fix = _fix(get, model, card, moment)
            yield Finding(key, get(key), line, fix, "warning")


def _fix(get: Setting, model: Any, card: float, moment: str) -> tuple[str, str]:
    """The first key to change where a moment needs too much, and all changes, by the estimate."""
    parts, changes = memory_of(get, model, card)[moment], dict[str, Any]()

    def changed(key: str, by: Mapping[str, Any] = changes) -> Any:
        return by[key] if key in by else get(key)

    for lever in LEVERS:
        over = sum(parts.values()) - WARNED * card
        if over <= 0:
            break
        tried = changes | lever(changed, parts, over)
        less = memory_of(partial(changed, by=tried), model, card)[moment]
        if sum(less.values()) < sum(parts.values()) - WORTH * card:
            parts = less
            changes.update(tried)
    words = [f"{key} to {value}" for key, value in changes.items()]
    if sum(parts.values()) > WARNED * card:
        words.append("lower data.max_response_length, or take a smaller model or more GPUs")
    key = next(iter(changes), f"{MODEL}.path")
    return key, ", and ".join(words).replace(key, "set it", 1)


def _half_the_weights(get: Setting, _parts: Mapping[str, float], _over: float) -> dict[str, Any]:
    """Under LoRA only: weights that are trained lose small steps in bf16. A CPU's bf16 is slow."""
    fits = uses_lora(get) and get("trainer.device") != "cpu"
    return {f"{FSDP}.model_dtype": "bf16"} if fits else {}


def _fewer_tokens(get: Setting, parts: Mapping[str, float], over: float) -> dict[str, Any]:
    """In a micro-batch, which has one row at least."""
    row, tokens = _lengths(get)
    by_tokens = sum(parts.get(name, 0.0) for name in BY_TOKENS) or over
    fit = max(row, int(tokens * (1 - over / by_tokens)))
    if get(f"{ACTOR}.use_dynamic_bsz"):
        return {BUDGET: min(tokens, fit)}
    return {f"{ACTOR}.ppo_micro_batch_size_per_gpu": fit // row}


def _smaller_cache(get: Setting, parts: Mapping[str, float], over: float) -> dict[str, Any]:
    """At least a fifth of it stays: vLLM does not start without."""
    cache = parts.get(CACHE, 0.0)
    if not over < 0.8 * cache:
        return {}
    rollout = cache + parts["rollout's weights"]
    return {UTILIZATION: floor(100 * get(UTILIZATION) * (1 - over / rollout)) / 100}


def _always(key: str, value: Any) -> Lever:
    return lambda _get, _parts, _over: {key: value}


LEVERS: tuple[Lever, ...] = (
    _half_the_weights,
    _smaller_cache,
    _fewer_tokens,
    _always(f"{MODEL}.enable_gradient_checkpointing", True),
    _always(f"{FSDP}.param_offload", True),
    _always(f"{FSDP}.optimizer_offload", True),
    _always(f"{MODEL}.lora_rank", 32),
)
"""The cheapest first. One that is set already saves nothing, and is not named."""
