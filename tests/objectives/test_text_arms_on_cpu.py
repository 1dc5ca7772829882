"""Methods that train on text beside the answer: rows, masks and weights of `insight`,
`group_critique` and `echo`, played by scripted policies.
"""

from pathlib import Path

import pytest
import torch

from rltf_verl.config.objectives import Loss
from rltf_verl.feedback.siblings import INTRODUCTION
from rltf_verl.types import Role
from tests.recipes.composing import method_of
from tests.recipes.seeds import hints, play, stops
from tests.support.acting_fakes import ActorEnv, ScriptedActor, call
from tests.support.episode_fakes import FIRST_PROMPT, text_of
from tests.support.methods import objective_of

INSIGHT = "Insight: say yes.\nyes"


def test_the_insight_stands_in_front_of_the_answer_behind_the_first_prompt() -> None:
    """Both are the ids that were sampled; λ = 0.5 on each of them where the answer is right."""
    config = method_of("insight")
    episodes = play(config, [["no", INSIGHT], ["no", "Insight: say ne.\nne"], ["yes"]])
    assert 'begins with "Insight:"' in episodes.policies[0].prompts[1]
    ((episode, row),) = episodes.rows_of(Role.IMITATE)
    assert episode == 0
    assert text_of(row.prompt_ids) == FIRST_PROMPT
    assert text_of(row.response_ids) == f"{INSIGHT}\0"
    second = episodes.episodes[0].turns[1].attempt
    assert (row.response_ids, row.log_probs) == (second.response_ids, second.log_probs)
    assert set(row.role) == {Role.IMITATE}
    assert episodes.advantages(Role.IMITATE) == [(0, pytest.approx(0.5))]


GROUP = ("rltf/feedback=siblings",)


def test_a_whole_group_failed_and_reads_one_text_of_all_failures() -> None:
    """GOLF: right refinements are first answers, by the shaped probability behind the first prompt;
    wrong ones are nothing; behind their own prompt they are a group."""
    config = method_of("group_critique", *GROUP)
    assert config.distill.loss == Loss("shaped", gamma=0.1)
    episodes = play(config, [["no", "yes"], ["nein", "ne"]])
    each = [
        f"Attempt {k}:\n{a}\n\nFeedback: (hint on {a})" for k, a in enumerate(("no", "nein"), 1)
    ]
    critique = "\n\n".join([INTRODUCTION, *each])
    assert hints(episodes) == [[critique], [critique]]
    assert all(critique in policy.prompts[1] for policy in episodes.policies)
    assert stops(episodes) == ["solved", "horizon"]
    assert [text_of(row.prompt_ids) for _, row in episodes.rows_of(Role.DISTILL)] == [
        FIRST_PROMPT
    ] * 2
    assert episodes.advantages(Role.DISTILL) == [(0, 1.0), (1, 0.0)]
    assert sorted(episodes.advantages(Role.ATTEMPT)) == [(0, 0.0), (0, 0.5), (1, -0.5), (1, 0.0)]


def test_a_group_with_a_right_answer_is_plain_grpo() -> None:
    episodes = play(method_of("group_critique", *GROUP), [["no", "yes"], ["yes"]])
    assert (hints(episodes), stops(episodes)) == ([[], []], ["not_asked", "solved"])
    assert episodes.rows_of(Role.DISTILL) == []
    assert episodes.advantages(Role.ATTEMPT) == [(0, -0.5), (1, 0.5)]


def test_feedback_on_the_only_attempt_is_predicted() -> None:
    episodes = play(method_of("fm", "rltf.episode.horizon=1"), [["no"], ["yes"]])
    assert (hints(episodes), stops(episodes)) == ([["(hint on no)"], []], ["horizon", "solved"])
    assert [
        (episode, text_of(row.response_ids))
        for episode, row in episodes.rows_of(Role.FEEDBACK_MODELING)
    ] == [(0, "(hint on no)\0")]


ALONE = ("rltf.episode.horizon=1", "rltf.feedback_modeling.classes=observation")
FILTER = """
def words(text):
    return [(0, len(text) - 1)]
"""


@pytest.mark.parametrize("filtered", [False, True])
def test_what_an_environment_with_steps_answers_is_predicted(
    tmp_path: Path, filtered: bool
) -> None:
    """ECHO: loss −0.05 · Σ log π of the observations alone, here with log π = −0.25."""
    (tmp_path / "mine.py").write_text(FILTER)
    words = f"rltf.feedback_modeling.filter={tmp_path / 'mine.py'}:words"
    config = method_of("echo", *ALONE, *([words] if filtered else []))
    answers = [[call("ok") + call("bad"), call("half"), call("win")]]
    played = play(config, answers, env=ActorEnv(), policy=ScriptedActor)
    (row,) = played.rows
    place = [i for i, role in enumerate(row.role) if role == Role.FEEDBACK_MODELING]
    told = ["ok!", "bad!", "\N{REPLACEMENT CHARACTER} half"]
    expected = "".join(text[:-1] for text in told) if filtered else "".join(told)
    assert text_of(row.response_ids[i] for i in place) == expected
    assert all(row.log_probs[i] == 0 for i in place)
    weights = played.targets.advantages
    objective = objective_of(config, "feedback_modeling")
    log_prob, mask = torch.full_like(weights, -0.25), played.batch.role == Role.FEEDBACK_MODELING
    loss = objective.loss(log_prob, log_prob, weights, mask)
    assert float(loss) == pytest.approx(0.05 * 0.25 * len(expected))
