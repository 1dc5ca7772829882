"""Scripts are read as bash reads them. The cases were checked against bash itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rltf_verl.adapters.adopt.script import read_script
from rltf_verl.adapters.adopt.tokens import ShellError

ENVIRON = {"HOME": "/home/u", "GIVEN": "yes", "TWO": "a b"}
CASES = {
    "quotes": 'main_ppo a=\'b c\' "d $GIVEN" e\\ f "it\'s" \'x"y\' "" g"h"\'i\'',
    "continued lines and comments": "main_ppo a=1 \\\n  b=2 # c=3\n# main_ppo d=4",
    "defaults": 'A=${GIVEN:-no} B=${NONE:-"x y"} C=${D:=set}\nmain_ppo $A "$B" $C $D ${NONE:+z}',
    "splitting": 'main_ppo $TWO "$TWO" x$TWO',
    "arrays": 'A=(1 "2 3")\nA+=(4) B=()\nmain_ppo "${A[@]}" "${B[@]}" ${A[0]} ${#A[@]} "${A[*]}"',
    "arithmetic": "A=3\nmain_ppo $((A * (2 + 1))) $((7 / 2)) $(( A > 2 )) $((${A} % 2))",
    "stripping": "A=Qwen/Q-8B.tar\nmain_ppo ${A##*/} ${A%.*} ${A%%/*} ${A#*/} ${A,,} ${A/Qwen/q}",
    "arguments": 'main_ppo "$@" $1 $# "${@:2}"',
    "if": 'if [ "$GIVEN" = no ]; then X=1; elif [[ -n "$GIVEN" && 2 -gt 1 ]]; then X=2; fi\n'
    "main_ppo $X",
    "case": 'case "$GIVEN" in n*) X=1 ;; y* | z) X=2 ;; *) X=3 ;; esac\nmain_ppo $X',
    "and, or, not": '[ -z "$NONE" ] && X=1 || X=2\n! [ 1 = 1 ] || Y=3\nmain_ppo $X $Y',
    "groups and pipes": '{ [ "$GIVEN" = yes ] || false; } && X=1\nmain_ppo $X 2>&1 | cat',
    "exports": "export A=1 B='2 3'\nmain_ppo $A \"$B\"",
    "functions, loops and documents": "f() {\n  X=9\n}\nwhile [ $# -gt 5 ]; do X=8; shift; done\n"
    "cat <<EOF >/dev/null\nmain_ppo 'no\nEOF\nmain_ppo x$X",
    "shift": "shift\nmain_ppo $1",
    "files called like it": "cd /tmp && ls >/dev/null main_ppo.log 2>&1\n"
    "main_ppo $1 2>&1 | tee /dev/null main_ppo.log",
    "an empty array in arithmetic": "A=()\nmain_ppo $((A + 1))",
    "tilde": "main_ppo ~/x a=~ '~/y'",
    "(( ))": "if (( 2 * 3 > 5 )); then X=1; fi\nmain_ppo $X",
}


def read(folder: Path, text: str, *arguments: str):
    (folder / "run.sh").write_text(text, "utf-8")
    return read_script(folder / "run.sh", ENVIRON, arguments)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_the_words_are_those_of_bash(text, tmp_path):
    arguments = ["first", "second x"]
    reading = read(tmp_path, text, *arguments)
    program = tmp_path / "main_ppo"
    program.write_text("#!/bin/bash\nprintf '%s\\0' \"$@\"\n")
    program.chmod(0o755)
    done = subprocess.run(
        [str(shutil.which("bash")), str(tmp_path / "run.sh"), *arguments],
        env={**ENVIRON, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert [command.words[1:] for command in reading.launches] == [
        done.stdout.decode().split("\0")[:-1]
    ]


def test_what_only_running_would_tell_is_marked(tmp_path):
    text = (
        'X=$(nproc)\nif which uv; then Y=1; fi\nfor i in 1 2; do Z=$i; done\nmain_ppo a=$X "$Y" $Z'
    )
    reading = read(tmp_path, text)
    a, y, z = reading.launches[0].words[1:]
    causes = [reading.variables.causes(word)[0] for word in (a, y, z)]
    assert [(cause.line, cause.decides, cause.variable) for cause in causes] == [
        (1, False, "X"),
        (2, True, "Y"),
        (3, True, "Z"),
    ]


def test_nothing_is_run(tmp_path):
    hostile = f"touch {tmp_path}/a; X=$(touch {tmp_path}/b) Y=`touch {tmp_path}/c`\nmain_ppo $X"
    read(tmp_path, hostile)
    assert [path.name for path in tmp_path.iterdir()] == ["run.sh"]


def test_exports_and_folders_go_with_a_command(tmp_path):
    (command,) = read(tmp_path, "export A=1\ncd sub\nB=2 main_ppo").launches
    assert (command.exports, command.folder) == ({"A": "1", "B": "2"}, "sub")


@pytest.mark.parametrize(
    "text",
    ["main_ppo 'a", 'main_ppo "a', "main_ppo $(a", "X=(1", "if true", "fi", "case x in", "[[ a"],
)
def test_what_bash_cannot_read_is_said_with_its_line(text, tmp_path):
    with pytest.raises(ShellError):
        read(tmp_path, text)
