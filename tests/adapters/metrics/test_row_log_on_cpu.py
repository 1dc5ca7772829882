"""What the trainer writes of an episode's rows, on rows whose numbers are plain to see."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transfer_queue import KVBatchMeta

from rltf_verl.adapters.metrics.row_log import RowLog
from rltf_verl.adapters.queue.columns import EPISODE_FACTS
from rltf_verl.adapters.queue.step_rows import StepRows
from rltf_verl.adapters.queue.token_texts import token_texts
from rltf_verl.algos.episodes import in_line
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import EpisodeLogConfig, RLTFConfig
from rltf_verl.objectives import Method
from rltf_verl.runlog.episodes import EpisodeLog, read_episodes
from rltf_verl.runlog.files import log_files, read_files
from rltf_verl.runlog.rows import read_rows
from rltf_verl.types import CONTEXT, Attempt, Episode, Grade, Problem, Role, Turn
from tests.support.step_queue import StepQueue

ATTEMPT, DISTILL = int(Role.ATTEMPT), int(Role.DISTILL)

# Three episodes, the first with an appended row (two attempts, context between) and a distillation
# row; padding.
KEYS = ["a_0_1", "pad_0_0", "a_0_0", "b_0_0", "b_1_0"]
REAL = [0, 2, 3, 4]
ROLES = [[DISTILL] * 2, [ATTEMPT, ATTEMPT, CONTEXT, ATTEMPT], [ATTEMPT], [ATTEMPT] * 3]
TURNS = [[1, 1], [0, 0, 0, 1], [0], [0, 0, 0]]
ADVANTAGE = [[0.25, 0.0], [-0.5, -0.5, 0.0, 0.5], [1.0], [0.0, 0.0, 0.0]]
OLD = [[-1.0, -6.0], [-0.1, -0.3, -9.0, -0.2], [-0.5], [-0.125, -0.25, -0.375]]
SAMPLER = [[-0.5, -0.5], [-0.1, -0.3, 0.0, -0.2], [-0.5], [-0.125, -0.25, -0.375]]
IDS = {"a_0_1": [72, 105], "a_0_0": [97, 98, 0xC3, 0xA9], "b_0_0": [99], "b_1_0": [100, 101, 102]}
NAMES = Method(RLTFConfig()).role_names


def decode(ids, skip_special_tokens=False):
    return bytes(ids).decode("utf-8", "replace")


TOKENIZER = SimpleNamespace(decode=decode)


def flat(rows):
    return torch.tensor([value for row in rows for value in row])


@pytest.fixture
def step(monkeypatch):
    tags = [{"is_padding": key.startswith("pad")} for key in KEYS]
    batch = KVBatchMeta(KEYS, tags, "train")
    StepQueue(monkeypatch, batch, {"responses": [IDS.get(key) for key in KEYS]})
    episodes = in_line(
        torch.zeros(3, 2), torch.ones(3, 2, dtype=torch.bool), torch.tensor([0, 1, 1])
    )
    episode = torch.tensor([0] * 6 + [1] + [2] * 3)
    lengths = torch.tensor([2, 4, 1, 3])
    tokens = flat(ROLES), flat(TURNS), episode, lengths, episodes, flat(OLD), flat(SAMPLER)
    facts = torch.zeros(3, 2, len(EPISODE_FACTS))
    targets = RowTargets(flat(ADVANTAGE), flat(OLD), (flat(OLD) < -5) & (flat(ROLES) == DISTILL))
    return StepRows(batch, REAL, RowBatch(*tokens), facts, -flat(OLD)), targets


def write(folder, step, number=4):
    log = RowLog(EpisodeLogConfig(dir=str(folder)), TOKENIZER, NAMES)
    log.write(*step, number)
    log.close()
    return read_rows(folder)


def test_every_row_in_its_order_with_what_it_trains(tmp_path, step, monkeypatch):
    """And of the first episodes each token with its text."""
    monkeypatch.setattr("rltf_verl.adapters.metrics.row_log.TOKEN_EPISODES", 1)
    rows = write(tmp_path, step)
    assert [[sorted(row) for row in rows[key]] for key in sorted(rows)] == [
        [["parts", "tokens"], ["parts", "tokens"]],
        [["parts"]],
        [["parts"]],
    ]
    attempts, distilled = rows["a", 0]
    assert attempts == {
        "parts": [
            {
                "role": "attempt",
                "turn": 0,
                "tokens": 2,
                "advantage": -0.5,
                "masked": 0.0,
                "log_prob": -0.2,
                "gap": 0.0,
            },
            {
                "role": "attempt",
                "turn": 1,
                "tokens": 1,
                "advantage": 0.5,
                "masked": 0.0,
                "log_prob": -0.2,
                "gap": 0.0,
            },
        ],
        "tokens": {
            "text": ["a", "b", "", "é"],
            "role": [0, 0, CONTEXT, 0],
            "turn": [0, 0, 0, 1],
            "advantage": [-0.5, -0.5, 0.0, 0.5],
            "log_prob": [-0.1, -0.3, -9.0, -0.2],
            "gap": [0.0, 0.0, 9.0, 0.0],
            "masked": [0, 0, 0, 0],
        },
    }
    assert distilled == {
        "parts": [
            {
                "role": "distill",
                "turn": 1,
                "tokens": 2,
                "advantage": 0.125,
                "masked": 0.5,
                "log_prob": -3.5,
                "gap": 3.0,
            }
        ],
        "tokens": {
            "text": ["H", "i"],
            "role": [DISTILL, DISTILL],
            "turn": [1, 1],
            "advantage": [0.25, 0.0],
            "log_prob": [-1.0, -6.0],
            "gap": [0.5, 5.5],
            "masked": [0, 1],
        },
    }


def test_steps_before_are_packed_and_the_rows_join_their_episodes(tmp_path, step):
    log = EpisodeLog(tmp_path, "w")
    turn = Turn(Attempt((1,), (2,), None, "a", ended=True), Grade(True, True), 1.0, stop="solved")
    for number in (3, 4):
        log.append(
            Episode(Problem("e", 0, {}, ""), 0, (turn,)),
            question="q",
            step=number,
            validate=False,
            uid="a" if number == 4 else "z",
        )
    write(tmp_path, step)
    assert {p.name for p in tmp_path.iterdir()} == {
        "00000003.train.jsonl.gz",
        "00000004.train.w.jsonl",
        "00000004.rows.trainer.jsonl",
    }
    assert [len(record.get("rows", ())) for record in read_episodes(tmp_path)] == [0, 2]


def test_no_folder_no_log_and_what_a_disk_refuses_is_written_later(tmp_path, step, caplog):
    off = RowLog(EpisodeLogConfig(dir=None), TOKENIZER, NAMES)
    off.write(*step, 1)
    obstacle = tmp_path / "00000004.rows.trainer.jsonl"
    obstacle.mkdir()
    log = RowLog(EpisodeLogConfig(dir=str(tmp_path)), TOKENIZER, NAMES)
    for number in (4, 5):
        log.write(*step, number)
        log._thread.submit(int).result()
    assert ["wait in memory" in r.message for r in caplog.records] == [True]
    obstacle.rmdir()
    log.write(*step, 6)
    log.close()
    written = {r["step"] for r in read_files(log_files(tmp_path, ("rows",)))}
    assert written == {4, 5, 6}
    (tmp_path / "00000009.rows.trainer.jsonl").mkdir()
    log = RowLog(EpisodeLogConfig(dir=str(tmp_path)), TOKENIZER, NAMES)
    log.write(*step, 9)
    log.close()
    assert f"3 episodes lack their trained rows in {tmp_path}" in caplog.text


def test_lone_bytes_take_no_longer_than_prose():
    read = []

    def counted(own):
        read.append(len(own))
        return decode(own)

    assert "".join(token_texts(counted, [0xE2] * 1000)) == "\ufffd" * 1000
    assert sum(read) < 200 * 1000


@given(st.text(max_size=40))
def test_token_texts_join_to_the_text(text):
    ids = list(text.encode("utf-8", "replace"))
    texts = token_texts(decode, ids)
    assert len(texts) == len(ids)
    assert "".join(texts) == decode(ids)
    for at in range(len(ids) + 1):  # a character belongs to the token that ends it
        assert (
            "".join(texts[:at]) == decode(ids[:at]).rstrip("\N{REPLACEMENT CHARACTER}")
            or "\ufffd" in text
        )


def test_no_rows_are_written_where_the_log_is_full(tmp_path, step, caplog, monkeypatch):
    monkeypatch.setattr("rltf_verl.runlog.files.MOST_GB", 1e-9)
    (tmp_path / "00000001.train.w.jsonl").write_text("x" * 100)
    assert write(tmp_path, step) == {}
    assert "1e-09 GB" in caplog.text
