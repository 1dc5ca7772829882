"""The estimate of a GPU's memory: against torch's own count on a CPU, against an audit by hand, and
as refusals that name the key to change.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config

from benchmarks.logit_memory import peak_bytes
from rltf_verl.adapters.startup.memory import (
    GB,
    KEPT,
    SAMPLING,
    UPDATE,
    UTILIZATION,
    WORKING,
    memory_findings,
    memory_of,
    weights_of,
)
from tests.support.configs import composed

RECIPES = Path(__file__).parents[3] / "recipes"
ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
HEADS = {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8}
LLAMA_8B = LlamaConfig(**HEADS, intermediate_size=14336, num_hidden_layers=32, vocab_size=128256)
QWEN3_8B = Qwen3Config(
    **HEADS,
    head_dim=128,
    intermediate_size=12288,
    num_hidden_layers=36,
    vocab_size=151936,
    tie_word_embeddings=False,
)
LORA, FULL = f"{MODEL}.lora_rank=32", f"{MODEL}.lora_rank=0"
OFFLOAD = tuple(f"{ACTOR}.fsdp_config.{part}_offload=true" for part in ("param", "optimizer"))


def of_recipe(recipe: str, name: str, *words: str, gpus: int = 1) -> DictConfig:
    words = (*words, f"trainer.n_gpus_per_node={gpus}")
    return composed(name, *words, folder=RECIPES / recipe / "config")


def sdpo(*words: str, gpus: int = 1) -> DictConfig:
    return of_recipe("sdpo", "sdpo", *words, gpus=gpus)


def kk_sd(*words: str, gpus: int = 1) -> DictConfig:
    return of_recipe("rltf", "paper", "task=kk", "method=sd", *words, gpus=gpus)


def total(config: DictConfig, model: Any, moment: str, card: float | None = 80.0) -> float:
    return sum(memory_of(config, model, card)[moment].values())


@pytest.mark.parametrize(
    ("config", "model", "moment", "expected"),
    [
        (kk_sd(LORA), LLAMA_8B, UPDATE, 64),
        (kk_sd(FULL), LLAMA_8B, UPDATE, 16 * 8.03 + 20),
        (sdpo(LORA, *OFFLOAD), QWEN3_8B, UPDATE, 105 - (18.4 - 5.1) * 2.8),
        (sdpo("+script=local", gpus=8), QWEN3_8B, UPDATE, 92 - (18.4 - 5.1) * 2.8),
        (kk_sd(LORA), LLAMA_8B, SAMPLING, 40 + 4 * 8.03 + 4),
        (kk_sd(LORA, *OFFLOAD), LLAMA_8B, SAMPLING, 40 + 4),
    ],
    ids=["lora", "full", "sdpo", "sdpo on 8", "sampling", "sampling, offloaded"],
)
def test_the_estimate_is_that_of_an_audit_by_hand(
    config: DictConfig, model: Any, moment: str, expected: float
) -> None:
    assert total(config, model, moment) == pytest.approx(expected, rel=0.12)


def test_settings_that_take_memory_and_settings_that_save_it() -> None:
    def update(*words: str, of: Any = kk_sd) -> float:
        return total(of(LORA, *words), LLAMA_8B, UPDATE, None)

    assert update(f"{ROLLOUT}.temperature=0.7") > update() + 3
    assert update(f"{MODEL}.enable_gradient_checkpointing=false") > update() + 200
    assert update(f"{ACTOR}.fsdp_config.offload_policy=true") < update() - 30
    assert update(f"{ACTOR}.fsdp_config.model_dtype=bf16") < update() - 15
    assert update("rltf.logit_distill.divergence=sampled_token", of=sdpo) < update(of=sdpo) - 10
    full, average = kk_sd(FULL), sdpo(FULL)
    assert "teacher's weights" not in memory_of(full, LLAMA_8B, None)[UPDATE]
    assert memory_of(average, LLAMA_8B, None)[UPDATE]["teacher's weights"] > 30


@pytest.mark.parametrize(
    ("config", "card", "key", "word"),
    [
        (kk_sd(FULL, *OFFLOAD), 80, "trainer.n_gpus_per_node", "lora_rank"),
        (kk_sd(LORA, f"{UTILIZATION}=0.9"), 80, UTILIZATION, "param_offload"),
        (sdpo(LORA, *OFFLOAD), 55, "data.max_response_length", "tokens in a row fit"),
    ],
    ids=["weights", "sampling", "row"],
)
def test_more_than_the_card_has_is_refused_with_the_key(
    config: DictConfig, card: float, key: str, word: str
) -> None:
    found = [f for f in memory_findings(config, LLAMA_8B, card) if f.level == "error"]
    assert found
    assert found[0].key == key
    assert word in found[0].fix


def test_what_the_fix_says_fits() -> None:
    short = ("data.max_response_length=512", "data.max_prompt_length=512")
    findings = memory_findings(kk_sd(LORA, *short), LLAMA_8B, 50)
    refused = next(finding for finding in findings if finding.key)
    assert refused.key == f"{ACTOR}.ppo_max_token_len_per_gpu"
    fixed = kk_sd(LORA, *short, f"{refused.key}={refused.fix.split()[-1]}")
    assert total(fixed, LLAMA_8B, UPDATE, 50) == pytest.approx(0.95 * 50, rel=0.01)


def test_no_estimate_where_its_sources_do_not_hold() -> None:
    assert memory_of(composed("rltf_sd", "rltf/hardware=cpu"), LLAMA_8B, 80) == {}
    assert memory_of(composed("rltf_sd", "model_engine=megatron"), LLAMA_8B, 80) == {}
    with pytest.raises(ValueError, match="configuration class"):
        memory_of(kk_sd(), object(), 80)


@pytest.mark.parametrize("rank", [0, 16])
def test_the_bytes_of_a_layer_are_what_torch_allocates(rank: int) -> None:
    num_tokens, shapes = 256, [(256, 512, 4), (256, 1024, 4), (512, 1024, 8)]
    of_hidden, of_inner = WORKING[bool(rank)]
    for hidden, inner, layers in shapes:
        layer = of_hidden * hidden + of_inner * inner + KEPT[bool(rank)] * hidden * layers
        assert _bytes_of_a_token(hidden, inner, layers, rank, num_tokens) == pytest.approx(
            layer, rel=0.07
        )


def _bytes_of_a_token(hidden: int, inner: int, layers: int, rank: int, num_tokens: int) -> float:
    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 256,
        vocab_size=64,
    )
    model: Any = LlamaForCausalLM(config).to(torch.bfloat16)
    if rank:
        model.enable_input_require_grads()
        model = get_peft_model(model, LoraConfig(r=rank, target_modules="all-linear"))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for weight in model.parameters():
        if weight.requires_grad:
            weight.grad = torch.zeros_like(weight)
    ids = torch.randint(0, 64, (1, num_tokens))

    def work() -> None:
        # oneDNN takes memory of its own, as much as the CPU's instructions want.
        no_scratch = torch.backends.mkldnn.flags(enabled=False)
        with torch.autocast("cpu", torch.bfloat16), no_scratch:
            model(input_ids=ids, use_cache=False).logits.float().logsumexp(-1).sum().backward()

    return peak_bytes(work) / num_tokens


def test_the_numbers_of_a_model_are_its_own() -> None:
    total, trained, _ = weights_of(LLAMA_8B, 0)
    assert total / GB == pytest.approx(8.03, abs=0.01)
    assert trained == total
    assert weights_of(LLAMA_8B, 32)[1] < total / 50
    model: Any = LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=96, vocab_size=80))
    lora = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear"))
    counted = [p.numel() for p in lora.parameters() if p.requires_grad]
    assert weights_of(model.config, 4)[1] == sum(counted)
