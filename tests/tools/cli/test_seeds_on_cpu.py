"""`rltf seeds` with a small program in the trainer's place: what is run, skipped, resumed, and
compared in the end.
"""

import json
import shlex
import sys
from pathlib import Path

import pytest
from hydra._internal.utils import get_args_parser

from rltf_verl.tools.cli.seeds import runs_of
from tests.support.commands import ran, rltf

TRAINER = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.support.run_files import run
words = dict(word.split("=", 1) for word in sys.argv[1:])
folder = Path(words["trainer.default_local_dir"])
folder.mkdir(parents=True, exist_ok=True)
times = folder / "started"
started = int(times.read_text()) + 1 if times.exists() else 1
times.write_text(str(started))
print("argv", sys.argv[1:])
if words["trainer.experiment_name"] in {fails!r} and started == 1:
    sys.exit(7)
gain = 0.5 if words.get("method") == "sd" else 0.1
run(Path(os.environ["VERL_FILE_LOGGER_PATH"]), [0.1, 0.1 + gain + 0.01 * int(words["rltf.seed"])])
"""


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    """They are tested in `tests/tools/report/compare`."""
    monkeypatch.setattr("rltf_verl.tools.report.compare.draw.draw", lambda panel, path: None)


@pytest.fixture
def trainer(tmp_path):
    """Path of a program that fails in the first start of the runs of these names -> `--program` of
    the command.
    """

    def make(*fails):
        path = tmp_path / "trainer.py"
        path.write_text(TRAINER.format(root=str(Path(__file__).parents[3]), fails=fails))
        return shlex.join([sys.executable, str(path)])

    return make


ARMS = ("--arm", "grpo=method=grpo", "--arm", "sd='method=sd'")


def times(out):
    return {
        path.parts[-3]: int(path.read_text()) for path in sorted(out.glob("*/checkpoints/started"))
    }


def test_every_arm_and_seed_is_a_run_of_its_own_and_all_are_compared(tmp_path, trainer):
    out = tmp_path / "out"
    result = ran(
        "seeds",
        "--seeds",
        "0,2",
        "--out",
        out,
        *ARMS,
        "--x",
        "step",
        "--program",
        trainer(),
        "--",
        "a=b",
        "c=d e",
    )
    assert times(out) == dict.fromkeys(["grpo_seed0", "grpo_seed2", "sd_seed0", "sd_seed2"], 1)
    output = (out / "sd_seed2" / "output.txt").read_text()
    folder = out / "sd_seed2"
    assert output.strip() == "argv " + repr(
        [
            "method=sd",
            "a=b",
            "c=d e",
            "rltf.seed=2",
            "data.seed=2",
            "trainer.experiment_name=sd_seed2",
            f"trainer.default_local_dir={folder / 'checkpoints'}",
            f"hydra.run.dir={folder / 'hydra'}",
        ]
    )
    written = json.loads((out / "compare" / "compare.json").read_text())
    assert [arm["arm"] for arm in written["panels"][0]["arms"]] == [
        "grpo",
        "sd",
    ], "the first is the baseline"
    assert [len(arm["seeds"]) for arm in written["panels"][0]["arms"]] == [2, 2]
    assert "+0.400 *" in result.stdout


def test_a_failure_ends_it_with_its_status_and_the_next_call_goes_on_there(tmp_path, trainer):
    words = (
        "--seeds",
        "0,1,2",
        "--out",
        tmp_path / "out",
        "--x",
        "step",
        "--program",
        trainer("run_seed1"),
        "--",
        "a=b",
    )
    result = rltf("seeds", *words)
    assert result.exit_code == 7
    assert "run_seed1: failed with exit status 7; see " in result.stderr
    assert times(tmp_path / "out") == {"run_seed0": 1, "run_seed1": 1}
    assert not (tmp_path / "out" / "compare").exists()
    again = rltf("seeds", *words)
    assert (again.exit_code, "run_seed0: finished earlier" in again.stdout) == (0, True)
    assert times(tmp_path / "out") == {"run_seed0": 1, "run_seed1": 2, "run_seed2": 1}
    assert (tmp_path / "out" / "compare" / "compare.json").exists()


@pytest.mark.parametrize(
    ("fails", "seeds", "compared"),
    [(("grpo_seed0", "sd_seed1"), "0,1", ["grpo", "sd"]), (("grpo_seed0",), "0", None)],
)
def test_the_first_arm_is_the_baseline_or_nothing_is_compared(
    tmp_path, trainer, fails, seeds, compared
):
    out = tmp_path / "out"
    words = ("--out", out, "--keep-going", "--x", "step", "--program", trainer(*fails), "--", "a=b")
    result = rltf("seeds", "--seeds", seeds, *ARMS, *words)
    assert result.exit_code == 7
    if compared is None:
        assert "--arm grpo: the baseline has no finished run" in result.stderr
        assert not (out / "compare").exists()
    else:
        written = json.loads((out / "compare" / "compare.json").read_text())
        assert [arm["arm"] for arm in written["panels"][0]["arms"]] == compared


def test_no_run_starts_when_the_hours_are_over(tmp_path, trainer):
    out = tmp_path / "out"
    rest = ("--out", out, "--x", "step", "--program", trainer(), "--", "a=b")
    result = rltf("seeds", "--seeds", "0", "--hours", "1", *rest)
    assert (result.exit_code, times(out)) == (0, {"run_seed0": 1})
    (out / "compare" / "compare.json").unlink()
    result = rltf("seeds", "--seeds", "0,1", "--hours", "0", *rest)
    assert (result.exit_code, times(out)) == (0, {"run_seed0": 1})
    assert "run_seed1: not started, --hours 0 are over" in result.stdout
    assert (out / "compare" / "compare.json").exists(), "of what is there"


def test_a_folder_of_another_command_is_never_resumed(tmp_path, trainer):
    words = ["--seeds", "0", "--out", tmp_path / "out", "--x", "step", "--program", trainer(), "--"]
    assert rltf("seeds", *words, "lr=1").exit_code == 0
    result = rltf("seeds", *words, "lr=2")
    assert result.exit_code == 1
    assert "run_seed0 holds a run of another command" in result.stderr
    assert times(tmp_path / "out") == {"run_seed0": 1}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "0,0"], "--seeds 0,0: write different whole numbers"),
        (["--seeds", "a"], "--seeds a: "),
        (["--seeds", "-1"], "--seeds -1: "),
        (["--arm", "sd"], "--arm sd: write NAME='--config-name=… key=value …'"),
        (["--arm", "a/b=c"], "--arm a/b=c: "),
        (["--arm", "a=c", "--arm", "a=d"], "--arm a=d: "),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, words, message):
    result = rltf("seeds", "--out", tmp_path, *words, "--", "x=1")
    assert result.exit_code == 1
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("own", "shared"),
    [
        ("rltf/method=sd a=1", ["--config-dir", "folder", "--config-name=pretrained", "b=2"]),
        ("--config-name pretrained a=1", ["-cd", "folder", "b=2"]),
    ],
)
def test_hydra_reads_options_between_overrides(tmp_path, own, shared):
    (run,) = runs_of([f"sd={own}"], [3], tmp_path, shared)
    words = get_args_parser().parse_args(run.command[3:])
    assert (words.config_dir, words.config_name) == ("folder", "pretrained")
    assert [word for word in words.overrides if word in ("a=1", "b=2")] == ["a=1", "b=2"]
