"""`rltf adopt run.sh`: bash finds the words of a training, and nothing of the script starts."""

import os
from pathlib import Path

import pytest

from rltf_verl.config import ConfigError
from rltf_verl.tools.adopt import script
from rltf_verl.tools.adopt.command import Launch
from rltf_verl.tools.adopt.script import read_launch

MAIN = "verl.trainer.main_ppo"
RUN = f"python3 -m {MAIN} a.b=1 'c.d=x y'"
QUOTED = f'python3 -m {MAIN} a.b=1 \\"c.d=x y\\"'
WORDS = ["a.b=1", "c.d=x y"]

PROGRAMS = """
accelerate conda curl deepspeed docker env hf nohup pip poetry python python3 python3.11 ray rm
sbatch setsid sh srun ssh sudo tee timeout torchrun uv wget xargs
"""

FORMS = {
    "python -m": f"python -m {MAIN} a.b=1 'c.d=x y'",
    "python3 -u -m": f"python3 -u -m {MAIN} a.b=1 'c.d=x y'",
    "joined flags": f"python3 -um {MAIN} a.b=1 'c.d=x y'",
    "a variable": f"PYTHON=python3\n$PYTHON -m {MAIN} a.b=1 'c.d=x y'",
    "an empty variable": f"$SUDO {RUN}",
    "a version": f"python3.11 -m {MAIN} a.b=1 'c.d=x y'",
    "a path": f"BIN/python3 -m {MAIN} a.b=1 'c.d=x y'",
    "a changed PATH": f"export PATH=/nothing:$PATH\n{RUN}",
    "torchrun": f"torchrun --nproc_per_node=1 -m {MAIN} a.b=1 'c.d=x y'",
    "ray job submit": f"ray job submit --runtime-env-json='{{\"a\": 1}}' -- {RUN}",
    "uv run": f"uv run {RUN}",
    "conda run": f"conda run -n verl {RUN}",
    "poetry run": f"poetry run {RUN}",
    "srun": f"srun --nodes=1 {RUN}",
    "accelerate": f"accelerate launch --module {MAIN} a.b=1 'c.d=x y'",
    "deepspeed": f"deepspeed --module {MAIN} a.b=1 'c.d=x y'",
    "nohup in the background": f"nohup {RUN} > out_$(date +%s).log 2>&1 &\nwait $!",
    "setsid": f"setsid nohup {RUN} >/dev/null 2>&1 </dev/null &",
    "exec": f"exec {RUN}\npython3 never",
    "env": f"env X=1 {RUN}",
    "env -i": f"env -i BIN/{RUN}",
    "timeout": f"timeout 3d {RUN}",
    "time": f"time {RUN}",
    "command": f"command {RUN}",
    "bash -c": f'bash -c "{RUN}"',
    "docker": f'docker run --rm -e K=1 image bash -c "{QUOTED}"',
    "ssh": f'ssh host "cd / && {QUOTED}"',
    "sbatch --wrap": f'sbatch --wrap="{QUOTED}" || sbatch --wrap "{QUOTED}"',
    "sbatch of a text": f"sbatch <<EOF\n#!/bin/bash\nsrun {RUN}\nEOF",
    "a job file": f"cat > job.slurm <<'EOF'\nsrun {RUN}\nEOF\nsbatch job.slurm",
    "a text for bash": f'bash <<< "{QUOTED}"',
    "variables before it": f"PYTHONUNBUFFERED=1 X=$(date +%s) {RUN}",
    "a function": f'main() {{\n  local c="x y"\n  python3 -m {MAIN} a.b=1 "c.d=$c"\n}}\nmain "$@"',
    "a function with a log": f"main() {{ {RUN}; }}\nmain > out.log 2>&1",
    "a function that runs words": f'run() {{ echo "+ $*"; "$@"; }}\nrun {RUN}',
    "a function in a function": f'train() {{ {RUN}; }}\nrun() {{ "$@"; }}\nrun train 1',
    "a loop": f"for i in 1; do\n  python3 -m {MAIN} a.b=$i 'c.d=x y'\ndone",
    "a loop that reads": "while read -r i; do\n"
    f"python3 -m {MAIN} a.b=$i 'c.d=x y'\ndone < <(echo 1)",
    "a condition": f"if ! {RUN}; then exit 1; fi",
    "case": f"case x in x) {RUN} ;; esac",
    "arrays": f'C=(python3 -m {MAIN})\nA=(a.b=1 "c.d=x y")\n"${{C[@]}}" "${{A[@]}}" "$@"',
    "eval": f'CMD="{QUOTED}"\neval $CMD',
    "eval with a log": f'CMD="{QUOTED}"\neval "$CMD" > out.log',
    "a pipe": f"{RUN} 2>&1 | tee out.log",
    "a group in a pipe": f"{{ {RUN}; }} 2>&1 | tee out.log",
    "a subshell": f"(cd / && exec {RUN}) &",
    "a coprocess": f"coproc {RUN}\nwait",
    "a substitution": f"X=$({RUN})",
    "a substitution in words": f"echo $({RUN})",
    "a process substitution": f"cat <({RUN})",
    "a trap": f'trap "{QUOTED}" EXIT',
    "an alias": f"shopt -s expand_aliases\nalias train='python3 -m {MAIN}'\ntrain a.b=1 'c.d=x y'",
    "source": "source ./other.sh",
    "a script": "./other.sh",
    "a script of sh": "sh other.sh > out.log",
    "a script of a launcher": "env X=1 srun -N1 ./other.sh",
    "strict": f"set -xeuo pipefail\nshopt -s nullglob extglob\n{RUN}",
    "posix": f"set -o posix\n{RUN}",
    "a log of all": f"exec > out.log 2>&1\n{RUN}",
    "a pipe of all": f"exec > >(tee out.log) 2>&1\n{RUN}",
    "an inner path": f"python3 -m {MAIN}"
    ' a.b=$(cd "$(dirname "${BASH_SOURCE[0]}")" && echo 1) c.d=x\\ y',
    "other separators": f"IFS=,\nset -f\nc='x y'\npython3 -m {MAIN} a.b=1 c.d=$c",
    "a server before it": f"set -u\npython3 server.py &\nSERVER=$!\n{RUN}\nkill $SERVER",
    "the trap's end": "trap - DEBUG; t=trap; $t - DEBUG; set +T; shopt -u extdebug\n"
    f"f() {{ {RUN}; }}\nf",
    "preparations": "pip install x; rm -rf out; curl -o a b; hf download m\n"
    "python3 data.py || exit 1\n"
    f"[ $? -eq 0 ] || exit 2\n[[ a5 =~ a(.) ]]; ls > /dev/null\n[ ${{BASH_REMATCH[1]}} = 5 ]"
    f" || exit 3\necho x > made.txt\n{RUN}",
}
"""Scripts that start one training; BIN is the folder of `PROGRAMS`."""


