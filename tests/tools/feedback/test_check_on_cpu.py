"""`rltf feedback check`: planted faults are named, and good feedback is left alone."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.envs.base import LEVELS
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.feedback.guard.spans import numbers_in
from rltf_verl.findings import Finding
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.evaluate.check import checked_feedback
from rltf_verl.tools.feedback import attempts
from rltf_verl.tools.feedback.verdicts import FAULTS as VERDICTS
from rltf_verl.tools.feedback.verdicts import findings_of
from rltf_verl.types import Problem
from tests.support.commands import ran, refused, rltf, with_open_input
from tests.support.judge.server import InThread, JudgeServer
from tests.support.verl_rows import verl_row, write_rows
from tests.tools.feedback.functions import FAULTS, GOOD, TASKS

FUNCTIONS = Path(__file__).with_name("functions.py")


def written(folder: Path, task: str) -> Path:
    rows = [
        verl_row(question, answer, extra_info={"index": i})
        for i, (question, answer) in enumerate(TASKS[task])
    ]
    return write_rows(folder / f"{task}.parquet", rows)


def found(overrides: dict[str, Any], file: Path) -> list[Finding]:
    return findings_of(checked_feedback(overrides, file, 8, None, DryRun(60.0)))


def of_function(name: str, file: Path) -> list[Finding]:
    env = {"name": "reward_function", "function": f"{FUNCTIONS}:{name}"}
    return found({"env": env}, file)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, verdict = FAULTS[name]
    if verdict == "stalls":
        monkeypatch.setattr(attempts, "CALL_S", 1.0)
    lines = of_function(name, written(tmp_path, task))
    assert verdict in [line.key for line in lines], lines
    assert all("\n" not in str(line) and line.fix for line in lines)


@pytest.mark.parametrize("name", GOOD)
def test_good_feedback_has_no_fault(name: str, tmp_path: Path) -> None:
    assert of_function(name, written(tmp_path, GOOD[name])) == []


def test_each_verdict_has_a_planted_fault_and_a_line_in_the_docs() -> None:
    assert {verdict for _, verdict in FAULTS.values()} == {fault.name for fault in VERDICTS}
    page = Path("docs/feedback.md").read_text("utf-8")
    assert all(f"| {fault.name} |" in page for fault in VERDICTS)


OWN = [
    *(("binary_matrix", {"style": style}) for style in ("official", "compact")),
    ("shortest_path", {}),
    ("knights_knaves", {"style": "compact"}),
    ("recipes/pretrained/house_style.py:HouseStyle", {}),
]
PROVIDERS = [
    *(("verifier", {"level": level}) for level in LEVELS),
    ("correctness", {}),
    ("try_again", {}),
]


@pytest.mark.parametrize(("provider", "options"), PROVIDERS)
@pytest.mark.parametrize(("name", "settings"), OWN)
def test_nothing_is_wrong_with_our_own_providers(
    name: str, settings: dict[str, Any], provider: str, options: dict[str, Any], tmp_path: Path
) -> None:
    file = build_parquet(name, tmp_path, 0, 4, 1, **settings).train
    assert found({"feedback": {"provider": provider, **options}}, file) == []


HOSTILE = {
    "none": ("return None", "raises"),
    "bytes": ("return b'right'", "raises"),
    "text of another kind": ("return {'score': 0.0, 'feedback': b'no'}", "raises"),
    "no score": ("return {'feedback': 'Too small.'}", "raises"),
    "keyboard interrupt": ("raise KeyboardInterrupt", "raises"),
    "infinite": ("return {'score': float('-inf'), 'feedback': 'Too small.'}", "score not finite"),
    "megabytes": ("return {'score': 0.0, 'feedback': 'a ' * 10**6}", "longer than"),
    "half a surrogate pair": ("return {'score': 0.0, 'feedback': '\\ud800 '}", "same text"),
    "prints": ("print('x' * 10**5); return 0.0", "no text"),
    "empties its arguments": ("kwargs['extra_info'].clear(); return 0.0", "no text"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_function_is_one_line_each(case: str, tmp_path: Path) -> None:
    body, verdict = HOSTILE[case]
    (tmp_path / "hostile.py").write_text(f"def score(**kwargs):\n    {body}\n", "utf-8")
    function, file = f"{tmp_path}/hostile.py:score", written(tmp_path, "sums")
    result = rltf("feedback", "check", function, file, "-n", 3)
    assert result.exit_code == 1
    assert f"\n! {verdict}" in f"\n{result.stdout}"
    assert len(result.output.encode()) < 5000


def checked(function: str, folder: Path, first: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, whose input stays open."""
    words = ["rltf", "feedback", "check", function, written(folder, "sums").name, "-n", "3"]
    code = f"import sys\nfrom rltf_verl.tools.cli.app import main\nsys.argv = {words!r}\n{first}"
    return with_open_input([sys.executable, "-c", f"{code}\nmain()"], cwd=folder)


