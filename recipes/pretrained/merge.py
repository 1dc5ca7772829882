"""The model with the warm-up's adapter in its weights.

python recipes/pretrained/merge.py MODEL ADAPTER OUT
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("model", "adapter", "out"):
        parser.add_argument(name, type=Path)
    args = parser.parse_args()
    # In bf16 small updates would be rounded away one by one.
    base: Any = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    merged: Any = PeftModel.from_pretrained(base, str(args.adapter)).merge_and_unload()
    merged.to(torch.bfloat16).save_pretrained(args.out)
    AutoTokenizer.from_pretrained(args.model).save_pretrained(args.out)


if __name__ == "__main__":
    main()