@pytest.fixture
def environ(tmp_path, monkeypatch):
    """Variables with stand-ins for programs: each writes `started` into the working directory's
    parent.
    """
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS.split():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\necho $0 $* >> {tmp_path}/started\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": "/home/u"}


def read(text: str, environ: dict[str, str], *words: str) -> Launch:
    Path("run.sh").write_text(f"{text}\n", "utf-8")
    return read_launch(["run.sh", *words], environ)


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_the_words_are_found_and_nothing_starts(text, environ, tmp_path):
    Path("other.sh").write_text(f"#!/bin/sh\n{RUN}\n", "utf-8")
    Path("other.sh").chmod(0o755)
    launch = read(text.replace("BIN", f"{tmp_path}/bin"), environ)
    assert launch.overrides == WORDS
    assert launch.start[-1].endswith(MAIN)
    assert not (tmp_path / "started").exists()
    assert sorted(path.name for path in Path().iterdir()) == ["other.sh", "run.sh"]


def test_a_log_of_a_group_is_not_emptied(environ):
    Path("out.log").write_text("of the last run")
    with pytest.raises(ConfigError, match="cannot overwrite existing file"):
        read(f"{{ {RUN}; }} > out.log", environ)
    assert Path("out.log").read_text() == "of the last run"


def test_values_come_from_programs_that_read():
    text = (
        'D=$(cd "$(dirname "$0")" && basename -- "${BASH_SOURCE[0]}" .sh)\n'
        "N=$(python3 -c 'import sys; print(sys.version_info[0])' 2>/dev/null)\n"
        "P=$(python3 - <<'EOF'\nprint(7)\nEOF\n)\n"
        "G=$(ls /no/device 2>/dev/null && echo npu || echo gpu)\n"
        "if [ \"$G\" = gpu ]; then E=$(echo a b | tr ' ' '-' | sed 's/b/c/'); fi\n"
        f"python3 -m {MAIN} d.d=$D n.n=$N p.p=$P g.g=$G e.e=$E t.t=$(date +%Y)"
        " k.k=$(($(nproc) > 0))"
    )
    words = dict(word.split("=") for word in read(text, dict(os.environ)).overrides)
    assert words.pop("t.t").isdigit()
    assert words == {"d.d": "run", "n.n": "3", "p.p": "7", "g.g": "gpu", "e.e": "a-c", "k.k": "1"}


