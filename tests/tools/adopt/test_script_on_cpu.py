"""Scripts of the common form are read as bash reads them; all others are refused."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltf_verl.config import ConfigError
from rltf_verl.tools.adopt.script import Script, read_script
from tests.tools.adopt.bash import Started, started

MAIN = "python3 -m verl.trainer.main_ppo"
ENVIRON = {"HOME": "/home/u", "E": "two words", "F": "", "MODEL": "Qwen/Qwen3-8B", "G": "$A*"}


def read(folder: Path, text: str) -> Script:
    (folder / "run.sh").write_text(text, "utf-8", newline="")
    return read_script(folder / "run.sh", ENVIRON)


def started_by(folder: Path, text: str, **environ: str) -> Started | None:
    (folder / "run.sh").write_text(text, "utf-8", newline="")
    return started(folder / "run.sh", ENVIRON | environ)


PLAIN = st.sampled_from([*"ab1=.:,/@%+^-", "a=1", "é", "-m", "[x,y]"])
VARIABLE = st.sampled_from(["$A", "$B", "${A}", "${E}", "$F", "$G", "$MODEL", "$HOME"])
DEFAULTED = st.builds(
    "${{{}{}{}}}".format,
    st.sampled_from(["A", "B", "E", "F", "MODEL", "UNSET"]),
    st.sampled_from([":-", "-"]),
    st.sampled_from(["x", "", "$HOME/x", "${A}-y", "a b", "1,2"]),
)
SINGLE = st.sampled_from(["''", "'a b'", """'[1,"2"]'""", "'$A'", "'\\\\'", "'a\nb'"])
DOUBLE = st.lists(
    st.one_of(
        PLAIN, VARIABLE, DEFAULTED, st.sampled_from([" ", "\\$A", "\\a", "'", "#", "~", "{"])
    ),
    max_size=3,
).map(lambda pieces: f'"{"".join(pieces)}"')
WORD = st.lists(
    st.one_of(PLAIN, PLAIN, VARIABLE, DEFAULTED, SINGLE, DOUBLE), min_size=1, max_size=4
)
ASSIGNMENT = st.builds("{}={}".format, st.sampled_from(["A", "B", "E", "MODEL"]), WORD.map("".join))
STATEMENT = st.one_of(
    ASSIGNMENT,
    st.builds("export {}".format, ASSIGNMENT),
    st.builds("Q=1 {}".format, ASSIGNMENT),
    st.sampled_from(["export A", "# it's $(a", "set -x", "set -euo pipefail", "", "  B=1 # c"]),
)
LAUNCH = st.builds(
    "{}{} {}{}".format,
    st.sampled_from(["", "", "", "A=1 ", "Q=$A ", "A=1 B=$A "]),
    st.just(MAIN),
    st.lists(WORD.map("".join), max_size=3).map(" \\\n  ".join),
    st.sampled_from(["", ' "$@"', " $@ # c"]),
)
ODD_LINES = (
    "set -- a=1", "set -f", "unset A", "A=(1 2)", "read -r A <<< x", "A+=x", "shift", "cd /",
    "let A=2", "printf -v A x", "IFS=a", "UID=3", "for A in 1 2; do", "done", "if [ 1 ]; then",
    "fi", "{", "! A=1",
)  # fmt: skip
ODD = st.sampled_from((
    *"*?#~{}!;|&<>()'\"$`[]\\\n\t\r\x01\x7f\xa0", "\\\n", "{a,b}", "[x]", "~/a", "`id`", "$(id)",
    "$((1+1))", "$'a'", '$"a"', '"$*"', "$$", "$1", "$PWD", "$\\\nA", "$UNSET", "${A:=x}",
    "${A:+x}", "${A%x}", "${A[0]}", "${#A}", "${!A}", "${A:-~}", "${A:-'q'}", "\\$A",
    "\nexec ", "\nenv ", *(f"\n{line}\n" for line in ODD_LINES),
))  # fmt: skip
START = "A=1 B='x y'\n"


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """A script of the common form, often with something else at some place in it."""
    lines = [START, *draw(st.lists(STATEMENT, max_size=3)), draw(LAUNCH), draw(STATEMENT)]
    text = "\n".join(lines)
    for odd in draw(st.lists(ODD, max_size=1)):
        place = draw(st.integers(len(START), len(text)))
        text = text[:place] + odd + text[place:]
    return text


@settings(max_examples=200, deadline=None)
@given(scripts())
def test_the_words_are_those_of_bash_or_the_script_is_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            words, exports = read(folder, text)
        except ConfigError:
            return
        bash = started_by(folder, text)
        assert [word.text for word in words[1:]] == bash[0]
        assert {name: bash[1][name] for name in exports} == {
            name: word.text for name, word in exports.items()
        }
        # the words that are printed, with the variables of the environment, are the same again
        printed = started_by(folder, " ".join(f'"{word.shell}"' for word in words))
        assert printed[0] == bash[0]


ONLY_BASH = [
    'IFS=, read -ra G <<< "$CUDA"; MAIN n=${#G[@]}',
    "G=($(printf '%s\\n' a b c)); MAIN n=${#G[@]}",
    'set -- a=1 b=2\nMAIN "$@"',
    "read -r A < <(echo 3)\nMAIN n=$A",
    "mapfile -t A <<< $'x\\ny'\nMAIN n=${A[1]}",
    "printf -v A '%03d' 7\nMAIN n=$A",
    "let A=2+3\nMAIN n=$A",
    "A=1; (( A += 4 ))\nMAIN n=$A",
    "echo 'A=5' > more.sh; source ./more.sh\nMAIN n=$A",
    "echo 'A=5' > more.sh; . ./more.sh\nMAIN n=$A",
    "mkdir -p sub; cd sub; MAIN n=$(basename $(pwd))",
    "MAIN n=${UNSET:2:3}${CUDA:0:1}",
    "echo 'K=1 L=2' > .env; export $(grep -v '#' .env | xargs)\nMAIN n=$K$L",
    'eval "A=7"\nMAIN n=$A',
    'eval "MAIN n=1"',
    "for A in 1 2 3; do :; done\nMAIN n=$A",
    "for A in 1 2 3; do MAIN n=$A; done",
    "while [ ${#A} -lt 3 ]; do A+=x; done\nMAIN n=$A",
    "case $CUDA in 0*) A=zero ;; *) A=other ;; esac\nMAIN n=$A",
    "if [[ $CUDA == 0,* ]]; then A=1; else A=2; fi\nMAIN n=$A",
    "[ -d /no ] && A=1 || A=2\nMAIN n=$A",
    "f() { MAIN \"$@\"; }\nf n=1 'm=a b'",
    "function f { A=$1; }\nf 9\nMAIN n=$A",
    "A=(n=1 'm=a b')\nMAIN \"${A[@]}\"",
    "A=(n=1)\nA+=(m=2)\nMAIN ${A[*]}",
    "declare -A A=([x]=1)\nMAIN n=${A[x]}",
    "A=Qwen/Q-8B.tar\nMAIN n=${A##*/} m=${A%.*} o=${A/Qwen/q} p=${A,,}",
    "MAIN n=$((2 * (3 + 1))) m=$[1+1]",
    "A=x B=A\nMAIN n=${!B} m=${A@Q} o=${#A}",
    "MAIN n={1,2} m=~ o=~/x",
    "shopt -s nullglob\nMAIN n=1 nothing*",
    "MAIN run.s? *.sh",
    "set -f\nMAIN *.sh",
    "MAIN n=`echo 1`",
    "MAIN $'n=a\\tb' n=$\"x\"",
    "MAIN n=1 2>&1 | tee log",
    "MAIN n=1 > log 2>&1 &\nwait",
    "cat <<E | while read -r A; do MAIN n=$A; done\n5\nE",
    "nohup MAIN n=1",
    "env A=1 MAIN n=1",
    "exec MAIN n=1",
    "(A=3; MAIN n=$A)",
    "trap 'echo' EXIT; MAIN n=${A:=4} m=$A",
    "MAIN n=${CUDA:+set} m=${NONE+set}",
    "unset CUDA\nMAIN n=${CUDA:-none}",
    "shift $#; MAIN n=$# m=$0 o=$?",
    "time MAIN n=1",
    "set -euo pipefail; ulimit -n 100\nMAIN n=1",
    'local_dir=$(cd "$(dirname "$0")" && pwd)\nMAIN d=$(basename "$0")',
    "A='x y'\nMAIN $A",
]


def test_a_stand_in_gets_the_words_of_bash_and_a_reader_refuses(tmp_path: Path) -> None:
    for text in ONLY_BASH:
        script = text.replace("MAIN", f"${{RUN:-}} {MAIN}")
        words, environ = started_by(tmp_path, script, CUDA="0,1") or pytest.fail(text)
        adopting = started_by(tmp_path, script, CUDA="0,1", RUN="adopt -o x.sh")
        assert adopting == (["-o", "x.sh", "python3", *words], environ | {"RUN": "adopt -o x.sh"})
        with pytest.raises(
            ConfigError, match=r"line \d+: .* is for bash to read; write \$\{RUN:-\}"
        ):
            read(tmp_path, text.replace("MAIN", MAIN))
