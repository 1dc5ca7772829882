"""What `rltf log export` writes, read by verl's own SFT dataset."""

from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf
from rltf_verl.data.dialogues import SCHEMA
from transformers import AutoTokenizer
from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

POLICY = Path(__file__).parents[2] / "recipes" / "demo" / "policy"


def test_verl_trains_on_the_students_words_only(tmp_path: Path) -> None:
    roles = ("user", "assistant", "user", "assistant")
    said = [
        {"role": role, "content": text}
        for role, text in zip(roles, ("01", "11", "10", "12"), strict=True)
    ]
    row = {"messages": said, "env": "e", "index": 0, "num_turns": 2, "solved": True}
    export([row], SCHEMA, tmp_path / "d.parquet", {})
    tokenizer = AutoTokenizer.from_pretrained(POLICY)
    config = OmegaConf.create({"max_length": 64, "truncation": "error", "pad_mode": "no_padding"})
    item = MultiTurnSFTDataset([str(tmp_path / "d.parquet")], tokenizer, config)[0]
    trained = tokenizer.decode(
        item["input_ids"][item["loss_mask"].bool()], skip_special_tokens=True
    )
    assert trained.replace(" ", "").replace("\n", "") == "1112"
