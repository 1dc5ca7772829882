"""A pretrained model's tokenizer and chat template, from the first prompt to the trained rows.

Needs the folder that `rltf model smollm2` wrote: RLTF_SMOLLM2, or outputs/pretrained/smollm2.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from transformers import AutoTokenizer

from rltf_verl.config import RLTFConfig
from rltf_verl.config.objectives import DistillConfig
from rltf_verl.episode.run import run_episode
from rltf_verl.feedback import make_provider
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.types import Role
from tests.adapters.rollout.test_policy_on_cpu import Engine, run
from tests.recipes.house_style import make_house
from tests.support.episode_fakes import parts_with, seed_of_place

FOLDER = Path(os.environ.get("RLTF_SMOLLM2", "outputs/pretrained/smollm2"))
pytestmark = pytest.mark.skipif(
    not (FOLDER / "tokenizer.json").is_file(),
    reason=f"no {FOLDER}: rltf model smollm2 {FOLDER}",
)
IM_START, IM_END = 1, 2


class Scripted(Engine):
    """Answers in turn."""

    async def generate(self, request_id, prompt_ids, sampling_params):
        self.ids, *self.rest = self.rest if self.asked else [self.ids, *self.rest]
        return await super().generate(request_id, prompt_ids, sampling_params)


def test_an_episode_becomes_rows_of_its_real_tokens() -> None:
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    assert (tokenizer.eos_token_id, tokenizer.eos_token) == (IM_END, "<|im_end|>")
    env = make_house()
    problem = env.build(0, 1, 0).train[0]
    answers = [
        [*tokenizer.encode(text, add_special_tokens=False), IM_END]
        for text in ("16 May 1981", problem.reference)
    ]
    engine = Scripted(answers[0])
    engine.rest = answers[1:]
    question = [{"role": "user", "content": env.prompt(problem)}]
    parts = parts_with(env, make_provider("verifier", level="hint"), revise="note")
    config = RLTFConfig(distill=DistillConfig(weight=1.0))

    async def work(policy):
        episode = await run_episode(
            parts,
            policy,
            problem,
            question,
            session_id=0,
            validate=False,
            seed_of=seed_of_place,
        )
        return episode, await episode_rows(policy, question, episode, config)

    model = OmegaConf.create(
        {"actor_rollout_ref": {"model": {"path": str(FOLDER), "hf_config_path": None}}}
    )
    episode, rows = run(
        work, tokenizer, engine=engine, model=model, prompt_length=400, response_length=40
    )
    assert [turn.grade.correct for turn in episode.turns] == [False, True]
    first, distilled, second = rows
    prompt = tokenizer.decode(first.prompt_ids)
    assert prompt == tokenizer.apply_chat_template(
        question, add_generation_prompt=True, tokenize=False
    )
    assert prompt.startswith("<|im_start|>system\n")
    asked = tokenizer.decode(second.prompt_ids)
    assert episode.turns[0].feedback.text in asked
    assert asked.count("<|im_start|>") == 3
    assert [tuple(row.response_ids) for row in (first, second)] == [tuple(a) for a in answers]
    assert (distilled.prompt_ids, distilled.response_ids) == (
        first.prompt_ids,
        second.response_ids,
    )
    assert [set(row.role) for row in rows] == [{Role.ATTEMPT}, {Role.DISTILL}, {Role.ATTEMPT}]
    assert tokenizer.decode(distilled.response_ids[:-1]) == problem.reference
    assert distilled.response_ids[-1] == IM_END
