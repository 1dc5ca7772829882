"""From a GGUF file to a folder that transformers, verl and vLLM read; checked before it appears."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SENTENCE = (
    "The capital of France is Paris. It lies on the river Seine, and many people visit the city"
    " every year to see its museums and to eat well."
)
"""Plain English; a small language model has about 2 nats per token on it."""
MOST_NATS = 5.0
"""Per token of the sentence. Weights that were read wrongly are near ln(vocabulary), 10."""
QUESTION = "What is the capital of France?"
MAX_NEW_TOKENS = 48
ONE_MATRIX = 0.1
"""Difference between embedding and output layer, relative to its size, below which both are one
matrix: a file may hold it twice, rounded differently. Two matrices differ by more than 1.
"""


@dataclass(frozen=True)
class Report:
    """What the finished folder was seen to do."""

    num_parameters: int
    nats_per_token: float
    """Mean negative log-likelihood of `SENTENCE`."""
    answer: str
    """The greedy answer to `QUESTION`."""
    end_token: str
    fixed_end_token: bool
    """transformers had read another end token than the chat template uses: its converter takes the
    start token for it."""
    megabytes: int


def convert(gguf: Path, out: Path, licenses: Sequence[Path] = ()) -> Report:
    """Write the model in bf16 with its tokenizer and chat template.

    The folder appears when everything in it was read again and checked, or not at all.

    Args:
        gguf: the file.
        out: a folder that does not exist, or is empty.
        licenses: copied into the folder.

    Raises:
        ValueError: no such file, a package is missing, the file cannot be read, the folder is
            taken, or the model does not speak.
    """
    if not gguf.is_file():
        raise ValueError(f"{gguf}: no such file; name a model of --help, or a .gguf file")
    require_free(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as unfinished:
        folder = Path(unfinished) / "model"
        fixed_end_token = _write(gguf, folder)
        for file in licenses:
            shutil.copy(file, folder)
        report = _checked(folder, fixed_end_token)
        if out.is_dir():
            out.rmdir()
        folder.replace(out)
    return report


def require_free(out: Path) -> None:
    """Raise ValueError unless `out` can become the model's folder, and GGUF files can be read."""
    if importlib.util.find_spec("gguf") is None:
        raise ValueError("reading a GGUF file needs the package gguf: pip install rltf-verl[model]")
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"{out}: there already; name another folder, or remove it")


def _tell_version() -> None:
    """Python 3.10 does not find the distribution of a module whose wheel lists no top-level names;
    transformers then asks the module, and gguf does not know its own version.
    """
    module: Any = importlib.import_module("gguf")
    if not hasattr(module, "__version__"):
        module.__version__ = importlib.metadata.version("gguf")


def _write(gguf: Path, folder: Path) -> bool:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    _tell_version()
    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16)
        tokenizer: Any = AutoTokenizer.from_pretrained(**where)
    except Exception as error:  # whatever transformers raises about a foreign file
        raise ValueError(
            f"{gguf}: transformers cannot read it: {type(error).__name__}: {error}"
        ) from error
    _tie(model)
    fixed_end_token = _fix_end_token(model, tokenizer, gguf)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return fixed_end_token


def _tie(model: Any) -> None:
    """Where embedding and output layer are one matrix, keep the output layer's, which files round
    less.
    """
    embedding, output = model.get_input_embeddings(), model.get_output_embeddings()
    ours, theirs = embedding.weight.float(), output.weight.float()
    if ours.shape == theirs.shape and (ours - theirs).norm() < ONE_MATRIX * theirs.norm():
        embedding.weight = output.weight
        model.config.tie_word_embeddings = True


def _fix_end_token(model: Any, tokenizer: Any, gguf: Path) -> bool:
    """The end token is the one that the chat template puts behind an answer."""
    if not tokenizer.chat_template:
        raise ValueError(f"{gguf}: holds no chat template; name an instruction-tuned model")
    # A template may put empty thoughts before the answer, so what stands before it is not read.
    _, separator, rest = _chat(tokenizer, "Paris")[1].rpartition("Paris")
    ends = tokenizer.encode(rest, add_special_tokens=False)
    if not (separator and ends):
        raise ValueError(f"{gguf}: its chat template ends no answer")
    end = ends[0]
    fixed_end_token = bool(tokenizer.eos_token_id != end)
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    tokenizer.pad_token = (
        tokenizer.pad_token if not fixed_end_token and tokenizer.pad_token else tokenizer.eos_token
    )
    tokenizer.clean_up_tokenization_spaces = False  # it would change what was said
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = end, tokenizer.pad_token_id
    return fixed_end_token


def _chat(tokenizer: Any, answer: str) -> tuple[str, str]:
    """The prompt of `QUESTION`, and the same conversation with an answer."""
    asked = [{"role": "user", "content": QUESTION}]
    prompt: str = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    chat = [*asked, {"role": "assistant", "content": answer}]
    whole: str = tokenizer.apply_chat_template(chat, tokenize=False)
    return prompt, whole


def _checked(folder: Path, fixed_end_token: bool) -> Report:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(SENTENCE, return_tensors="pt").input_ids
    prompt, whole = _chat(tokenizer, "Paris")
    asked = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    with torch.inference_mode():
        nats = float(model(input_ids=ids, labels=ids).loss)
        reply = model.generate(**asked, max_new_tokens=MAX_NEW_TOKENS, do_sample=False)[0]
    if not nats <= MOST_NATS:  # NaN too
        raise ValueError(
            f"the converted model has {nats:.1f} nats per token of plain English (random guesses:"
            f" {math.log(len(tokenizer)):.1f}); the file was read wrongly, try another version of"
            " transformers"
        )
    decoded = tokenizer.decode(tokenizer.encode(whole, add_special_tokens=False))
    if decoded != whole:
        raise ValueError("a conversation is another one after encoding and decoding")
    answer = tokenizer.decode(reply[asked.input_ids.shape[1] :], skip_special_tokens=True)
    return Report(
        num_parameters=model.num_parameters(),
        nats_per_token=nats,
        answer=answer.strip(),
        end_token=str(tokenizer.eos_token),
        fixed_end_token=fixed_end_token,
        megabytes=round(sum(file.stat().st_size for file in folder.iterdir()) / 1e6),
    )
