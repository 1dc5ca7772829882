"""`rltf log stats`."""

import json

from tests.support.commands import rltf
from tests.support.log_records import line, write


def test_stats_command(tmp_path):
    for step in range(1, 31):
        write(tmp_path, [line("1", "42"), line("1", "2")], step=step)
    write(tmp_path, [line("42", stop="solved")], step=30, validate=True)
    ranges = json.loads(rltf("log", "stats", tmp_path, "--json").stdout)
    assert [(s["split"], s["first_step"], s["last_step"]) for s in ranges] == [
        *(("train", first, first + 5) for first in range(1, 31, 6)),
        ("val", 30, 30),
    ]
    first, last = ranges[0], ranges[-1]
    assert (first["mean"]["turn_2/revisions/fixed"], first["num"]["turn_2/acc"]) == (0.5, 12)
    assert "feedback/words" not in last["mean"]
    shown = rltf("log", "stats", tmp_path, "--every", 30).stdout
    assert "…" not in rltf("log", "stats", tmp_path, columns=100).stdout
    for part in ("1–30", "0.5", "friction", "ended: horizon", "ended: solved"):
        assert part in shown