@pytest.mark.parametrize(
    "text",
    ["sed -i s/a/b/ run.sh", "find . -delete", "sort -o run.sh run.sh", "awk '{print > \"a\"}'"],
)
def test_programs_that_read_do_not_write(text, environ):
    before = Path("run.sh")
    assert read(f"{text}\n{RUN}", environ).overrides == WORDS
    assert before.read_text() == f"{text}\n{RUN}\n"
    assert [path.name for path in Path().iterdir()] == ["run.sh"]


def test_where_it_starts_and_with_what(environ, tmp_path):
    text = "cd ..\nexport A='x y'\nunset ROCR\nA=z srun --x='1 2' env B=2"
    words = ("a.b=1", "a.b=1", "rltf/hardware=cpu", "7b")
    launch = read(f"{text} python3 -u -m {MAIN} $1", environ | {"ROCR": "0", "B": "1"}, *words)
    assert launch.where == str(tmp_path)
    assert launch.exports == {"A": "z", "B": "2"}
    assert launch.unset == ["ROCR"]
    assert launch.start == ["srun", "--x=1 2", "env", "B=2", "python3", "-u", "-m", MAIN]
    # what the script does not pass on is added; `7b` is for the script alone
    assert launch.overrides == ["a.b=1", "rltf/hardware=cpu"]


def test_a_command_needs_no_script(environ):
    launch = read_launch(["ray", "job", "submit", "--", "python3", "-m", MAIN, *WORDS], environ)
    assert (launch.overrides, launch.exports, launch.unset) == (WORDS, {}, [])


def test_what_was_left_out_is_told(environ):
    text = f"pip install x\nX=$(srun hostname)\nfor a in 1 2; do python3 -m {MAIN} a.b=$a; done"
    launch = read(text, environ)
    assert launch.overrides == ["a.b=1"]
    assert launch.notes[1].endswith(": pip install, $(srun hostname)")
    assert " 2 trainings" in launch.notes[0]


REFUSED = {
    "ls": r"^run.sh: .* run.sh \(status 0\)$",
    "set -u\n$MODEL": r"MODEL: unbound variable \(status 127\)$",
    f"echo a.b=1 | xargs python3 -m {MAIN}": "^xargs: ",
    "python3 -m recipe.spin.main_spin": "^recipe.spin.main_spin: cannot be adopted",
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_a_script_without_a_training_that_is_known(text, reason, environ, tmp_path):
    with pytest.raises(ConfigError, match=reason) as raised:
        read(text, environ)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "started").exists()


def test_scripts_that_start_each_other_end(environ, tmp_path):
    (tmp_path / "other.sh").write_text("bash run.sh\n")
    with pytest.raises(ConfigError, match=r"status 0"):
        read("bash other.sh", environ)


def test_a_script_that_waits_for_ever_is_stopped(environ, monkeypatch):
    monkeypatch.setattr(script, "LONGEST_READ", 0.2)
    with pytest.raises(ConfigError, match="stopped"):
        read("until ray status | grep -q ready; do sleep 5; done", environ)