def test_a_call_that_lets_no_thread_run_ends_the_check(tmp_path: Path) -> None:
    """Of a regular expression that backtracks: the line is named, nothing hangs."""
    (tmp_path / "stuck.py").write_text(
        "import re\ndef score(**kwargs):\n    return float(bool(re.match('(a+)+b', 'a' * 60)))\n"
    )
    first = "from rltf_verl.envs import dry_run; dry_run.STUCK_S = 1.0"
    ended = checked("./stuck.py:score", tmp_path, first)
    assert ended.returncode == 1
    assert 'stuck.py", line 3 in score' in ended.stderr


@pytest.mark.parametrize("waits", ["time.sleep, 3600", "input"])
def test_a_function_with_an_executor_of_its_own_does_not_hold_up_the_end(
    waits: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "def score(**kwargs):\n    try:\n"
        f"        return ThreadPoolExecutor().submit({waits}).result(timeout=0.01)\n"
        "    except Exception:\n        return 0.0\n"
    )
    ended = checked("./own.py:score", tmp_path)
    assert ended.returncode == 1
    assert "! no text" in ended.stdout


def test_a_function_that_ends_the_process_does_not_pass(tmp_path: Path) -> None:
    ended = checked(f"{FUNCTIONS}:exits", tmp_path)
    assert ended.returncode == 1
    assert ended.stdout.splitlines()[-1].startswith("! raises")


def test_numbers_of_a_long_question_are_read_once() -> None:
    numbers_in.cache_clear()
    env = make_env("reward_function", function=f"{FUNCTIONS}:high_or_low")
    question, data = "x = 12, y = 13. " * 50_000, {"extra_info": {}, "data_source": "sums"}
    for k in range(8):
        told = data | {"ground_truth": "1700", "question": f"{question}! "}
        assert find_leaks(env, Problem("reward_function", k, told, "1700"), "It is 1700.")
    assert numbers_in.cache_info().misses == 1


def test_the_first_call_may_take_the_time_that_processes_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All later calls are at once here, and have many times what it took."""
    monkeypatch.setattr(attempts, "CALL_S", 0.0)
    monkeypatch.setattr(attempts, "SLOWER", 1000.0, raising=False)
    (tmp_path / "slow.py").write_text(
        f"import sys, time\nsys.path.append({str(FUNCTIONS.parent)!r})\n"
        "from functions import high_or_low\nstarts = [0.5]\ndef score(*args, **kwargs):\n"
        "    time.sleep(starts.pop() if starts else 0)\n    return high_or_low(*args, **kwargs)\n"
    )
    env = {"name": "reward_function", "function": f"{tmp_path}/slow.py:score"}
    assert found({"env": env}, written(tmp_path, "sums")) == []


def test_a_check_without_an_attempt_does_not_pass(tmp_path: Path) -> None:
    function, file = f"{FUNCTIONS}:high_or_low", written(tmp_path, "sums")
    env = {"name": "reward_function", "function": function}
    with pytest.raises(ValueError, match="within 0 s"):
        checked_feedback({"env": env}, file, 8, None, DryRun(0.0))


def test_the_command_in_a_process_of_its_own_loads_no_torch_and_no_ray(tmp_path: Path) -> None:
    """From a folder with a sign that marks a setting."""
    (tmp_path / "lr=1").mkdir()
    file = written(tmp_path / "lr=1", "sums")
    words = ["feedback", "check", f"{FUNCTIONS}:high_or_low", str(file)]
    code = (
        "import sys\nfrom rltf_verl.tools.cli.app import app\n"
        f"app({words!r}, standalone_mode=False)\n"
        "print({'torch', 'ray', 'verl', 'transformers'} & set(sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert "nothing is wrong" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "set()"


JUDGE = ["feedback.provider=judge", "feedback.endpoint.base_url=http://127.0.0.1:9/v1"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([*JUDGE, "feedback.endpoint.model=m"], "rltf probe"),
        (["limits.max_attempts=2"], "endpoint.base_url"),
        (["feedback.provider=correctnes"], "correctnes"),
        (["other.parquet"], "name one dataset"),
    ],
)
def test_what_a_user_can_fix_is_one_line(words: list[str], part: str, tmp_path: Path) -> None:
    function, file = f"{FUNCTIONS}:items", written(tmp_path, "lists")
    assert part in refused("feedback", "check", function, file, *words)


def test_a_model_is_asked_with_its_own_and_with_other_feedback(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> str:
        words = "\n".join(message["content"] for message in body["messages"])
        pens, euros = map(int, re.findall(r"(\d+) pens at (\d+)", words)[0])
        return str(pens * euros) if "Multiply again" in words else "1"

    function, file = f"{FUNCTIONS}:high_or_low", written(tmp_path, "sums")
    with InThread(JudgeServer(reply=answer)) as thread:
        endpoint = [f"endpoint.base_url={thread.server.url}", "endpoint.model=m"]
        words = [function, file, *endpoint, "--json", "--out", tmp_path / "out"]
        report = json.loads(ran("feedback", "check", *words).stdout)
        asked = len(thread.server.bodies)
        assert json.loads(ran("feedback", "check", *words).stdout) == report
    assert report.pop("checked") == []
    assert all(p["measured"]["shares"]["corrected"]["value"] == 1.0 for p in report.values())
    assert report["feedback on other problems"]["expected"]
    assert asked == len(thread.server.bodies)
