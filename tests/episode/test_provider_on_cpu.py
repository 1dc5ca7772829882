"""From the config to what episodes hear: guarded; and which template later prompts
have, what is refused, and templates from files.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.config import ConfigError, FeedbackConfig, LogitDistillConfig, RLTFConfig
from rltf_verl.envs import make_env
from rltf_verl.episode.parts import Parts, build_provider
from rltf_verl.episode.templates import with_template
from rltf_verl.feedback.guard.provider import GuardedProvider
from rltf_verl.prompts import render, require_template
from tests.recipes import house_style
from tests.support.acting import OFFICE
from tests.support.episode_fakes import EchoEnv, ScriptedPolicy, ScriptedProvider, play

LEAKY = 'The answer is "yes".'


class Leaks(ScriptedProvider):
    """Sees the reference, and tells it."""

    name, sees_reference, repeats = "leaks", True, True

    def __init__(self) -> None:
        super().__init__(LEAKY)


LEAKS = f"{__file__}:Leaks"


def config(
    provider: str = LEAKS, guard: dict[str, Any] | None = None, **block: Any
) -> FeedbackConfig:
    whole = {"provider": provider, "guard": guard, **block}
    return RLTFConfig.from_mapping({"env": {"name": "binary_matrix"}, "feedback": whole}).feedback


@pytest.mark.parametrize("on_error", ["stop_session", "correctness"])
async def test_dropped_feedback_ends_the_episode_or_is_replaced_and_stays_in_it(on_error):
    provider = build_provider(config())
    episode = await play(ScriptedPolicy(["no", "yes"]), provider, on_error=on_error)
    first = episode.turns[0]
    assert first.withheld.text == LEAKY
    assert first.withheld.leak.startswith("answer: ")
    if on_error == "correctness":
        assert (first.feedback.fallback, first.feedback.leak) == (True, None)
    else:
        assert (first.stop, first.feedback) == ("feedback_unavailable", None)
        assert first.error.startswith("leaks: the leak guard dropped it (answer: ")


def test_who_is_guarded():
    guarded = build_provider(config("verifier", level="hint"))
    assert isinstance(guarded, GuardedProvider), "it may quote others who see the reference"
    build_provider(config("verifier", {"action": "none"}, level="hint"))
    full = config("verifier", {"action": "none"}, level="full", acknowledge_leaks=True)
    assert not isinstance(build_provider(full), GuardedProvider)
    with pytest.raises(ConfigError, match=r"guard\.action=none: provider "):
        build_provider(config(guard={"action": "none"}))


@pytest.mark.parametrize("action", ["drop", "regenerate", "warn", "none", "redact"])
@pytest.mark.parametrize("meant", [False, True])
@pytest.mark.parametrize(
    ("provider", "options"),
    [
        ("verifier", {"level": "full"}),
        ("verifier", {"level": ["full"]}),
        ("docs/examples/peer.py:Peer", {}),
        ("siblings", {"each": {"provider": "verifier", "level": "full"}}),
        (
            "paired",
            {"even": {"provider": "verifier", "level": "full"}, "odd": {"provider": "policy"}},
        ),
    ],
)
def test_the_answer_is_told_only_where_that_is_meant(
    provider: str, options: dict[str, Any], meant: bool, action: str
):
    settings = config(provider, {"action": action}, acknowledge_leaks=meant, **options)
    if action == "redact" or (meant and action in ("none", "warn")):
        build_provider(settings)
        return
    wanted = rf"^rltf\.feedback\.provider={re.escape(provider)}: .*acknowledge_leaks=true"
    with pytest.raises(ConfigError, match=wanted):
        build_provider(settings)


def test_waiting_is_of_every_judge_and_needs_one() -> None:
    judged, unjudged = (
        RLTFConfig.from_mapping(
            {"env": {"name": "binary_matrix"}, "feedback": {**provider, "on_error": "wait"}}
        )
        for provider in (JUDGE, {"provider": "try_again"})
    )
    assert [judge.settings.waits for judge in Parts.of(judged).judges] == [True]
    with pytest.raises(ConfigError, match=r"rltf\.feedback\.on_error=wait: .*no judge"):
        Parts.of(unjudged)


FULL = {
    "provider": "verifier",
    "level": "full",
    "acknowledge_leaks": True,
    "guard": {"action": "none"},
}
HINT, POLICY = {"provider": "verifier", "level": "hint"}, {"provider": "policy"}
PAIRED = {"provider": "paired", "even": HINT, "odd": POLICY}
ENDPOINT = {"endpoint": {"base_url": "http://127.0.0.1:9/v1", "model": "m"}}
JUDGE, GUIDE = (
    {"provider": "judge", **ENDPOINT},
    {
        "provider": "judge",
        "style": "guide",
        **ENDPOINT,
    },
)
SIBLINGS = {"provider": "siblings", "each": HINT}
MIXED = {
    "provider": "verifier",
    "level": ["hint", "full"],
    "acknowledge_leaks": True,
    "guard": {"action": "none"},
}


def resolved(env: Any, feedback: dict[str, Any], **episode: Any) -> str | None:
    config = RLTFConfig.from_mapping(
        {"env": {"name": "own"}, "feedback": feedback, "episode": {"horizon": 3, **episode}}
    )
    made = make_env(env[0], **env[1]) if isinstance(env, tuple) else env
    return with_template(config, made, build_provider(config.feedback)).episode.revise


BM, KK, SP = ("binary_matrix", {}), ("knights_knaves", {}), ("shortest_path", {})
WRITING, MATH = ("writing", {}), ("math", {})
HOUSE = (house_style.NAME, {})
LOOKUP = ("docs/examples/lookup.py:Lookup", {})
COMPACT = {"style": "compact"}


@pytest.mark.parametrize(
    ("env", "feedback", "fresh", "append"),
    [
        *(
            (BM, about, "critique", "plain_append")
            for about in (HINT, POLICY, PAIRED, JUDGE, MIXED)
        ),
        (BM, {"provider": "correctness"}, "critique", "plain_append"),
        (BM, {"provider": "try_again"}, "critique", "plain_append"),
        *((env, FULL, "guide", "plain_append") for env in (BM, SP)),
        *((env, FULL, "critique", "plain_append") for env in (KK, MATH, EchoEnv())),
        *((env, GUIDE, "guide", "plain_append") for env in (BM, KK, MATH, EchoEnv())),
        *((env, HINT, "critique", "plain_append") for env in (KK, SP, MATH, EchoEnv())),
        *((HOUSE, about, "note", "plain_append") for about in (HINT, FULL, POLICY)),
        *((WRITING, about, "text", "plain_append") for about in (HINT, POLICY, GUIDE)),
        *(
            ((name, COMPACT), FULL, "compact_guide", "compact_append")
            for name in ("binary_matrix", "shortest_path")
        ),
        *((env, SIBLINGS, "attempts", "plain_append") for env in (BM, KK, MATH, EchoEnv())),
        *((LOOKUP, about, "act", "act_append") for about in (HINT, FULL, POLICY)),
        *((LOOKUP, about, "act_guide", "act_append") for about in (GUIDE, SIBLINGS)),
        ((OFFICE, {}), HINT, "note", "plain_append"),
        (("binary_matrix", COMPACT), SIBLINGS, "compact_guide", "compact_append"),
        (("knights_knaves", COMPACT), FULL, "compact", "compact_append"),
        *(((env[0], COMPACT), HINT, "compact", "compact_append") for env in (BM, KK, SP)),
    ],
)
def test_the_template_fits_environment_and_feedback(env, feedback, fresh, append) -> None:
    assert resolved(env, feedback) == fresh
    assert resolved(env, feedback, context="append") == append


@pytest.mark.parametrize(
    ("style", "second", "teacher"),
    [({}, "critique", "revise/feedback"), (COMPACT, "compact", "revise/compact_guide")],
)
def test_only_the_teacher_of_logits_does_not_read_the_attempt(style, second, teacher) -> None:
    config = RLTFConfig(logit_distill=LogitDistillConfig(weight=1.0))
    chosen = with_template(config, make_env(BM[0], **style), build_provider(config.feedback))
    assert (chosen.episode.revise, chosen.teacher.prompt) == (second, teacher)


@pytest.mark.parametrize(
    ("episode", "message"),
    [
        (
            {"quote": "none", "revise": "critique"},
            "rltf.episode.quote=none: template critique ",
        ),
        (
            {"revise": "append"},
            "rltf.episode.revise=append: does not show the question",
        ),
    ],
)
def test_a_template_that_does_not_fit_is_refused(episode: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        resolved(BM, HINT, **episode)


@pytest.mark.parametrize("template", ["guide", "compact_guide", "feedback"])
@pytest.mark.parametrize(
    "feedback", [HINT, POLICY, PAIRED, JUDGE, MIXED, {"provider": "correctness"}]
)
def test_feedback_on_an_attempt_that_is_not_shown_is_refused(
    feedback: dict[str, Any], template: str
) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"revise={template}: .*rltf\.feedback\.provider={feedback['provider']} .*quote=none",
    ):
        resolved(BM, feedback, revise=template)
    assert resolved(BM, feedback, quote="none") == "guide"
    assert resolved(BM, feedback, revise=template, context="append") == template, (
        "there the attempt stands in the chat"
    )
    for stands_alone in (FULL, GUIDE):
        assert resolved(BM, stands_alone, revise=template) == template


def written(folder: Path, text: str) -> str:
    (folder / "mine.j2").write_text(text, "utf-8", "surrogateescape")
    return str(folder / "mine.j2")


def test_a_template_from_a_file(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'Q {{ question }}\nA {{ attempt }}\nF {{ feedback }}\n{% include "revise/_closing.j2" %}',
    )
    assert resolved(BM, HINT, revise=path) == path
    text = render(path, question="What? In \\boxed{}.", attempt="{{ 1 + 1 }}", feedback="wrong")
    assert text.splitlines()[:3] == ["Q What? In \\boxed{}.", "A {{ 1 + 1 }}", "F wrong"]
    assert text.splitlines()[3].endswith("within \\boxed{}.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{{ question }}\n{{ atempt }}",
            "line 2: no variable 'atempt'; there are: question, attempt, feedback",
        ),
        (
            "{{ question }}\n\n{% if %}",
            "line 3: Expected an expression, got 'end of statement block'",
        ),
        ("{{ question }", "line 1: unexpected '}'"),
        (
            "{{ question.__class__.__mro__ }}",
            "access to attribute '__class__' of 'str' object is unsafe.",
        ),
        ("{{ question / 2 }}", "TypeError: unsupported operand"),
        ('{% include "none.j2" %}', "it includes none.j2, which is not there"),
        ("{{ question }} {{ attempt }}", "does not show the feedback"),
        ("{{ question }} {{ feedback }}", "does not show the attempt that the feedback of"),
        ("{{ attempt }} {{ feedback }}", "does not show the question"),
        ("", "does not show the feedback"),
        ("\udcff\udcfe{{ question }}", "'utf-8' codec can't decode"),
    ],
)
def test_a_file_that_cannot_be_a_template_is_refused_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(
        ValueError, match=re.escape(f"rltf.episode.revise={path}: {message}")
    ) as refused:
        resolved(BM, HINT, revise=path)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^rltf.episode.revise=./none.j2: No such file"):
        resolved(BM, HINT, revise="./none.j2")


def test_a_critic_from_a_file_shows_question_and_attempt(tmp_path: Path) -> None:
    require_template("key", "critic", written(tmp_path, "{{ question }} {{ attempt }}"))
    for text, message in (
        ("{{ question }}", "does not show {{ attempt }}; a critic needs "),
        (
            "{{ question }} {{ attempt }} {{ feedback }}",
            "line 1: no variable 'feedback'; there are: question, attempt",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            require_template("key", "critic", written(tmp_path, text))
