"""Rows over what verl's own tool loop has played, with a scripted engine."""

import asyncio
from itertools import groupby
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
from verl.tools.function_tool import FunctionTool
from verl.tools.schemas import OpenAIFunctionToolSchema

from rltf_verl.adapters.queue.columns import ROLE, TEACHERS, teacher_spans
from rltf_verl.adapters.rollout.agent_loop import RowOutput, rows_of_foreign_loop
from rltf_verl.config import RLTFConfig
from rltf_verl.episode.parts import Parts
from rltf_verl.feedback.group import Groups
from rltf_verl.objectives import Method
from rltf_verl.types import CONTEXT, Episode, Role
from tests.support.episode_fakes import EchoEnv, ScriptedProvider
from tests.support.verl_policy import POLICY

from .test_acting_policy_on_cpu import QUESTION, TOOL, call, tokenizer_with_tools

TOKENIZER = tokenizer_with_tools()
ANSWERS = [f"<think>so</think>{call('a')}", "It says no"]
END = "<|im_end|>"
TOLD = "user\n<tool_response>\na: wall\n</tool_response>\nassistant"
"""What verl's builder puts between two answers, without special tokens."""
BASE = {
    "env": {"name": "binary_matrix"},
    "feedback": {"provider": "verifier"},
    "episode": {"horizon": 1},
    "teacher": {"prompt": "teacher/compact", "turns": "first", "notes": "by_step"},
}
WEIGHT = {"weight": 0.5}
ROLLOUT = {
    "prompt_length": 4000,
    "response_length": 2000,
    "name": "transformers",
    "n": 1,
    "full_determinism": False,
    "val_kwargs": {"n": 1},
    "multi_turn": {
        "format": "hermes",
        "max_user_turns": None,
        "max_assistant_turns": None,
        "max_parallel_calls": 1,
        "max_tool_response_length": 256,
        "tool_response_truncate_side": "middle",
    },
}
ROW = {
    "raw_prompt": QUESTION,
    "uid": "u",
    "session_id": 0,
    "global_steps": 1,
    "reward_model": {"ground_truth": "yes"},
    "extra_info": {"index": 7, "task": "{}", "env": "echo"},
}


