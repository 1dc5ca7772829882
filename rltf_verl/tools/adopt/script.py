"""A launch script of the common form, read without running it.

The common form: assignments, `export`, `${X:-default}`, comments, continued lines, `set -x`, `"$@"`
and one `python3 -m verl.trainer.main_ppo …`. Everything else is refused with its line: only bash
knows what bash would do. The words are those of bash, started here without arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltf_verl.config import ConfigError

FIX = 'write ${RUN:-} before `python3 -m`, then RUN="rltf adopt -o NEW.sh" bash'
MAIN = re.compile(r"python3? -m \S*(main_ppo|main_dapo|fully_async_main)")
FLAGS = re.compile(r"set( [-+][eux]+| -[eux]*o pipefail)+")
"""Options of bash that change no word; `set -f`, `-a`, `-k` and `--` do."""

NAME = "[A-Za-z_][A-Za-z0-9_]*"
SAFE = "[A-Za-z0-9_./,:=+%@^ -]"
SIMPLE = rf"\$(?:{NAME}|\{{{NAME}\}})"
VARIABLE = rf"(?:{SIMPLE}|\$\{{{NAME}:?-(?:{SAFE}|{SIMPLE})*\}})"

# A line's end within a word is refused: `$A\<newline>B` is `$AB`. So are characters that bash reads
# in its own way (NUL, \1, \177) and blanks that end no word (\r, \f, \v).
TOKEN = re.compile(
    rf"""(?P<blank>[ \t]+|(?<=[ \t\n])\\\n|\\\n(?=[ \t\n])|(?<![^ \t\n])\#[^\n]*)|(?P<end>\n)
    |(?P<arguments>(?<![^ \t\n])(?:\$@|\$\{{@\}}|"\$@"|"\$\{{@\}}")(?=[ \t\n]))
    |(?P<single>'[^'\0-\x08\v-\x1f\x7f]*')
    |(?P<double>"(?:[^"\\$`\0-\x08\v-\x1f\x7f]|\\[^\n\0-\x1f\x7f]|{VARIABLE})*")
    |(?P<variable>{VARIABLE})
    |(?P<escaped>\\[!-~])
    |(?P<plain>[^\s\\'"$`|&;<>(){{}}~\0-\x1f\x7f]+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
INNER = re.compile(
    rf"\$(?P<short>{NAME})|\$\{{(?P<name>{NAME})(?:(?P<operator>:?-)(?P<default>(?:{SAFE}|{SIMPLE})*))?\}}"
    r"|\\(?P<escaped>[$`\"\\])|(?P<text>[^$\\]+|\\)"
)
ASSIGNMENT = re.compile(rf"({NAME})=")
SPLITS = re.compile(r"[\s*?\[\]\\]")
"""What bash would split a value at, or look for files with."""

# Variables that bash sets, counts or unsets by itself, whatever the environment holds.
OF_BASH = re.compile(
    r"_|BASH\w*|COMP_\w*|COLUMNS|LINES|DIRSTACK|ENV|EPOCH\w*|E?UID|FUNCNAME|GROUPS|HIST\w*"
    r"|HOST(?:NAME|TYPE)|IFS|LINENO|MACHTYPE|(?:OLD)?PWD|OPT\w*|OSTYPE|PIPESTATUS|POSIXLY_CORRECT"
    r"|PPID|PS\d|S?RANDOM|READLINE_\w*|SECONDS|SHELLOPTS|SHLVL"
)

Parts = Sequence[tuple[str, str]]
"""A word as it is written: group of `TOKEN` and text of each stretch."""


@dataclass(frozen=True)
class Word:
    """A word of a command."""

    text: str
    """The word as a program gets it."""
    shell: str
    """The same inside double quotes, with the variables of the environment."""

    def __add__(self, other: Word) -> Word:
        return Word(self.text + other.text, self.shell + other.shell)


Script = tuple[list[Word], dict[str, Word]]
"""Words of the launch, and the variables that the script exports to it."""


def literal(text: str) -> Word:
    """A text without variables."""
    return Word(text, re.sub(r'([\\"$`])', r"\\\1", text))


def read_script(path: Path, environ: Mapping[str, str]) -> Script:
    """The launch in a script of the common form.

    Args:
        path: the script.
        environ: variables that bash would get.

    Raises:
        ConfigError: the script has another form; names the line.
    """
    reader, line = _Reader(environ), 1
    try:
        for line, words in _statements(path.read_bytes().decode("utf-8")):  # noqa: B007  # for the refusal
            reader.follow(words)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}; save it as UTF-8") from error
    except _OtherForm as error:
        raise ConfigError(
            f"{path}, line {line}: {error} is for bash to read; {FIX} {path}"
        ) from None
    if reader.launch is None:
        raise ConfigError(f"{path}: no line starts with `python3 -m verl.trainer.main_ppo`; {FIX}")
    return reader.launch


class _OtherForm(Exception):  # noqa: N818  # always becomes a ConfigError
    pass


def _statements(text: str) -> Iterator[tuple[int, list[Parts]]]:
    """The words of each line that is not empty, with its number."""
    words, word, start = list[Parts](), list[tuple[str, str]](), 0
    for token in TOKEN.finditer(text + "\n"):
        kind = str(token.lastgroup)
        if kind not in ("blank", "end", "arguments"):
            start = start if words or word else token.start()
            word.append((kind, token[0]))
            continue
        if word:
            words.append(word)
            word = []
        if kind == "end" and words:
            yield text.count("\n", 0, start) + 1, words
            words = []


