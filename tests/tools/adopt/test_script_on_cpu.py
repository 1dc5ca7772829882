"""Scripts of the common form are read as bash reads them; all others are refused."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltf_verl.config import ConfigError
from rltf_verl.tools.adopt.script import Script, read_script
from tests.tools.adopt.bash import printer, started

MAIN = "python3 -m verl.trainer.main_ppo"
ENVIRON = {"HOME": "/home/u", "E": "two words", "F": "", "MODEL": "Qwen/Qwen3-8B", "G": "$A*"}


def read(folder: Path, text: str) -> Script:
    (folder / "run.sh").write_text(text, "utf-8", newline="")
    return read_script(folder / "run.sh", ENVIRON)


def words_of_bash(folder: Path, text: str) -> tuple[list[str], dict[str, str]] | None:
    (folder / "run.sh").write_text(text, "utf-8", newline="")
    return started(folder / "run.sh", printer(folder / "bin", "python3"), ENVIRON)


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
ODD = st.sampled_from(
    [*"*?#~{}!;|&<>()'\"$`[]", "\\", "\\\n", "\n", "\t", "\r", "\x01", "\x7f", "\xa0", "{a,b}", "[x]", "~/a"]
    + ["`id`", "$(id)", "$((1+1))", "$'a'", '$"a"', '"$*"', "$$", "$1", "$PWD", "$\\\nA", "$UNSET"]
    + ["${A:=x}", "${A:+x}", "${A%x}", "${A[0]}", "${#A}", "${!A}", "${A:-~}", "${A:-'q'}", "\\$A"]
    + ["\nset -- a=1\n", "\nset -f\n", "\nunset A\n", "\nA=(1 2)\n", "\nread -r A <<< x\n", "\nA+=x\n"]
    + ["\nshift\n", "\ncd /\n", "\nlet A=2\n", "\nprintf -v A x\n", "\nIFS=a\n", "\nUID=3\n", "\nfi\n"]
    + ["\nfor A in 1 2; do\n", "\ndone\n", "\nif [ 1 ]; then\n", "\n{\n", "\n! A=1\n", "\nexec ", "\nenv "]
)  # fmt: skip
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


@settings(max_examples=400)
@given(scripts())
def test_the_words_are_those_of_bash_or_the_script_is_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            script = read(folder, text)
        except ConfigError as error:
            assert "\n" not in str(error)
            return
        bash = words_of_bash(folder, text)
        assert bash is not None
        words, environ = bash
        assert [word.text for word in script.words[1:]] == words
        assert {name: environ[name] for name in script.exports} == {
            name: word.text for name, word in script.exports.items()
        }
        # what is printed, with the variables of the environment, is the same again
        printed = " ".join(f'"{word.shell}"' for word in script.words)
        assert (words_of_bash(folder, printed) or ([], {}))[0] == words