class Tools(ToolAgentLoop):  # type: ignore[misc]
    """verl's loop with a tool of its own, as a user would write it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        schema = OpenAIFunctionToolSchema.model_validate(TOOL)
        tools = [FunctionTool("look", lambda path: f"{path}: wall", schema)]
        super().__init__(*args, **{**kwargs, "tools": ToolListWrap(tools)})

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in ("feedback", "reward_score")}
        output = await super().run(sampling_params, **kwargs)
        output.reward_score = given["reward_score"]
        return await rows_of_foreign_loop(self, output, given["feedback"], **kwargs)


class Engine:
    """Gives the answers, one after the other."""

    def __init__(self, answers: Any) -> None:
        self._answers = iter(answers)

    async def generate(self, **_: Any) -> Any:
        ids = TOKENIZER.encode(next(self._answers) + END, add_special_tokens=False)
        return SimpleNamespace(
            token_ids=ids,
            log_probs=[-0.5] * len(ids),
            num_preempted=0,
            routed_experts=None,
            extra_fields={"min_global_steps": 3, "max_global_steps": 4},
        )


def played(
    provider: Any = None,
    *,
    validate: bool = False,
    answers: Any = ANSWERS,
    feedback: str | None = None,
    reward_score: float | None = None,
    **blocks: Any,
) -> tuple[list[RowOutput], Episode]:
    """The rows, and the episode that was logged."""
    trainer = OmegaConf.create(
        {
            "actor_rollout_ref": {"rollout": ROLLOUT, "model": {"path": str(POLICY)}},
            "trainer": {"log_val_generations": 0, "val_only": True},
            "data": {},
        }
    )
    config, logged = RLTFConfig.from_mapping({**BASE, **blocks}), list[Episode]()

    async def write(episode: Episode, *_: Any) -> None:
        logged.append(episode)

    shared = SimpleNamespace(
        parts=Parts(config, EchoEnv(), provider or ScriptedProvider()),
        config=config,
        method=Method(config),
        groups=Groups(),
        seeds_of=lambda row, problem: lambda place: 1,
        write=write,
    )

    async def main() -> list[RowOutput]:
        configs = DictConfigWrap(trainer), DictConfigWrap(trainer.data)
        engine = Engine(answers)
        loop = Tools(configs[0], engine, TOKENIZER, None, None, configs[1], hf_model_type="qwen2")
        own = {"rltf_shared": shared, "rltf_validate": validate}
        given = {"feedback": feedback, "reward_score": reward_score}
        rows: list[RowOutput] = await loop.run({}, **ROW, **own, **given)
        return rows

    return asyncio.run(main()), logged[0]


def texts(row: RowOutput, role: int) -> list[str]:
    """What of the row has the role, by stretch."""
    tokens = zip(row.columns[ROLE].tolist(), row.response_ids, strict=True)
    stretches = [(r, [i for _, i in own]) for r, own in groupby(tokens, key=itemgetter(0))]
    return [TOKENIZER.decode(ids, skip_special_tokens=True) for r, ids in stretches if r == role]


def test_verls_tool_loop_trains_what_it_sampled() -> None:
    """The environment grades the last answer; nobody is asked for feedback."""
    ((row,), episode) = played(answers=[ANSWERS[0], "It says yes"])
    assert texts(row, Role.ATTEMPT) == [ANSWERS[0], "It says yes"]
    assert row.response_mask == [int(r != CONTEXT) for r in row.columns[ROLE].tolist()]
    assert [p < 0 for p in row.response_logprobs or ()] == list(map(bool, row.response_mask))
    assert row.reward_score == row.columns["rm_scores"].sum() == 1
    (turn,) = episode.turns
    assert (turn.grade.correct, turn.stop, turn.attempt.ended) == (True, "solved", True)
    assert (row.extra_fields["min_global_steps"], row.num_turns) == (3, 4)
    assert turn.attempt.text.startswith(f"[step 1]\n{call('a')}\n[observation]\n")


@pytest.mark.parametrize("feedback", [None, "Hm.\nStep 2: Say yes."])
def test_teacher_and_feedback_modelling_read_a_judges_or_a_given_text(feedback: str | None) -> None:
    provider = ScriptedProvider("Hm.\nStep 2: Say yes.")
    modelling = {**WEIGHT, "critic": "compact", "classes": ["feedback", "observation"]}
    blocks = {"logit_distill": WEIGHT, "feedback_modeling": modelling}
    (rows, episode) = played(provider, feedback=feedback, reward_score=0.25, **blocks)
    predicted, attempt = rows
    assert len(provider.asked) == (feedback is None)
    assert episode.turns[0].reward == attempt.reward_score == 0.25
    assert texts(predicted, Role.FEEDBACK_MODELING) == ["Hm.\nStep 2: Say yes."]
    assert "It says no" in TOKENIZER.decode(predicted.prompt_ids)
    assert [text.strip() for text in texts(attempt, Role.FEEDBACK_MODELING)] == [TOLD]
    (span,) = teacher_spans(attempt.columns[TEACHERS])
    taught = attempt.response_ids[span.start : span.end]
    assert TOKENIZER.decode(taught) == f"It says no{END}"
    before = TOKENIZER.decode(span.prompt_ids)
    assert "Step 2: Say yes." in before
    assert '"name": "look"' in before, "the teacher sees the tools"
    assert before.endswith(TOKENIZER.decode(attempt.response_ids[: span.start]))


def test_only_thoughts_are_a_class_of_their_own() -> None:
    ((row,), _) = played(token_classes="think")
    assert texts(row, Role.ATTEMPT) == ["<think>so</think>"]


def test_a_validation_asks_for_no_feedback() -> None:
    ((row,), episode) = played(validate=True, logit_distill=WEIGHT)
    assert row.extra_fields["reward_extra_info"]["acc"] == 0
    assert episode.turns[0].feedback is None
