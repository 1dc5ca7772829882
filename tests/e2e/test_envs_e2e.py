"""One training step through the real `main_ppo` for each family of environments, with the tiny
policy.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.data.build import build_parquet
from tests.e2e import runs
from tests.support.judge.server import InThread, JudgeServer

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
GROUP, BATCH = 2, 4
ONE_STEP = [
    "trainer.total_training_steps=1",
    "trainer.save_freq=-1",
    "trainer.test_freq=-1",
    "data.max_prompt_length=480",
    f"actor_rollout_ref.rollout.n={GROUP}",
    f"data.train_batch_size={BATCH}",
]


def trained(
    folder: Path, env: str, options: dict[str, Any], *overrides: str, method: str = "sd"
) -> list[Any]:
    """Episodes of one step on problems that are built with `options`."""
    paths = build_parquet(env, folder / "data", 0, 8, 2, **options)
    data = {"data.train_files": str(paths.train), "data.val_files": str(paths.test)}
    run = runs.start(folder / "run", data, [*ONE_STEP, *overrides], method, env=env).finished(400)
    (step,) = run.training_steps(1)
    assert (step["rltf/grader/error_share"], step["rltf/grader/ungraded_share"]) == (0, 0)
    episodes = read_episodes(run.episodes)
    assert len(episodes) == GROUP * BATCH
    assert {record["env"] for record in episodes} == {env}
    return episodes


def feedback_of(episodes: list[Any]) -> set[str]:
    """All feedback."""
    return {
        turn["feedback"]["text"]
        for record in episodes
        for turn in record["turns"]
        if turn["feedback"]
    }


@pytest.mark.parametrize(
    ("env", "options", "override", "feedback"),
    [
        ("shortest_path", {"style": "compact"}, "rltf.env.style=compact", r"[=xXRLUDN<>?~]*"),
        ("reasoning_gym", {"task": "chain_sum"}, "rltf.feedback.level=location", ".*incorrect.*"),
    ],
    ids=["marks of moves", "a verdict"],
)
def test_a_puzzle(
    tmp_path: Path, env: str, options: dict[str, str], override: str, feedback: str
) -> None:
    texts = feedback_of(trained(tmp_path, env, options, override))
    assert texts
    assert all(re.fullmatch(feedback, text, re.DOTALL) for text in texts)


def test_mathematics(tmp_path: Path) -> None:
    lines = [
        json.dumps({"question": f"Simplify ${n}/{2 * n}$.", "answer": "\\frac12"})
        for n in range(3, 13)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    episodes = trained(
        tmp_path, "math", {"source": str(tmp_path / "own.jsonl")}, "rltf.feedback.level=hint"
    )
    assert feedback_of(episodes)
    assert not any("frac" in text for text in feedback_of(episodes)), "a hint holds no answer"


def test_programs(tmp_path: Path) -> None:
    back_end = (  # the tiny policy writes no programs; the build writes ours
        "rltf.env.sandbox=unsafe_process"
    )
    options = {"source": "arithmetic", "sandbox": "unsafe_process"}
    episodes = trained(tmp_path, "code", options, back_end, "rltf.feedback.level=hint")
    assert any("```python" in text or "program" in text for text in feedback_of(episodes))


def test_a_dialogue_with_a_teacher(tmp_path: Path) -> None:
    server = JudgeServer(reply=lambda body: "Thinking: no.\n\nHint: 010")
    with InThread(server):
        episodes = trained(
            tmp_path,
            "binary_matrix",
            {"style": "compact", "n_max": 3},
            "rltf.env.style=compact",
            "rltf.episode.revise=compact_append",
            f"rltf.feedback.endpoint.base_url={server.url}",
            "rltf.feedback.endpoint.model=m",
            method="rl2f",
        )
    assert max(len(record["turns"]) for record in episodes) == 5
    assert feedback_of(episodes) == {"010"}
    assert len(max(server.bodies, key=lambda body: len(body["messages"]))["messages"]) == 7, (
        "it remembers its hints"
    )


def test_a_text_scored_by_a_judge_that_goes_down(tmp_path: Path) -> None:
    """A judge that is there for some answers only: those that it did not see train nothing, and the
    run goes on.
    """
    # What the tiny policy knows to answer: three lines of digits.
    lines = [
        json.dumps({"prompt": "\n".join(f"{i:09b}"[k : k + 3] for k in (0, 3, 6))})
        for i in range(100, 110)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    server = JudgeServer(
        reply=lambda body: "Critique: 010\n\nScore: 4", script=["ok"] * 5 + ["500"] * 1000
    )
    limits = "limits:{max_attempts:1,deadline_s:5}"
    with InThread(server):
        judge = f"rltf.env.judges=[{{endpoint:{{base_url:'{server.url}',model:m}},{limits}}}]"
        paths = build_parquet(
            "writing", tmp_path / "data", 0, 8, 2, path=str(tmp_path / "own.jsonl")
        )
        data = {"data.train_files": str(paths.train), "data.val_files": str(paths.test)}
        run = runs.start(
            tmp_path / "run", data, [*ONE_STEP, judge, "rltf.feedback.level=hint"], env="writing"
        ).finished(400)
    (step,) = run.training_steps(1)
    assert 0 < step["rltf/grader/ungraded_share"] < 1
    ends = [record["turns"][-1]["stop"] for record in read_episodes(run.episodes)]
    assert "ungraded" in ends
