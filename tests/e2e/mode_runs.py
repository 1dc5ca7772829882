"""What the modes' tests read back from a run: recorded batches, and the policy after every step."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from rltf_verl.algos.targets import sampled_tokens
from tests.e2e import runs

LORA_RANK, LORA_ALPHA = 4, 16
PREFIX = "base_model.model."

Row = dict[str, Any]


def start(folder: Path, data: dict[str, str], mode: str, steps: int, *overrides: str) -> runs.Run:
    """A recorded run in one of verl's modes, with the weights of every step saved."""
    settings = [
        *runs.RECORDED,
        f"trainer.v1.trainer_mode=rltf_recorded_{mode}",
        "trainer.save_freq=1",
    ]
    overrides = [*settings, f"trainer.total_training_steps={steps}", *overrides]
    return runs.start(folder, data, overrides, recorder="recorder,mode_recorder")


def record(run: runs.Run, step: int, update: int = 0) -> dict[str, Any]:
    return torch.load(run.folder / "record" / f"{step}.{update}.pt")


def rows(run: runs.Run, step: int, update: int = 0) -> list[Row]:
    """The batch of one update without padding; each row with verl's tag."""
    saved = record(run, step, update)
    pairs = zip(saved["rows"], saved["tags"], strict=True)
    return [{**row, "tag": tag} for row, tag in pairs if not tag.get("is_padding")]


@cache
def policy(run_folder: Path, step: int) -> PreTrainedModel:
    """The policy after `step`, adapters merged; 0 is the one that the run started from."""
    model = AutoModelForCausalLM.from_pretrained(
        runs.POLICY, dtype=torch.float32, attn_implementation="eager"
    )
    if step:
        saved = load_file(
            run_folder / "checkpoints" / f"global_step_{step}/actor/huggingface/model.safetensors"
        )
        model.load_state_dict(_merged(saved), strict=False)
        model.tie_weights()
    return model


def _merged(saved: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """W + (alpha / rank) · B A for every weight that has an adapter."""
    names = {name.removeprefix(PREFIX): tensor for name, tensor in saved.items()}
    merged = {}
    for name, tensor in names.items():
        module = name.removesuffix(".base_layer.weight")
        if module == name and "lora_" not in name:
            merged[name] = tensor
        elif module != name:
            lora_a, lora_b = (names[f"{module}.lora_{part}.default.weight"] for part in "AB")
            merged[f"{module}.weight"] = tensor + LORA_ALPHA / LORA_RANK * lora_b @ lora_a
    return merged


def in_bf16(model: PreTrainedModel) -> PreTrainedModel:
    """The policy with its weights (not its buffers) rounded to bfloat16."""
    rounded = copy.deepcopy(model)
    for parameter in rounded.parameters():
        parameter.data = parameter.data.bfloat16().float()
    return rounded


def log_probs(model: torch.nn.Module, rows: Sequence[Row]) -> list[torch.Tensor]:
    """log π(y | x) of each row, by one forward of its own. Padded on the right, where no earlier
    token looks.
    """
    ids = [torch.cat([row["prompts"], row["responses"]]) for row in rows]
    logits = model(
        input_ids=torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    ).logits.log_softmax(-1)
    ends = [
        (len(row["prompts"]) - 1, len(row["prompts"]) + len(row["responses"]) - 1) for row in rows
    ]
    return [
        logits[i, first:last].gather(-1, row["responses"].unsqueeze(-1)).squeeze(-1)
        for i, (row, (first, last)) in enumerate(zip(rows, ends, strict=True))
    ]


def sampled(row: Row) -> torch.Tensor:
    """Which tokens of the row the policy sampled under the row's own prompt."""
    return sampled_tokens(row["rltf_role"])


def sampler_gap(model: torch.nn.Module, row: Row) -> torch.Tensor:
    """|log π(y | x) − what the rollout engine reported| of the sampled tokens."""
    with torch.no_grad():
        gap = (log_probs(model, [row])[0] - row["rltf_sampler_log_probs"]).abs()
    return gap[sampled(row)]


def step_taken(run: runs.Run, step: int) -> dict[str, torch.Tensor]:
    """Plain gradient descent: (weights before − after) / learning rate is the gradient that the
    workers had.
    """
    before, after = (dict(policy(run.folder, s).named_parameters()) for s in (step - 1, step))
    return {name: (before[name] - after[name]).detach() / runs.LEARNING_RATE for name in before}


def plain_gradient(run: runs.Run, step: int) -> dict[str, torch.Tensor]:
    """Of −Σ advantage · log π / denominator over the recorded rows, in one process and one
    batch.
    """
    model, batch = copy.deepcopy(policy(run.folder, step - 1)), rows(run, step)
    terms = [
        row["advantages"] * log_prob
        for row, log_prob in zip(batch, log_probs(model, batch), strict=True)
    ]
    (-torch.cat(terms).sum() / record(run, step)["denominator"]).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def largest_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)
