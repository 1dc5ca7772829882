"""Logs that are damaged or forged: every reader skips the line, says which, and goes on."""

import copy
import gzip
import json
import random

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.runlog.valid import MOST_TURNS, episode_trouble
from rltf_verl.tools.report.compare.run import read_log
from tests.support.commands import rltf
from tests.support.log_records import LEAKY, line, records, row, turn, write

VALUES = [
    None,
    True,
    False,
    -1,
    0,
    1,
    7,
    10**30,
    -(10**30),
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud83d",
    "\x1b[31m",
    "train",
    "val",
    [],
    [1],
    [[]],
    [{}],
    {},
    {"text": 1},
    "9" * 5000,
]
READERS = [
    ["log", "stats"],
    ["log", "stats", "--json"],
    ["inspect", "-n", "999"],
    ["view", "-o", "{out}"],
    ["log", "export", "--as", "answers", "--out", "{out}", "--overwrite"],
    ["log", "export", "--as", "dialogues", "--out", "{out}", "--overwrite"],
    ["log", "export", "--as", "preferences", "--out", "{out}", "--overwrite"],
]
EPISODES = [
    line("41", "42"),
    line("41", "40", "41", feedback=LEAKY),
    (turn("1"), turn("2"), turn("42", stop="correct")),
]


TRAINED = {
    "step": 1,
    "uid": "u1-0",
    "session_id": 0,
    "rows": [row("distill", 1, 0.5, "a", "b")],
}
"""What an episode was trained on."""


def places(value, path=()):
    """Every place in a record."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def mutated(record, rng):
    """A copy with one odd field."""
    record = copy.deepcopy(record)
    path = rng.choice(list(places(record)))
    at = record
    for key in path[:-1]:
        at = at[key]
    if rng.random() < 0.2:
        del at[path[-1]]
    else:
        at[path[-1]] = rng.choice(VALUES)
    return record


def test_an_odd_field_stops_no_reader(tmp_path):
    """300 records, each with one odd field, through all that reads a log; what is skipped is
    counted aloud.
    """
    sound, rng, folder = records(tmp_path / "sound", EPISODES), random.Random(0), tmp_path / "log"
    folder.mkdir()
    broken = [mutated(rng.choice(sound), rng) for _ in range(300)]
    num_bad = sum(episode_trouble(json.loads(json.dumps(one))) is not None for one in broken)
    rows = [mutated(TRAINED, rng) for _ in range(100)]
    for kind, lines in {"train.w": [sound[0], *broken], "rows.trainer": rows}.items():
        file = folder / f"00000001.{kind}.jsonl"
        file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert 100 < num_bad < 300
    assert 1 < len(read_episodes(folder)) <= 301 - num_bad
    assert read_log(folder)[1]["log/train/sessions"] > 0  # what `rltf compare` reads
    for reader in READERS:
        outcome = rltf(*(word.format(out=tmp_path / "out") for word in reader), folder)
        assert outcome.exit_code in (0, 1), (reader, outcome.output)
        assert "Traceback" not in outcome.output


def test_a_packed_file_that_is_cut_off_gives_what_it_has(tmp_path, caplog):
    rng = random.Random(0)
    folder = write(tmp_path, [line(str(rng.random()), str(rng.random())) for _ in range(200)])
    path = next(folder.glob("*.train.*"))
    whole = gzip.compress(path.read_bytes())
    path.unlink()
    (folder / "00000001.train.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    assert 10 < len(read_episodes(folder)) < 200
    assert "00000001.train.jsonl.gz: damaged after line" in caplog.text


def test_an_episode_without_an_end_is_refused(tmp_path):
    (record,) = records(tmp_path, [line("1")])
    for num in (0, MOST_TURNS + 1):
        trouble = episode_trouble({**record, "turns": record["turns"] * num})
        assert trouble.startswith(f"turns has {num} entries")
