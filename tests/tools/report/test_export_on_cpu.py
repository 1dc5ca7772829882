"""`rltf export`: the folder answers as the policy did, its card says where it comes from."""

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from rltf_verl.runlog.files import STAMP
from rltf_verl.tools.export.card import card
from rltf_verl.tools.export.checkpoint import find_checkpoint
from tests.support.commands import rltf

POLICY = Path(__file__).parents[3] / "recipes/demo/policy"


def saved(folder: Path, state: dict[str, torch.Tensor], *, lora_alpha: int) -> Path:
    """What verl's FSDP trainer leaves after step 3 on one worker."""
    actor = folder / "global_step_3/actor"
    without_weights = shutil.ignore_patterns("*.safetensors")
    shutil.copytree(POLICY, actor / "huggingface", ignore=without_weights)
    torch.save(state, actor / "model_world_size_1_rank_0.pt")
    (actor / "fsdp_config.json").write_text('{"FSDP_version": 2, "world_size": 1}')
    meta = {"r": 4, "lora_alpha": lora_alpha, "task_type": "CAUSAL_LM"}
    (actor / "lora_train_meta.json").write_text(json.dumps(meta))
    (folder / "latest_checkpointed_iteration.txt").write_text("3")
    stamp = {"actor_rollout_ref.model.path": "meta-llama/Llama-3.1-8B-Instruct"}
    (folder / "global_step_3" / STAMP).write_text(json.dumps(stamp))
    return folder


def run(*args: object) -> str:
    result = rltf("export", *args)
    assert result.exit_code in (0, 1), result.output
    return " ".join(result.output.split())


def lora_policy() -> torch.nn.Module:
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32)
    model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    return model.eval()


def merged_here(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
    """verl's merger with this command, without a process of its own."""
    from verl.model_merger.__main__ import main

    assert command[:3] == [sys.executable, "-m", "verl.model_merger"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", command[2:])
        main()
    return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def merger_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end-to-end test starts the merger as a user does."""
    processes = SimpleNamespace(run=merged_here)
    monkeypatch.setattr("rltf_verl.tools.export.checkpoint.subprocess", processes)


@pytest.mark.usefixtures("merger_here")
def test_a_lora_checkpoint_becomes_one_model_that_answers_as_it_did(tmp_path: Path) -> None:
    policy = lora_policy()
    place, out = saved(tmp_path / "run", policy.state_dict(), lora_alpha=8), tmp_path / "models/own"
    assert f"next: vllm serve {out}" in run(place, out)

    exported = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    tokens = AutoTokenizer.from_pretrained(out)("0110", return_tensors="pt").input_ids
    with torch.no_grad():
        wanted, bare = policy(tokens).logits, policy.get_base_model()
        assert torch.allclose(exported(tokens).logits, wanted, atol=0.1), "bfloat16"
        with policy.disable_adapter():
            assert not torch.allclose(bare(tokens).logits, wanted, atol=0.5), "it changes nothing"
    assert not (out / "lora_adapter").exists()
    assert [path.name for path in out.parent.iterdir()] == ["own"]
    assert (out / "model.safetensors").stat().st_mode == (out / "README.md").stat().st_mode
    assert 'base_model: "meta-llama/Llama-3.1-8B-Instruct"' in (out / "README.md").read_text()
    assert f"{out}: exists" in run(place, out)


class Malicious:
    """Writes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)


@pytest.mark.usefixtures("merger_here")
def test_a_shard_that_runs_code_is_loaded_only_if_it_is_trusted(tmp_path: Path) -> None:
    place = saved(tmp_path / "run", {"x": Malicious(tmp_path / "ran")}, lora_alpha=8)
    assert "add --trust-pickle" in run(place, tmp_path / "out")
    assert not (tmp_path / "ran").exists()
    with pytest.raises(AttributeError):  # of the merger, which wants tensors
        run(place, tmp_path / "out", "--trust-pickle")
    assert (tmp_path / "ran").exists()


def test_the_card_shows_text_and_no_password() -> None:
    """Of a stamp that somebody has edited. Who publishes the folder publishes the settings."""
    settings = {
        "actor_rollout_ref.model.path": "`x` <script>alert(1)</script>",
        "rltf.feedback.header": "Bearer sk-Zu7pQ92mVx41",
        "data.tokenizer": "/home/me/models/tiny",
        "rltf.feedback.api_key": "a b",
        "rltf.feedback.base_url": "https://me:hunter2@h/v1",
        "a\n```\n<script>": "b\n```\n<script>",
    }
    text = card("own", 3, settings)
    before, code = text.split("```yaml\n")
    for secret in ("hunter2", "a b", "Zu7pQ92mVx41"):
        assert secret not in text
    assert 'data.tokenizer: "tiny"' in code, "no folder of this machine"
    assert "<script>" not in before
    assert [line for line in code.splitlines() if line.startswith("```")] == ["```"]


def test_a_run_that_saves_the_whole_model_only(tmp_path: Path) -> None:
    """As `recipes/pretrained` does; the run's folder has its checkpoints in `checkpoints`."""
    place = tmp_path / "run"
    model = AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32)
    actor = saved(place / "checkpoints", {}, lora_alpha=8) / "global_step_3/actor"
    next(actor.glob("model_world_size_*")).unlink()
    model.save_pretrained(actor / "huggingface")
    assert "next: vllm serve" in run(place, tmp_path / "own")
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "own")
    assert exported.dtype == torch.bfloat16
    for name, weight in model.state_dict().items():
        assert torch.equal(exported.state_dict()[name], weight.bfloat16()), name


