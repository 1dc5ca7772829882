"""The estimate of a GPU's memory: against torch's own count on a CPU, against an audit by hand, and
as warnings that name the key to change.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen3Config

from benchmarks.logit_memory import peak_bytes
from rltf_verl.adapters.startup.memory import (
    GB,
    KEPT,
    SAMPLING,
    SENDING,
    UPDATE,
    UTILIZATION,
    WORKING,
    memory_findings,
    memory_of,
    weights_of,
)
from tests.support.configs import composed

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
    folder = Path(__file__).parents[3] / "recipes" / recipe / "config"
    return composed(name, *words, f"trainer.n_gpus_per_node={gpus}", folder=folder)


sdpo = partial(of_recipe, "sdpo", "sdpo")
kk_sd = partial(of_recipe, "rltf", "paper", "task=kk", "method=sd")


def estimate_of(config: DictConfig, model: Any, card: float | None) -> dict[str, dict[str, float]]:
    return memory_of(partial(OmegaConf.select, config), model, card)


def total(config: DictConfig, model: Any, moment: str, card: float | None = 80.0) -> float:
    return sum(estimate_of(config, model, card)[moment].values())


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
    assert "teacher's weights" not in estimate_of(kk_sd(FULL), LLAMA_8B, None)[UPDATE]
    assert estimate_of(sdpo(FULL), LLAMA_8B, None)[UPDATE]["teacher's weights"] > 30


QWEN3_2B = Qwen3Config(
    hidden_size=2048,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=6144,
    num_hidden_layers=28,
    vocab_size=151936,
    tie_word_embeddings=True,
)
QWEN2_05B = Qwen2Config(
    hidden_size=896,
    num_attention_heads=14,
    num_key_value_heads=2,
    intermediate_size=4864,
    num_hidden_layers=24,
    vocab_size=151936,
    tie_word_embeddings=True,
)
SHORT = ("data.max_response_length=512", "data.max_prompt_length=512")
SDPO = "rltf", "rltf/method=teacher/sdpo"
BUDGET, DTYPE = f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ACTOR}.fsdp_config.model_dtype"
LESS = {
    "a small card": (kk_sd(LORA), QWEN3_2B, 8, ""),
    "weights": (kk_sd(FULL, *OFFLOAD), LLAMA_8B, 80, f"{MODEL}.lora_rank"),
    "rank is set": (kk_sd(LORA, f"{DTYPE}=bf16"), LLAMA_8B, 24, "smaller model"),
    "half the weights": (kk_sd(LORA), LLAMA_8B, 48, DTYPE),
    "sampling": (kk_sd(LORA, f"{DTYPE}=bf16", f"{UTILIZATION}=0.9"), LLAMA_8B, 80, UTILIZATION),
    "tokens": (kk_sd(LORA, f"{DTYPE}=bf16", *SHORT), LLAMA_8B, 32, BUDGET),
    "row": (sdpo(LORA, f"{DTYPE}=bf16"), QWEN3_8B, 48, "data.max_response_length"),
}


@pytest.mark.parametrize("case", LESS)
def test_advice_can_be_followed_and_never_names_what_is_set(case: str) -> None:
    config, model, card, expected = LESS[case]
    found = [f for f in memory_findings(config, model, card) if f.level != "note"]
    assert found
    for finding in found:
        assert finding.level == "warning"  # no GPU has confirmed the estimate
        settings = re.findall(
            r"([\w.]+) to (\S+?)(?:,|$)", finding.fix.replace("it", finding.key, 1)
        )
        changed = OmegaConf.from_dotlist([f"{key}={value}" for key, value in settings])
        fixed = OmegaConf.merge(config, changed)
        for key, value in settings:
            assert str(OmegaConf.select(config, key)) != value
            assert value in ("bf16", "True") or float(value) > 0
        moment = next(name for name in (UPDATE, SENDING, SAMPLING) if f", {name}: " in finding.why)
        fits = total(fixed, model, moment, card) <= 0.951 * card
        assert fits != ("smaller model" in finding.fix)
    assert expected in " ".join(f"{finding.key} {finding.fix}" for finding in found)


def test_on_a_cpu_logits_of_a_teacher_count_and_the_tokens_are_the_lever() -> None:
    """Measured with 1 536 tokens: 10.6 GB in the actor's process, 17 in all."""
    words = ("rltf/hardware=cpu_bf16", LORA)
    teacher = composed(*SDPO, *words, f"{BUDGET}=1536")
    (parts,) = estimate_of(teacher, QWEN2_05B, None).values()
    actor = sum(parts.values()) - parts["other"] - parts["rollout's weights"]
    assert actor == pytest.approx(10.6, rel=0.1)
    assert "logits" not in estimate_of(composed("rltf_sd", *words), QWEN2_05B, None)[UPDATE]
    (found,) = memory_findings(composed(*SDPO, *words, *SHORT, f"{BUDGET}=4096"), QWEN2_05B, 24)
    assert (found.key, found.level) == (BUDGET, "warning")


def test_no_estimate_where_its_sources_do_not_hold() -> None:
    assert estimate_of(composed("rltf_sd", "model_engine=megatron"), LLAMA_8B, 80) == {}
    with pytest.raises(ValueError, match="configuration class"):
        estimate_of(kk_sd(), object(), 80)


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
    assert total / GB == trained / GB == pytest.approx(8.03, abs=0.01)
    model: Any = LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=96, vocab_size=80))
    lora = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear"))
    counted = [p.numel() for p in lora.parameters() if p.requires_grad]
    assert weights_of(model.config, 4)[1] == sum(counted)