class _Reader:
    """Follows statements. `launch` is the training, once it was met."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.launch: Script | None = None
        self._environ = environ
        self._values: dict[str, Word] = {}
        self._exported = set(environ)

    def follow(self, words: Sequence[Parts]) -> None:
        """Raises _OtherForm: it is no statement of the common form."""
        other = next((text for word in words for kind, text in word if kind == "other"), None)
        if other:
            raise _OtherForm(f"`{other}`" if other.isprintable() else repr(other))
        assigned = dict[str, Parts]()
        rest = list(words)
        while rest and (assignment := _assignment(rest[0])):
            if assignment[0] in assigned:
                raise _OtherForm("a variable that is set twice")
            assigned |= [assignment]
            del rest[0]
        if not rest:
            for name, value in assigned.items():
                self._values[name] = self._expanded(value)
        elif rest[0] == [("plain", "export")] and not assigned:
            self._export(rest[1:])
        elif assigned or not FLAGS.fullmatch(" ".join(map(_source, rest))):
            self._launch(rest, assigned)

    def _export(self, words: Sequence[Parts]) -> None:
        for word in words:
            name, value = _assignment(word) or (_source(word), None)
            if value is not None:
                self._values[name] = self._expanded(value)
            elif name not in {*self._values, *self._environ}:
                raise _OtherForm("this `export`")
            self._exported.add(name)

    def _launch(self, words: Sequence[Parts], assigned: Mapping[str, Parts]) -> None:
        if not MAIN.fullmatch(" ".join(map(_source, words[:3]))):
            program = _source(words[0])
            raise _OtherForm(f"`{program}`" if re.fullmatch(r"[\w.]+", program) else "this command")
        if self.launch is not None:
            raise _OtherForm("a second training")
        line = [(self._expanded(parts, splits=True), parts) for parts in words]
        # bash leaves an empty word out, unless a part of it is quoted
        kept = [
            word
            for word, parts in line
            if word.text or any(kind not in ("plain", "variable") for kind, _ in parts)
        ]
        if len(assigned) > 1 and any("$" in _source(value) for value in assigned.values()):
            raise _OtherForm("a variable that may be set and used in one command")
        exports = {name: word for name, word in self._values.items() if name in self._exported}
        for name, value in assigned.items():
            exports[name] = self._expanded(value)
        self.launch = kept, exports

    def _expanded(self, parts: Parts, splits: bool = False) -> Word:
        """The word as bash expands it.

        Args:
            parts: the word as it is written.
            splits: whether bash splits values in it, and looks for files that match it.
        """
        made = Word("", "")
        for kind, text in parts:
            if kind == "plain":
                pattern = re.search(r"[*?\[]", text)
                if splits and pattern:
                    _require_no_files(made.text + text[: pattern.start()])
                made += literal(text)
            elif kind in ("single", "escaped"):
                made += literal(text[1:-1] if kind == "single" else text[1:])
            else:
                value = self._inner(text[1:-1] if kind == "double" else text)
                if splits and kind == "variable" and SPLITS.search(value.text):
                    name = INNER.sub(lambda match: match["short"] or match["name"], text)
                    raise _OtherForm(f"an unquoted ${name} that splits")
                made += value
        return made

    def _inner(self, text: str) -> Word:
        """A text inside double quotes."""
        made = Word("", "")
        for match in INNER.finditer(text):
            if match["escaped"] or match["text"]:
                made += literal(match["escaped"] or match["text"])
            else:
                made += self._value(match["short"] or match["name"], match)
        return made

    def _value(self, name: str, reference: re.Match[str]) -> Word:
        if OF_BASH.fullmatch(name):
            raise _OtherForm(f"${name}")
        ours, operator = self._values.get(name), reference["operator"]
        value = ours
        if value is None and name in self._environ:
            value = Word(self._environ[name], f"${{{name}}}")
        if not operator:
            if value is None:
                raise _OtherForm(f"${name} without a value")
            return value
        default = self._inner(reference["default"])
        if value is None or (not value.text and operator == ":-"):
            value = default
        if ours is None and re.fullmatch(f"{SAFE}*", default.text):
            return Word(value.text, f"${{{name}{operator}{default.shell}}}")
        return literal(value.text)


def _assignment(word: Parts) -> tuple[str, Parts] | None:
    """Name and value, if the word is `NAME=value`."""
    kind, text = word[0]
    match = ASSIGNMENT.match(text) if kind == "plain" else None
    if match is None:
        return None
    if OF_BASH.fullmatch(match[1]):
        raise _OtherForm(f"{match[1]}=")
    return match[1], [("plain", text[match.end() :]), *word[1:]]


def _source(word: Parts) -> str:
    """The word as it is written."""
    return "".join(text for _, text in word)


def _require_no_files(prefix: str) -> None:
    """Bash replaces a pattern by the files that match it; all of them begin with its prefix."""
    folder, start = Path(f"{prefix}x").parent, prefix.rpartition("/")[2]
    if folder.is_dir() and any(path.name.startswith(start) for path in folder.iterdir()):
        raise _OtherForm("a pattern that may match files")
