"""What tests read back from a recorded run: batches, and the policy after every step."""

import copy
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from rltf_verl.algos.targets import sampled_tokens
from tests.e2e import runs
from tests.support.engine.plain import of_tokens

LORA_RANK, LORA_ALPHA, TIMEOUT = 4, 16, 1800
PREFIX = "base_model.model."
SAMPLER = "rltf_sampler_log_probs"

Row = dict[str, Any]


def played(folder: Path, data: dict[str, str], mode: str, steps: int, *overrides: str) -> runs.Run:
    """A recorded run in one of verl's modes, at its end, with the weights of every step saved."""
    settings = [*runs.RECORDED, runs.MODE + mode, "trainer.save_freq=1"]
    steps_of_run = f"trainer.total_training_steps={steps}"
    return runs.start(folder, data, [*settings, steps_of_run, *overrides]).finished(TIMEOUT)


def record(run: runs.Run, step: int, update: int | None = None) -> dict[str, Any]:
    """All rows of a step, or those of one of its updates."""
    name = f"{step}" if update is None else f"{step}.{update}"
    saved: dict[str, Any] = torch.load(run.folder / "record" / f"{name}.pt")
    return saved


def rows(run: runs.Run, step: int, update: int | None = None) -> list[Row]:
    """The batch without padding; each row with verl's tag, its episode and its first role."""
    saved = record(run, step, update)
    parts = zip(saved["rows"], saved["tags"], saved["keys"], strict=True)
    return [
        {
            **row,
            "tag": tag,
            "episode": key.rsplit("_", 1)[0],
            "role": int(row["rltf_role"][0]),
        }
        for row, tag, key in parts
        if not tag.get("is_padding")
    ]


@cache
def policy(run: Path, step: int, start: Path = runs.POLICY) -> PreTrainedModel:
    """The policy after `step` of the run in a folder, adapters merged; 0 is `start`."""
    model = AutoModelForCausalLM.from_pretrained(
        start, dtype=torch.float32, attn_implementation="eager"
    )
    if step:
        saved = load_file(weights_file(run, step))
        model.load_state_dict(with_adapters(saved), strict=False)
        model.tie_weights()
    return model


def weights_file(run: Path, step: int) -> Path:
    """The weights that the actor saved after a step."""
    return run / f"checkpoints/global_step_{step}/actor/huggingface/model.safetensors"


def with_adapters(saved: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
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


def log_probs(
    model: torch.nn.Module, rows: Sequence[Row], temperature: float = 1.0
) -> list[torch.Tensor]:
    """log π(y | x) of each row, by one forward of its own. Padded on the right, where no earlier
    token looks.
    """
    ids = [torch.cat([row["prompts"], row["responses"]]) for row in rows]
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    logits = (model(input_ids=padded).logits / temperature).log_softmax(-1)
    ends = [
        (len(row["prompts"]) - 1, len(row["prompts"]) + len(row["responses"]) - 1) for row in rows
    ]
    return [
        of_tokens(logits[i, first:last], row["responses"])
        for i, (row, (first, last)) in enumerate(zip(rows, ends, strict=True))
    ]


def sampled(row: Row) -> torch.Tensor:
    """Which tokens of the row the policy sampled under the row's own prompt."""
    return sampled_tokens(row["rltf_role"])


def sampler_gap(model: torch.nn.Module, row: Row) -> torch.Tensor:
    """|log π(y | x) − what the rollout engine reported| of the sampled tokens."""
    with torch.no_grad():
        gap = (log_probs(model, [row])[0] - row[SAMPLER]).abs()
    return gap[sampled(row)]


def step_taken(run: runs.Run, step: int) -> dict[str, torch.Tensor]:
    """Plain gradient descent: (weights before − after) / learning rate is the gradient that the
    workers had.
    """
    before, after = (dict(policy(run.folder, s).named_parameters()) for s in (step - 1, step))
    return {name: (before[name] - after[name]).detach() / runs.LEARNING_RATE for name in before}


def gradient(
    run: runs.Run,
    step: int,
    temperature: float = 1.0,
    extra: Callable[[torch.nn.Module], torch.Tensor] | None = None,
    advantages: Sequence[torch.Tensor] | None = None,
) -> dict[str, torch.Tensor]:
    """Of −Σ advantage · log π / denominator over the recorded rows, in one process and one batch.

    Args:
        run: of them.
        step: of them.
        temperature: of the rollout.
        extra: policy -> what else is in the sum.
        advantages: of the tokens of each row; None: the recorded ones.
    """
    model, batch = copy.deepcopy(policy(run.folder, step - 1)), rows(run, step)
    given = [row["advantages"] for row in batch] if advantages is None else advantages
    pairs = zip(given, log_probs(model, batch, temperature), strict=True)
    loss = -torch.cat([advantage * log_prob for advantage, log_prob in pairs]).double().sum()
    if extra is not None:
        loss = loss + extra(model)
    (loss / record(run, step)["settings"]["rltf_denominator"]).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def largest_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)
