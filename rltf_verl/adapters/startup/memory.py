"""An estimate of what a run takes of one GPU's memory, by part, in bytes and then in GB of 10⁹.

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
* rollout: vLLM takes `gpu_memory_utilization` of the card, weights and cache.
* `OTHER`: contexts of CUDA and NCCL, a sleeping vLLM, the allocator's gaps. Ours, not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from transformers import AutoModelForCausalLM

from rltf_verl.adapters.startup.rules import ACTOR, MODEL, ROLLOUT, Setting
from rltf_verl.findings import Finding
from rltf_verl.kinds import name_of

GB = 1e9
OTHER, DIVERGENCE = 4.0, 5.1
"""GB; bytes a logit."""
KEPT, WORKING = {False: 2, True: 3}, {False: (25, 12), True: (37, 15)}
"""Without and with LoRA: bytes per token that a checkpointed layer keeps until its backward pass,
per number of the hidden state; and what one layer needs when it is computed again, per number of
the hidden state and of the inner one of its MLP.
"""
REFUSED, WARNED = 1.1, 0.95
"""Shares of the card."""
KEEPS_WEIGHTS = {False: ("ema", "base", "trust_region"), True: ("ema",)}
"""Without and with LoRA: the teachers that have a second set of the trained weights."""
BUDGET, UTILIZATION = f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ROLLOUT}.gpu_memory_utilization"
FSDP, DISTILL = f"{ACTOR}.fsdp_config", "rltf.logit_distill"
UPDATE, SAMPLING = "in an update", "while sampling"
BY_TOKENS = ("layers", "a layer", "logits", "divergence")
"""Parts that grow with the tokens of a micro-batch."""


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


def memory_of(config: DictConfig, model: Any, card: float | None) -> dict[str, dict[str, float]]:
    """GB of one GPU by moment of a step, at which it holds most, and part. Empty on a CPU, and of
    other engines than FSDP.

    Args:
        config: of the run.
        model: config of the model's text part.
        card: GB of a GPU; None: not known, so without the moment that it decides.

    Raises:
        ValueError, AttributeError: as of `weights_of`.
        TypeError: a setting is no number.
    """
    get = partial(OmegaConf.select, config)
    if get("trainer.device") == "cpu" or not str(get(f"{ACTOR}.strategy")).startswith("fsdp"):
        return {}
    rank = get(f"{MODEL}.lora.rank") or get(f"{MODEL}.lora_rank") or 0
    total, trained, ends = weights_of(model, int(rank))
    lora, num_layers = trained < total, model.num_hidden_layers
    # verl's default of −1 means all devices.
    shards = max(0, get(f"{FSDP}.fsdp_size")) or get("trainer.nnodes") * get(
        "trainer.n_gpus_per_node"
    )
    each = (2 if "16" in str(get(f"{FSDP}.model_dtype")) else 4) / GB / shards
    # FSDP2's offload policy keeps the shards in the host's memory.
    each *= not get(f"{FSDP}.offload_policy")
    tokens, (of_hidden, of_inner) = _lengths(get)[1] / GB, WORKING[lora]
    working = tokens * (of_hidden * model.hidden_size + of_inner * model.intermediate_size)
    again = bool(get(f"{MODEL}.enable_gradient_checkpointing"))
    kept = tokens * KEPT[lora] * model.hidden_size if again else working
    logits = 0.0 if get(f"{MODEL}.use_fused_kernels") else tokens * model.vocab_size
    distils = bool(get(f"{DISTILL}.weight"))
    keeps = distils and name_of(get("rltf.teacher.kind")) in KEEPS_WEIGHTS[lora]
    reads = distils and name_of(get(f"{DISTILL}.divergence")) != "sampled_token"
    held = {
        "weights": total * each,
        "gradients": trained * each,
        "optimiser": 2 * trained * each,  # Adam's two moments
        "teacher's weights": trained * each * keeps,
        # FSDP gathers embeddings and head whole, and of the layers the one at work and the next
        "gathered weights": 2 * (ends + 2 * (total - ends) / num_layers) / GB,
        "layers": kept * num_layers,
        "other": OTHER,
    }
    loss = {"logits": 2 * logits * _copies(get), "divergence": DIVERGENCE * logits * reads}
    stays = {
        "weights": 0.0 if get(f"{FSDP}.param_offload") else held["weights"],
        "optimiser": 0.0 if get(f"{FSDP}.optimizer_offload") else held["optimiser"],
        "other": OTHER,
    }
    moments = {
        UPDATE: held
        # Not at the same time: the larger of the two counts.
        | max(loss, {"a layer": working * again}, key=lambda parts: sum(parts.values())),
        "sending new weights": stays
        | {
            "weights": held["weights"],
            "rollout's weights": 2 * total / GB / get(f"{ROLLOUT}.tensor_model_parallel_size"),
        },
    }
    if card:
        moments[SAMPLING] = stays | {"rollout": get(UTILIZATION) * card}
    for name, parts in moments.items():
        moments[name] = {part: size for part, size in parts.items() if size}
    return moments


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
        + 2 * (attention not in (None, "flash_attention_2"))
        + 2 * bool(get(f"{ACTOR}.calculate_entropy") or get(f"{ACTOR}.entropy_coeff"))
    )


def card_here() -> float | None:
    """GB of this machine's smallest GPU."""
    sizes = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return min((gpu.total_memory / GB for gpu in sizes), default=None)


def memory_findings(config: DictConfig, model: Any, card: float | None) -> Iterator[Finding]:
    """The estimate, a note for each moment; an error or a warning instead where the card has less.

    Args and errors: as of `memory_of`.
    """
    get = partial(OmegaConf.select, config)
    for moment, parts in memory_of(config, model, card).items():
        total, of_card = sum(parts.values()), f" of {card:.0f}" if card else ""
        largest = sorted(parts.items(), key=lambda part: -part[1])
        shares = ", ".join(f"{name} {size:.1f}" for name, size in largest)
        line = f"a GPU's memory, estimated, {moment}: {total:.0f}{of_card} GB ({shares})"
        if not card or total <= WARNED * card:
            yield Finding("", None, line, "", "note")
        else:
            key, fix = _fix(get, moment, parts, total - WARNED * card)
            yield Finding(
                key, get(key), line, fix, "error" if total > REFUSED * card else "warning"
            )


def _fix(get: Setting, moment: str, parts: Mapping[str, float], over: float) -> tuple[str, str]:
    """The key to change where a moment needs so many GB too much, and how."""
    if moment == SAMPLING:
        share = get(UTILIZATION) * (1 - over / parts["rollout"])
        return UTILIZATION, f"set it to {share:.2f}, or {FSDP}.param_offload to True"
    by_tokens = sum(parts.get(name, 0.0) for name in BY_TOKENS)
    if by_tokens <= over:
        return "trainer.n_gpus_per_node", f"take more GPUs, a smaller model or {MODEL}.lora_rank=32"
    row, tokens = _lengths(get)
    most = int(tokens * (1 - over / by_tokens))
    if most >= row:
        return BUDGET, f"set it to {most}"
    return "data.max_response_length", f"lower it and {BUDGET}: {most} tokens in a row fit"