@pytest.mark.usefixtures("merger_here")
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("where", ["lora_B.default.weight", "base_layer.weight", "norm.weight"])
def test_weights_that_are_not_finite_are_refused_in_any_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, shards: int
) -> None:
    """LoRA's, those below it, and others; a large model is written into several files."""
    size = 10**9 if shards == 1 else 500_000
    whole = functools.partialmethod(PreTrainedModel.save_pretrained, max_shard_size=size)
    monkeypatch.setattr(PreTrainedModel, "save_pretrained", whole)
    state = lora_policy().state_dict()
    name = next(name for name in reversed(state) if name.endswith(where))
    healthy = saved(tmp_path / "healthy", state, lora_alpha=8)
    assert "next: vllm serve" in run(healthy, tmp_path / "own")
    assert len(list((tmp_path / "own").glob("*.safetensors"))) == shards
    state[name].view(-1)[0] = torch.inf
    words = run(saved(tmp_path / "run", state, lora_alpha=8), tmp_path / "models/own")
    module = name.removeprefix("base_model.model.").partition(".lora_")[0]
    assert module.removesuffix(".base_layer.weight") in words
    assert "is not finite in bfloat16" in words
    assert not list((tmp_path / "models").iterdir())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "no checkpoint of verl; name the run's folder"),
        ("global_step_1", "so not a whole checkpoint of verl's FSDP or Megatron trainer"),
        ("broken", "rank_0.pt: holds more than tensors"),
        ("outside", "holds '../../elsewhere'; write the step's number"),
        ("megatron", "Megatron's files can run code when loaded; add --trust-pickle"),
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "global_step_1/actor").mkdir(parents=True)
    broken = saved(tmp_path / "broken", {}, lora_alpha=8)
    (broken / "global_step_3/actor/model_world_size_1_rank_0.pt").write_bytes(b"half")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/latest_checkpointed_iteration.txt").write_text("../../elsewhere")
    (tmp_path / "megatron/global_step_2/actor/dist_ckpt").mkdir(parents=True)
    (tmp_path / "megatron/latest_checkpointed_iteration.txt").write_text("2")
    assert message in run(tmp_path / name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_above_one_run_will_do_and_of_several_they_are_listed(tmp_path: Path) -> None:
    run_folder = saved(tmp_path / "checkpoints/units/one", {}, lora_alpha=8)
    assert find_checkpoint(tmp_path).folder == run_folder / "global_step_3"
    other = saved(tmp_path / "checkpoints/units/other", {}, lora_alpha=8)
    assert find_checkpoint(run_folder).folder == run_folder / "global_step_3"
    with pytest.raises(ValueError, match="holds 2 runs") as refused:
        find_checkpoint(tmp_path / "checkpoints")
    assert str(refused.value).endswith(f"{run_folder} and {other}; name one")
