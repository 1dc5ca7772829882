"""What `rltf compare` finds of a run: files of processes, wandb histories, episode logs."""

import json

import pytest

from rltf_verl.runlog.metrics_file import processes_of, set_aside
from rltf_verl.tools.report.compare.comparison import compare
from rltf_verl.tools.report.compare.run import arms_of, read_arms
from rltf_verl.tools.report.history import read_history
from tests.support.log_records import line, write
from tests.support.run_files import ACC, evaluated, run, step, write_metrics


def only_run(*arguments):
    """The only run."""
    (arm,) = read_arms([str(a) for a in arguments])
    (read,) = arm.runs
    return read


def accuracies(*arguments):
    return only_run(*arguments).series(ACC).to_dict()


def test_the_folder_of_a_run(tmp_path):
    run(tmp_path / "sd" / "metrics.jsonl", [0.1, 0.2])
    write(tmp_path / "sd" / "checkpoints" / "episodes", [line("42")])
    write(tmp_path / "sd" / "checkpoints" / "episodes" / "superseded", [line("1")])
    (tmp_path / "sd" / "checkpoints" / "global_step_1").mkdir()
    run(tmp_path / "sd" / "checkpoints" / "global_step_1" / "old.jsonl", [0.9, 0.9])
    (tmp_path / "sd" / "notes.jsonl").write_text('{"step": 3, "input": "x"}\n')
    read = only_run(tmp_path / "sd")
    assert read.series(ACC).to_dict() == {0: 0.1, 1: 0.2}
    assert read.series("log/train/sessions").to_dict() == {1: 1}


def test_verls_own_places(tmp_path, monkeypatch):
    run(tmp_path / "sums" / "sd.jsonl", [0.1, 0.2])
    run(tmp_path / "sums" / "grpo.jsonl", [0.7, 0.8])
    write(tmp_path / "checkpoints" / "sums" / "sd" / "episodes", [line("42")])
    monkeypatch.chdir(tmp_path)
    read = only_run("checkpoints/sums/sd")
    assert read.series(ACC).to_dict() == {0: 0.1, 1: 0.2}
    assert len(read.series("log/train/sessions")) == 1


def test_an_episode_log_alone(tmp_path):
    for number, answer in ((0, "1"), (4, "42")):
        write(tmp_path / "episodes", [line(answer)], step=number, validate=True)
    (panel,) = compare(read_arms([str(tmp_path / "episodes")]), ["step"], ["first_turn"]).panels
    assert panel.points[["step", "y"]].to_numpy().tolist() == [[0, 0.0], [4, 1.0]]


def wandb_rows():
    return [
        {"_step": 0, ACC: 0.1, "timing_s/step": None},
        {"_step": 1, ACC: None, "timing_s/step": 1800.0},
        {"_step": 2, ACC: 0.3, "timing_s/step": 1800.0},
    ]


def test_a_wandb_history(tmp_path):
    path = tmp_path / "sd.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in wandb_rows()))
    read = only_run(path)
    assert read.series(ACC).to_dict() == {0: 0.1, 2: 0.3}
    assert read.series("timing_s/step").to_dict() == {1: 1800.0, 2: 1800.0}
    (panel,) = compare(read_arms([str(tmp_path)]), ["hours"], ["first_turn"]).panels
    assert panel.points["x"].tolist() == [0.0, 1.0]


ONE = [(0, evaluated(0.1)), (1, step() | evaluated(0.2)), (2, step() | evaluated(0.3))]
PROCESSES = {
    "a start from scratch": ([(0, evaluated(0.5)), (1, step() | evaluated(0.6))], {0: 0.5, 1: 0.6}),
    "resumed after step 1, without a validation": (
        [(2, step()), (3, step() | evaluated(0.4))],
        {0: 0.1, 1: 0.2, 3: 0.4},
    ),
    "only validated": ([(1, evaluated(0.9))], {0: 0.1, 1: 0.2, 2: 0.3}),
}


@pytest.mark.parametrize("case", PROCESSES)
def test_what_a_later_process_takes_back(tmp_path, case):
    records, expected = PROCESSES[case]
    first = write_metrics(tmp_path / "m.process_1.jsonl", ONE)
    later = write_metrics(tmp_path / "m.jsonl", records)
    for place in (tmp_path, later, f"a={first},{later}"):
        assert accuracies(place) == expected


def test_processes_in_one_file(tmp_path):
    path = run(tmp_path / "a.jsonl", [0.1, 0.2, 0.3])
    later = write_metrics(
        tmp_path / "later.jsonl", [(1, evaluated(0.5)), (2, step() | evaluated(0.6))]
    )
    path.write_text(path.read_text() + later.read_text() + '{"step": 3, "da')  # and a killed writer
    assert {s: m[ACC] for s, m in read_history([path]).items()} == {0: 0.1, 1: 0.5, 2: 0.6}


def test_what_is_no_number_is_no_point(tmp_path):
    write_metrics(
        tmp_path / "a.jsonl",
        [(0, {ACC: None}), (1, {ACC: 0.2, "flag": True, "note": "x"}), (2, {ACC: 0.3})],
    )
    read = only_run(tmp_path / "a.jsonl")
    assert read.series(ACC).to_dict() == {1: 0.2, 2: 0.3}
    assert list(read.steps) == [ACC]


def test_files_that_are_set_aside_are_numbered_and_read_in_order(tmp_path):
    path = tmp_path / "sd.jsonl"
    assert set_aside(path) is None
    path.touch()
    assert set_aside(path) is None
    for k in range(1, 12):
        path.write_text(str(k))
        set_aside(path)
    path.write_text("12")
    (tmp_path / "sd_b.jsonl").write_text("another run")
    assert [p.read_text() for p in processes_of(path)] == [str(k) for k in range(1, 13)]


def names(tmp_path, *arguments):
    return {arm: len(places) for arm, places in arms_of([str(a) for a in arguments]).items()}


def test_names_of_arms(tmp_path):
    for name in ("sd_1", "sd_2", "grpo_seed0", "grpo_seed1", "lr=3/episodes", "x/run", "y/run"):
        (tmp_path / name).mkdir(parents=True)
    t = tmp_path
    assert names(t, f"sd={t}/sd_1", f"sd={t}/sd_2") == {"sd": 2}
    assert names(t, f"sd={t}/sd_*", t / "grpo_seed0", t / "grpo_seed1") == {"sd": 2, "grpo": 2}
    assert names(t, t / "sd_1", t / "sd_2") == {
        "sd_1": 1,
        "sd_2": 1,
    }  # two learning rates, for all we know
    assert names(t, t / "lr=3" / "episodes") == {"lr=3": 1}
    assert names(t, t / "x/run", t / "y/run") == {"x": 1, "y": 1}
