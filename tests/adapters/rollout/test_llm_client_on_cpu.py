"""An interrupted answer goes on with the budget that is left, new random numbers, and the versions
that it saw; and one server is asked for once.
"""

import asyncio
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf
from verl.workers.rollout.replica import TokenOutput

from rltf_verl.adapters.rollout.llm_client import OnlyServerClient, ResumingClient
from rltf_verl.texts import seed_from

SEED, PROMPT = 7, [1, 2, 3]
CALLS = (
    "acquire_server",
    "release_server",
    "require_acquire_fields",
    "require_release_fields",
    "generate",
)


class Engine:
    """Stands for a Ray actor, server and load balancer in one: aborts twice, the first time before
    any token.
    """

    def __init__(self) -> None:
        self.asked, self.calls = [], []
        for call in CALLS:
            setattr(self, call, SimpleNamespace(remote=getattr(self, f"_{call}", self._no_fields)))

    async def _acquire_server(self, request_id):
        self.calls.append("acquire")
        return "server", self

    def _release_server(self, server_id):
        self.calls.append("release")

    async def _no_fields(self):
        return []

    async def _generate(self, prompt_ids, sampling_params, **_):
        self.asked.append((list(prompt_ids), dict(sampling_params)))  # as Ray would: a copy
        tokens, reason, version = [
            ([], "aborted", None),
            ([10, 11], "aborted", 4),
            ([12], "completed", 5),
        ][len(self.asked) - 1]
        return TokenOutput(
            token_ids=tokens,
            log_probs=[-1.0] * len(tokens),
            stop_reason=reason,
            extra_fields={"global_steps": version},
        )


def config_of(engine):
    rollout = {"name": engine, "response_length": 8}
    return OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})


@pytest.mark.parametrize(
    ("engine", "seeds"),
    [
        ("vllm", [seed_from(f"{SEED}/{num}") for num in (3, 3, 5)]),
        ("transformers", [SEED] * 3),
    ],
)
async def test_each_part_of_an_answer_has_its_own_random_numbers(monkeypatch, engine, seeds):
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: sleep(0))
    server = Engine()
    client = ResumingClient(config_of(engine), server)
    params = {"seed": SEED, "temperature": 1.0}
    output = await client.generate("r", prompt_ids=PROMPT, sampling_params=params)
    assert (output.token_ids, output.log_probs) == ([10, 11, 12], [-1.0] * 3)
    assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (
        4,
        5,
    )
    assert [ids for ids, _ in server.asked] == [PROMPT, PROMPT, [*PROMPT, 10, 11]]
    assert [p["max_tokens"] for _, p in server.asked] == [8, 8, 6]
    assert [p["seed"] for _, p in server.asked] == seeds
    assert params == {"seed": SEED, "temperature": 1.0}
    assert all(0 <= seed < 2**63 for seed in seeds)


async def test_one_server_is_asked_for_once_and_left_once():
    server = Engine()
    client = OnlyServerClient(config_of("transformers"), server)
    for i in range(3):
        await client.generate(f"r{i}", prompt_ids=PROMPT, sampling_params={"seed": SEED})
    assert len(server.asked) == 3
    assert server.calls == ["acquire", "release"]
