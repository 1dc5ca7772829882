"""What a word of a shell script stands for: quotes, variables and arithmetic; no command is run."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from rltf_verl.adapters.adopt.tokens import ShellError, tokenize

NAME = re.compile(r"[A-Za-z_]\w*")
MARK = re.compile("\ue000(\\d+)\ue001")
"""Stands in a value for what was not read."""

PARAMETER = re.compile(
    r"(?P<length>#?)(?P<name>[A-Za-z_]\w*|[@*#?0-9])(?P<index>\[[^\]]*\])?(?P<rest>.*)", re.S
)
ACTION = re.compile(r"(:?[-=+?]|%%?|##?|//?|,,?|\^\^?)(.*)", re.S)
SLICE = re.compile(r":\s*(\d+)(?::(\d+))?")

ARITHMETIC: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


@dataclass(frozen=True)
class Unread:
    """Something in a script that only running it would tell."""

    line: int
    text: str
    decides: bool = False
    """It is a condition: the variables of its branches are not known."""
    variable: str = ""
    """What its value would have been given to; setting it beforehand may avoid the question."""


@dataclass
class Variables:
    """Values of a script's variables and arguments."""

    environ: Mapping[str, str]
    arguments: list[str]
    script: str
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Values that the user tells, whatever the script makes of them."""
    values: dict[str, str | list[str]] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    line: int = 0
    target: str = ""

    def get(self, name: str) -> str | list[str] | None:
        """A value, of the script or of the environment; None if there is none."""
        if name in ("@", "*"):
            return self.arguments
        if name == "#":
            return str(len(self.arguments))
        if name == "0":
            return self.script
        if name == "BASH_SOURCE":
            return [self.script]
        if name.isdigit():
            place = int(name) - 1
            return self.arguments[place] if place < len(self.arguments) else None
        if name in self.fixed:
            return self.fixed[name]
        return self.values.get(name, self.environ.get(name))

    def mark(self, text: str, decides: bool = False) -> str:
        """A stand-in for a value that is not known."""
        text = " ".join(text.split())
        self.unread.append(Unread(self.line, text, decides, self.target))
        return f"\ue000{len(self.unread) - 1}\ue001"

    def causes(self, text: str) -> list[Unread]:
        """Why a value is not known; empty if it is."""
        return [self.unread[int(number)] for number in MARK.findall(text)]


def fields(word: str, variables: Variables) -> list[str]:
    """The arguments that a word becomes: usually one, but none or several for arrays."""
    made = _Fields()
    _expand(word, variables, made, quoted=False)
    return made.finished()


def value(word: str, variables: Variables) -> str:
    """A word where only one value can be, as behind `A=`: nothing is split."""
    made = _Fields(splits=False)
    _expand(word, variables, made, quoted=False)
    return " ".join(made.finished())


def number(text: str, variables: Variables) -> int:
    """An arithmetic expression. Raises ShellError: it is none that is known here."""
    plain = re.sub(r"\$\{(\w+)\}|\$(\w+)", r"\1\2", text).replace("&&", " and ")
    plain = plain.replace("||", " or ").replace("/", "//").strip()
    try:
        return int(_computed(ast.parse(plain or "0", mode="eval").body, variables))
    except (SyntaxError, ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise ShellError(f"line {variables.line}: (({text})) cannot be computed here") from error


def _computed(node: ast.AST, variables: Variables) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        found = variables.get(node.id)
        if isinstance(found, list):
            found = found[0] if found else None
        return int(found or 0)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_computed(node.operand, variables)
    if isinstance(node, ast.BoolOp):
        parts = [_computed(part, variables) for part in node.values]
        return int(all(parts) if isinstance(node.op, ast.And) else any(parts))
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        left, right = _computed(node.left, variables), _computed(node.right, variables)
        if isinstance(node.op, ast.Pow) and not 0 <= right <= 64:
            raise ValueError(f"exponent {right}")
        return ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in ARITHMETIC:
        left, right = _computed(node.left, variables), _computed(node.comparators[0], variables)
        return int(ARITHMETIC[type(node.ops[0])](left, right))
    raise ValueError(f"no arithmetic: {ast.dump(node)}")


@dataclass
class _Fields:
    splits: bool = True
    done: list[str] = field(default_factory=list)
    current: str | None = None

    def add(self, text: str) -> None:
        self.current = (self.current or "") + text

    def split(self, text: str) -> None:
        """What a variable outside of quotes holds: white space separates fields."""
        if not self.splits:
            self.add(text)
            return
        words = text.split()
        if text[:1].isspace():
            self._end()
        for place, word in enumerate(words):
            if place:
                self._end()
            self.add(word)
        if words and text[-1].isspace():
            self._end()

    def several(self, texts: list[str]) -> None:
        for place, text in enumerate(texts):
            if place:
                self._end()
            self.add(text)

    def _end(self) -> None:
        if self.current is not None:
            self.done.append(self.current)
        self.current = None

    def finished(self) -> list[str]:
        self._end()
        return self.done


def _expand(word: str, variables: Variables, made: _Fields, quoted: bool) -> None:
    place = 0
    home = None if quoted else re.match(r"([A-Za-z_]\w*=)?~(?=/|$)", word)
    if home:
        made.add((home[1] or "") + str(variables.get("HOME") or "~"))
        place = home.end()
    while place < len(word):
        char, rest = word[place], word[place + 1 : place + 2]
        if char == "\\" and quoted and rest not in ("$", "`", '"', "\\", "\n"):
            made.add(char)
            place += 1
        elif char == "\\":
            made.add("" if rest == "\n" else rest)
            place += 2
        elif char == "'" and not quoted:
            end = word.index("'", place + 1)
            made.add(word[place + 1 : end])
            place = end + 1
        elif char == '"' and not quoted:
            place = _double_quotes(word, place, variables, made)
        elif char == "`":
            end = word.index("`", place + 1)
            made.add(variables.mark(word[place : end + 1]))
            place = end + 1
        elif char == "$" and (
            rest in ("(", "{") or rest in ("@", "*", "#", "?") or rest.isalnum() or rest == "_"
        ):
            place = _dollar(word, place + 1, variables, made, quoted)
        else:
            made.add(char)
            place += 1


def _double_quotes(word: str, place: int, variables: Variables, made: _Fields) -> int:
    end = place + 1
    while word[end] != '"':
        if word[end] == "\\":
            end += 2
        elif word[end] == "$" and word[end + 1 : end + 2] in ("(", "{"):
            end = _end_of_bracket(word, end + 1)
        else:
            end += 1
    inner = word[place + 1 : end]
    if inner not in ("$@", "${@}") and not re.fullmatch(r"\$\{\w+\[@\]\}", inner):
        made.add("")  # "" is an argument too; an empty array is none
    _expand(inner, variables, made, quoted=True)
    return end + 1


def _end_of_bracket(word: str, place: int) -> int:
    """Index after the bracket that closes the one at `place`."""
    opening, depth = word[place], 0
    closing = {"(": ")", "{": "}"}[opening]
    while place < len(word):
        if word[place] == "\\":
            place += 1
        elif word[place] == "'" and word.find("'", place + 1) > 0 and opening == "(":
            place = word.index("'", place + 1)
        else:
            depth += (word[place] == opening) - (word[place] == closing)
        place += 1
        if depth == 0:
            return place
    raise ShellError(f"{opening} is not closed in {word}")


def _dollar(word: str, place: int, variables: Variables, made: _Fields, quoted: bool) -> int:
    """Index after what stands behind a `$`."""
    add = made.add if quoted else made.split
    if word.startswith("((", place):
        end = _end_of_bracket(word, place)
        inner = word[place + 2 : end - 2]
        made.add(_arithmetic(inner, variables))
        return end
    if word[place] == "(":
        end = _end_of_bracket(word, place)
        add(_command(word[place + 1 : end - 1], variables))
        return end
    if word[place] == "{":
        end = _end_of_bracket(word, place)
        _parameter(word[place + 1 : end - 1], variables, made, quoted)
        return end
    name = NAME.match(word, place)
    end = name.end() if name else place + 1
    _parameter(word[place:end], variables, made, quoted)
    return end


def _arithmetic(text: str, variables: Variables) -> str:
    expanded = value(text, variables)
    if variables.causes(expanded):
        return expanded
    try:
        return str(number(expanded, variables))
    except ShellError:
        return variables.mark(f"$(({text}))")


def _command(text: str, variables: Variables) -> str:
    """`$(…)`: only the folder of the script and the current one are known without running it."""
    words = [token.text for token in tokenize(text)]
    if words == ["pwd"]:
        return str(variables.get("PWD") or ".")
    if words[:1] == ["dirname"] and len(words) in (2, 3):
        path = value(words[-1], variables)
        return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
    if words[:1] == ["cd"] and words[2:] == ["&&", "pwd"]:
        return value(words[1], variables)
    return variables.mark(f"$({text})")


def _parameter(inner: str, variables: Variables, made: _Fields, quoted: bool) -> None:
    """`$NAME` and `${…}` without the brackets."""
    add = made.add if quoted else made.split
    found = PARAMETER.fullmatch(inner)
    if found is None:
        add(variables.mark(f"${{{inner}}}"))
        return
    name, index, rest = found["name"], found["index"], found["rest"]
    held = variables.get(name)
    every = index in ("[@]", "[*]") or (name in ("@", "*") and not index)
    if found["length"] and name not in "@*#?":
        add(str(len(held or "") if every or not isinstance(held, list) else len(held[0])))
        return
    cut = SLICE.fullmatch(rest)
    if cut:
        start, stop = int(cut[1]), int(cut[1]) + int(cut[2]) if cut[2] else None
        if name in "@*":
            start, stop = start - 1, stop and stop - 1
        held, rest = (held or "")[start:stop], ""
    if isinstance(held, list) and every and not rest:
        if quoted and (index or name) in ("[@]", "@"):
            made.several(held)
        elif quoted:
            made.add(" ".join(held))
        else:
            for place, text in enumerate(held):
                made.split((" " if place else "") + text)
        return
    if index and not every and isinstance(held, list):
        place = int(index[1:-1]) if index[1:-1].lstrip("-").isdigit() else 0
        held = held[place] if -len(held) <= place < len(held) else None
    plain = " ".join(held) if isinstance(held, list) else held
    action = ACTION.fullmatch(rest) if rest else None
    if rest and action is None:
        add(variables.mark(f"${{{inner}}}"))
    else:
        add(_acted(name, plain, action, variables) if action else plain or "")


def _acted(name: str, held: str | None, action: re.Match[str], variables: Variables) -> str:
    """`${NAME:-word}` and its like."""
    sign, word = action[1], action[2]
    empty = held is None or (sign.startswith(":") and not held)
    if sign[-1] in "-=+?":
        if sign[-1] == "+":
            return "" if empty else value(word, variables)
        if not empty:
            return held or ""
        if sign[-1] == "?":
            return variables.mark(f"${{{name}{sign}{word}}}")
        chosen = value(word, variables)
        if sign[-1] == "=":
            variables.values[name] = chosen
        return chosen
    text = held or ""
    if sign[0] in ",^":
        change = str.lower if sign[0] == "," else str.upper
        return change(text) if len(sign) == 2 else change(text[:1]) + text[1:]
    if sign[0] == "/":
        old, _, new = word.partition("/")
        times = -1 if sign == "//" else 1
        return text.replace(value(old, variables), value(new, variables), times)
    return _stripped(text, value(word, variables), sign)


def _stripped(text: str, pattern: str, sign: str) -> str:
    """`${NAME%pattern}`, `%%`, `#` and `##`."""
    ends = range(len(text) + 1)
    if sign[0] == "%":
        order = ends if sign == "%%" else reversed(ends)
        return next((text[:k] for k in order if fnmatchcase(text[k:], pattern)), text)
    order = reversed(ends) if sign == "##" else ends
    return next((text[k:] for k in order if fnmatchcase(text[:k], pattern)), text)
