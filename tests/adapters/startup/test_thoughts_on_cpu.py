"""What is found in a chat template before a run, with the templates of models that think."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import PreTrainedTokenizerFast

from rltf_verl.adapters.startup import checks
from rltf_verl.adapters.startup.thoughts import thought_findings
from rltf_verl.data.questions import question_of
from tests.adapters.rollout.test_chat_form_on_cpu import tokenizer_of
from tests.support.acting import OFFICE
from tests.support.acting_fakes import TOOL, ActorEnv
from tests.support.configs import composed
from tests.support.verl_rows import write_rows

TEMPLATES = Path(__file__).parents[2] / "golden" / "chat_templates"
SWITCHED = "data.apply_chat_template_kwargs.enable_thinking"
APPEND = "rltf.episode.context=append"
OFF = f"+{SWITCHED}=false"
TEACHER = (
    "rltf/method=teacher/opsd",
    "rltf.logit_distill.divergence=sampled_token",
    "rltf.teacher.against=reference_only",
)


def thinking(name: str) -> PreTrainedTokenizerFast:
    tokenizer = tokenizer_of("plain")
    if name != "plain":
        tokenizer.chat_template = (TEMPLATES / f"{name}.jinja").read_text("utf-8")
    tokenizer.add_special_tokens({"bos_token": "<|im_start|>"})
    return tokenizer


@pytest.fixture
def found(tmp_path):
    """Keys of the findings."""

    def keys(name, *overrides, question="1 0 / 0 1?", system="", env=None, template=None):
        messages = [{"role": "system", "content": system}] if system else []
        row = {
            "data_source": "binary_matrix",
            "prompt": [*messages, {"role": "user", "content": question}],
            "reward_model": {"style": "rule", "ground_truth": "1 0"},
            "extra_info": {"env": "binary_matrix", "index": 0, "task": '{"matrix": [[1]]}'},
        }
        method = () if any("rltf/method" in each for each in overrides) else ("rltf/method=sd",)
        config = composed(
            "rltf",
            *method,
            "actor_rollout_ref.model.path=/nowhere",
            f"data.train_files={write_rows(tmp_path / 'train.parquet', [row])}",
            *overrides,
        )
        parts = checks.parts_of(config)
        parts = replace(parts, env=env or parts.env)
        tokenizer = thinking(name)
        tokenizer.chat_template = template or tokenizer.chat_template
        questions = [question_of(parts.env, row)]
        return [f.key for f in thought_findings(config, parts, questions, tokenizer)]

    return keys


@pytest.mark.parametrize(
    ("name", "overrides", "expected"),
    [
        ("plain", (), []),
        ("plain", (APPEND,), []),
        ("plain", (OFF,), [SWITCHED]),
        ("qwen3", (), []),
        ("qwen3", (OFF,), []),
        ("qwen3", (APPEND,), ["rltf.episode.context"]),
        ("qwen3", (APPEND, "rltf.episode.horizon=1", "rltf.distill.weight=0"), []),
        ("smollm3", (OFF, APPEND), []),
        ("deepseek_r1_distill", (), []),
        ("deepseek_r1_distill", (OFF, APPEND), [SWITCHED, "rltf.episode.context"]),
        ("gptoss", (), ["rltf.episode.quote"]),
        ("gptoss", ("rltf.episode.quote=all",), []),
        ("gptoss", (OFF, APPEND), [SWITCHED, "rltf.episode.context", "rltf.episode.quote"]),
    ],
)
def test_what_a_template_does_with_thoughts(found, name, overrides, expected):
    assert found(name, *overrides) == expected


@pytest.mark.parametrize(
    ("name", "overrides", "expected"),
    [
        ("plain", (), "append"),
        ("smollm3", (OFF,), "append"),
        ("qwen3", (), "fresh"),
        ("deepseek_r1_distill", (), "fresh"),
        ("plain", ("rltf.episode.context=fresh",), "fresh"),
        ("qwen3", (APPEND,), "append"),
        ("plain", ("rltf.episode.horizon=1", "rltf.distill.weight=0"), "fresh"),
        ("plain", ("rltf.episode.revise=note",), "fresh"),
        ("plain", ("rltf.episode.quote=none",), "fresh"),
        ("plain", ("rltf/method=teacher/sd_logit",), "fresh"),
        ("plain", ("rltf/env=own", f"rltf.env.name={OFFICE}"), "fresh"),
        ("plain", ("rltf.episode.retry=fork",), "fresh"),
        ("plain", ("rltf/feedback=siblings",), "fresh"),
    ],
)
def test_a_conversation_goes_on_where_the_template_keeps_what_was_said(
    monkeypatch: pytest.MonkeyPatch, name: str, overrides: tuple[str, ...], expected: str
) -> None:
    model = SimpleNamespace(tokenizer=thinking(name))
    monkeypatch.setattr("rltf_verl.adapters.startup.thoughts.load_model", lambda _: model)
    method = () if any("rltf/method" in each for each in overrides) else ("rltf/method=sd",)
    config = composed("rltf", *method, "actor_rollout_ref.model.path=/nowhere", *overrides)
    parts = checks.parts_of(config)
    assert (parts.config.episode.context, config.rltf.episode.context) == (expected, expected)
    fits = "append" in str(parts.config.episode.revise)
    assert fits == (expected == "append") or parts.config.episode.horizon == 1


SWITCH = {"question": "What? /no_think"}
REWRITES = thinking("plain").chat_template.replace(
    "message.content", "message.content.replace('1 0', 'I O')"
)


@pytest.mark.parametrize(
    ("name", "overrides", "of_row", "expected"),
    [
        # thoughts of earlier steps
        ("plain", (), {"env": ActorEnv(tools=(TOOL,))}, []),
        # it drops them behind a question, not behind a tool's answer
        ("qwen3", (), {"env": ActorEnv(tools=(TOOL,))}, []),
        ("qwen3", (), {"env": ActorEnv(tools=())}, ["rltf.env.name"]),
        ("smollm3", (), {"env": ActorEnv(tools=())}, []),
        # a switch that the teacher's prompt loses
        ("qwen3", TEACHER, SWITCH, ["rltf.teacher.prompt"]),
        ("smollm3", TEACHER, SWITCH, ["rltf.teacher.prompt"]),
        ("qwen3", TEACHER[:1], SWITCH, []),
        ("smollm3", TEACHER[:1], SWITCH, []),
        # a template that rewrites texts is no trouble
        ("plain", TEACHER[:1], {"template": REWRITES}, []),
        # one that cannot render is left to the prompts' check
        ("plain", (OFF,), {"template": "{{ raise_exception('no') }}"}, []),
    ],
)
def test_what_an_environment_a_question_or_an_own_template_changes(
    found, name, overrides, of_row, expected
):
    assert found(name, *overrides, **of_row) == expected


@pytest.mark.parametrize("name", ["plain", "qwen3", "smollm3", "deepseek_r1_distill", "gptoss"])
@pytest.mark.parametrize("overrides", [TEACHER, (TEACHER[0],), (TEACHER[0], OFF)], ids=len)
def test_teacher_and_student_meet_at_the_same_boundary(found, name, overrides):
    assert "rltf.teacher.prompt" not in found(name, *overrides)
    assert "rltf.teacher.prompt" not in found(name, *overrides, system="Be brief. /no_think")


def test_a_template_whose_header_looks_at_the_question_is_refused(found, tmp_path):
    path = tmp_path / "mine.j2"
    path.write_text("{{ reference }}: {{ question }} So?")
    looks = (
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}A:"
        "{{ '<think></think>' if messages[-1].content.endswith('.') }}{% endif %}"
    )
    for question, keys in (("So.", ["rltf.teacher.prompt"]), ("So?", [])):
        given = {"question": question, "template": looks}
        assert found("plain", TEACHER[0], f"rltf.teacher.prompt={path}", **given) == keys


def test_a_revision_whose_answer_begins_elsewhere_is_a_warning(found, tmp_path):
    path = tmp_path / "mine.j2"
    path.write_text("{{ question }} {{ attempt }} {{ feedback }} /think")
    assert found("qwen3", f"rltf.episode.revise={path}", **SWITCH) == ["rltf.episode.revise"]
