"""From the config to what episodes hear: guarded, recorded, replayed."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rltf_verl import feedback
from rltf_verl.config import ConfigError, FeedbackConfig, RLTFConfig
from rltf_verl.episode.parts import Parts, build_provider
from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable
from rltf_verl.feedback.guard.provider import GuardedProvider
from rltf_verl.types import Episode, Feedback
from tests.support.episode_fakes import ScriptedPolicy, play

CALLS: list[int] = []
LEAKY = 'The answer is "yes".'


class Judge:
    """Sees the reference; leaks it in odd calls, fails in every fifth, and never says the same
    twice.
    """

    name, sees_reference, constant = "judge_of_tests", True, False

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        CALLS.append(request.seed)
        if len(CALLS) % 5 == 0:
            raise FeedbackUnavailable(self.name, f"call {len(CALLS)}")
        return Feedback(LEAKY if len(CALLS) % 2 else f"remark {len(CALLS)}", self.name)


@pytest.fixture(autouse=True)
def judge(monkeypatch):
    CALLS.clear()
    monkeypatch.setitem(feedback._PROVIDERS, "judge_of_tests", f"{__name__}:Judge")


def config(
    provider: str = "judge_of_tests", guard: dict[str, Any] | None = None, **block: Any
) -> FeedbackConfig:
    whole = {"provider": provider, "guard": guard, **block}
    return RLTFConfig.from_mapping({"env": {"name": "binary_matrix"}, "feedback": whole}).feedback


async def run(settings: FeedbackConfig) -> list[Episode]:
    """Twelve episodes of up to four turns, each by its own seeds, as a run would play them."""
    provider = build_provider(settings)
    return [
        await play(
            ScriptedPolicy([f"no {i}", f"no {i % 2}", f"nope {i}", "yes"]),
            provider,
            horizon=4,
            session_id=i,
            on_error=settings.on_error,
            seeds=lambda place, i=i: 1000 * i + sum(map(ord, place)),
        )
        for i in range(12)
    ]


def without_clock(episodes: list[Episode]) -> list[Episode]:
    """Episodes without the seconds that feedback took."""
    return [
        replace(
            e,
            turns=tuple(
                replace(t, feedback=t.feedback and replace(t.feedback, latency_s=0))
                for t in e.turns
            ),
        )
        for e in episodes
    ]


@pytest.mark.parametrize("on_error", ["stop_session", "correctness"])
@pytest.mark.parametrize("action", ["drop", "redact", "regenerate", "warn"])
async def test_a_replayed_run_makes_no_call_and_gives_the_same_episodes(
    tmp_path: Path, on_error: str, action: str
):
    played = await run(
        config(guard={"action": action}, on_error=on_error, record_dir=str(tmp_path))
    )
    num_calls = len(CALLS)
    assert num_calls > 15
    again = await run(config("replay", {"action": action}, on_error=on_error, folder=str(tmp_path)))
    assert len(CALLS) == num_calls
    assert without_clock(again) == without_clock(played)


async def test_a_record_holds_what_was_said_before_the_guard(tmp_path: Path):
    await run(config(on_error="correctness", record_dir=str(tmp_path)))
    loose = await run(
        config("replay", {"action": "warn"}, on_error="correctness", folder=str(tmp_path))
    )
    assert any(t.feedback and t.feedback.text == LEAKY for e in loose for t in e.turns)


async def test_dropped_feedback_ends_the_episode_and_stays_in_it():
    first, *_ = await run(config())
    (turn,) = first.turns
    assert (turn.stop, turn.feedback) == ("feedback_unavailable", None)
    assert turn.error.startswith("judge_of_tests: the leak guard dropped it (answer: ")
    assert (turn.withheld.text, turn.withheld.provider) == (LEAKY, "judge_of_tests")


async def test_dropped_feedback_may_be_replaced_by_the_fixed_sentence():
    first, *_ = await run(config(on_error="correctness"))
    turn = first.turns[0]
    assert (turn.feedback.fallback, turn.feedback.leak) == (True, None)
    assert turn.withheld.leak.startswith("answer: ")


async def test_regenerated_feedback_is_what_the_next_turn_reads():
    first, *_ = await run(config(guard={"action": "regenerate"}))
    given = first.turns[0].feedback
    assert (given.text, given.original) == ("remark 2", LEAKY)
    assert given.leak


def test_who_is_guarded():
    assert isinstance(build_provider(config()), GuardedProvider)
    hint = build_provider(config("verifier", level="hint"))
    assert isinstance(hint, GuardedProvider), "it may quote others who see the reference"
    build_provider(config("verifier", {"action": "none"}, level="hint"))
    full = config("verifier", {"action": "none"}, level="full", acknowledge_leaks=True)
    assert not isinstance(build_provider(full), GuardedProvider)
    may_tell = (
        "rltf.feedback.guard.action=none: provider judge_of_tests sees the reference answer and"
        " the leak guard is off"
    )
    with pytest.raises(ConfigError, match=re.escape(may_tell)):
        build_provider(config(guard={"action": "none"}))


@pytest.mark.parametrize("action", ["drop", "regenerate", "warn", "none", "redact"])
@pytest.mark.parametrize("meant", [False, True])
@pytest.mark.parametrize(
    ("provider", "options"),
    [
        ("verifier", {"level": "full"}),
        ("verifier", {"level": ["full"]}),
        ("docs/examples/peer.py:Peer", {}),
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
    with pytest.raises(
        ConfigError,
        match=re.escape(
            f"rltf.feedback.provider={provider}: it states the answer on purpose (a verifier at"
            " level=full, a sibling's solution); choose a verifier's level=hint, or, if it is"
            " meant, rltf.feedback.acknowledge_leaks=true rltf.feedback.guard.action=none (as"
            " rltf/feedback=verifier_full)"
        ),
    ):
        build_provider(settings)


def test_waiting_is_of_every_judge_and_needs_one() -> None:
    endpoint = {"endpoint": {"base_url": "http://h/v1", "model": "m"}}
    judged = {"feedback": {"provider": "judge", "style": "short", **endpoint, "on_error": "wait"}}
    parts = Parts.of(RLTFConfig.from_mapping({"env": {"name": "binary_matrix"}, **judged}))
    assert [judge.settings.waits for judge in parts.judges] == [True]
    assert parts.config.feedback.ends_after == 1
    none = {
        "env": {"name": "binary_matrix"},
        "feedback": {"provider": "try_again", "on_error": "wait"},
    }
    with pytest.raises(ConfigError, match=r"rltf\.feedback\.on_error=wait: .*no judge"):
        Parts.of(RLTFConfig.from_mapping(none))
