"""A launch script, read without running anything: which commands it would start, with which words.

Assignments, arrays, `if`, `case` and tests are followed; loops, functions and what other programs
print are not. What cannot be known stays a mark in the values (`expand.MARK`), with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from rltf_verl.adapters.adopt.expand import Variables, fields, number, value
from rltf_verl.adapters.adopt.tokens import ShellError, Token, tokenize
from rltf_verl.adapters.adopt.truth import Truth, both, negated, same, tested

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.S)
DECLARING = ("export", "declare", "local", "readonly", "typeset")
LAUNCH = re.compile(r"main_ppo|fully_async_main|main_dapo")
NO_LAUNCH = re.compile(
    r"awk|cat|cd|cp|echo|find|grep|head|kill|less|ln|ls|mkdir|mv|pgrep|pkill|printf|rm|rsync|sed"
    r"|tail|tee|touch"
)
"""Commands that may name a trainer, or a file that is called like it, and start none."""
END_WORDS = {"then", "else", "elif", "fi", "do", "done", "esac", "}"}


@dataclass(frozen=True)
class Command:
    """A command that the script starts."""

    words: list[str]
    exports: dict[str, str]
    """What the script sets for it, with what it exported before."""
    folder: str
    """Where it has changed to; empty if it has not."""
    line: int


@dataclass
class Reading:
    """What a script does that matters here."""

    variables: Variables
    launches: list[Command] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Files that it reads and that were not read."""
    hidden: list[str] = field(default_factory=list)
    """Launches in loops, functions or branches that nobody can decide here."""
    folder: str = ""
    exported: set[str] = field(default_factory=set)


def read_script(
    path: Path,
    environ: Mapping[str, str],
    arguments: Sequence[str] = (),
    fixed: Mapping[str, str] | None = None,
) -> Reading:
    """Follow the script as bash would from here.

    Args:
        path: the script.
        environ: environment variables that it sees.
        arguments: its arguments, `"$@"`.
        fixed: values of variables, whatever the script makes of them.

    Raises:
        ShellError: it is no shell script that can be followed; names the line.
    """
    reading = Reading(Variables(environ, list(arguments), str(path), fixed or {}))
    tokens = tokenize(path.read_text("utf-8"))
    _Follower(tokens, reading).follow()
    return reading


class _Exit(Exception):  # noqa: N818  # the script's own exit, no error
    pass


class _Follower:
    """Parses and follows at once; a branch that is not taken is parsed with `_taken` off."""

    def __init__(self, tokens: list[Token], reading: Reading) -> None:
        self._tokens, self._at, self._reading = tokens, 0, reading
        self._variables = reading.variables
        self._taken: Truth = True
        self._bodies: dict[str, int] = {}

    def follow(self) -> None:
        try:
            while self._at < len(self._tokens):
                before = self._at
                self._list()
                if self._at == before:
                    token = self._tokens[self._at]
                    raise ShellError(f"line {token.line}: {token.text} is not expected here")
        except _Exit:
            pass

    # The grammar

    def _word(self) -> str:
        """The next word; empty before an operator and at the end."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        return token.text if token and token.is_word else ""

    def _operator(self) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        return token.text if token and not token.is_word else ""

    def _line(self) -> int:
        return self._tokens[min(self._at, len(self._tokens) - 1)].line

    def _expect(self, *words: str) -> str:
        self._separators()
        found = self._word() or self._operator()
        if found not in words:
            line = self._line()
            raise ShellError(f"line {line}: {found or 'the end'} where {words[0]} was expected")
        self._at += 1
        return found

    def _more(self, wanted: str) -> None:
        if self._at >= len(self._tokens):
            raise ShellError(f"line {self._line()}: the end where {wanted} was expected")

    def _separators(self) -> None:
        while self._operator() in (";", "\n", "&"):
            self._at += 1

    def _list(self) -> Truth:
        """Commands up to a word that ends a block. Returns the last one's success."""
        truth: Truth = True
        self._separators()
        while self._at < len(self._tokens):
            if self._word() in END_WORDS or self._operator() in (")", ";;"):
                break
            truth = self._and_or()
            self._separators()
        return truth

    def _and_or(self) -> Truth:
        truth = self._pipeline()
        while (joined := self._operator()) in ("&&", "||"):
            self._at += 1
            while self._operator() == "\n":
                self._at += 1
            wanted = joined == "&&"
            other = self._within(same(truth, wanted), self._pipeline)
            if truth is None:
                truth = None if other is not (not wanted) or other is None else other
            elif truth is wanted:
                truth = other
        return truth

    def _within(self, condition: Truth, part: Callable[[], Truth]) -> Truth:
        """Follow a part that runs under a condition."""
        before = self._taken
        self._taken = both(before, condition)
        try:
            return part()
        finally:
            self._taken = before

    def _pipeline(self) -> Truth:
        inverts = self._word() == "!"
        self._at += inverts
        truth = self._command()
        while self._operator() == "|":
            self._at += 1
            while self._operator() == "\n":
                self._at += 1
            truth = self._command()
        return negated(truth) if inverts else truth

    def _command(self) -> Truth:
        word, operator = self._word(), self._operator()
        compound = {"if": self._if, "case": self._case, "{": self._group, "[[": self._test}
        if word in compound:
            return compound[word]()
        if word in ("for", "while", "until", "select"):
            return self._loop(word)
        if operator == "(":
            self._at += 1
            truth = self._within(None, self._list)
            self._expect(")")
            return truth
        if word == "function" or self._is_function():
            return self._function()
        if word.startswith("(("):
            self._at += 1
            return self._arithmetic(word)
        return self._simple()

    def _is_function(self) -> bool:
        behind = [token.text for token in self._tokens[self._at + 1 : self._at + 3]]
        return bool(self._word()) and behind == ["(", ")"]

    def _function(self) -> Truth:
        """Its body runs when it is called."""
        self._at += self._word() == "function"
        name = self._word()
        self._at += 1
        while self._operator() in ("(", ")", "\n"):
            self._at += 1
        self._bodies[name] = self._at
        self._within(False, self._command)
        return True

    def _call(self, name: str) -> Truth:
        """Which arguments a function gets is not followed, so what it sets is not known."""
        back, self._at = self._at, self._bodies.pop(name)
        self._within(None, self._command)
        self._at = back
        return None

    def _group(self) -> Truth:
        self._at += 1
        truth = self._list()
        self._expect("}")
        return truth

    def _if(self) -> Truth:
        self._at += 1
        rest: Truth = True  # no earlier branch was taken
        truth: Truth = True
        while True:
            condition = self._within(rest, self._list)
            self._expect("then")
            truth = self._within(both(rest, condition), self._list)
            rest = both(rest, negated(condition))
            word = self._expect("fi", "else", "elif")
            if word == "else":
                truth = self._within(rest, self._list)
                word = self._expect("fi")
            if word == "fi":
                return None if rest is None else truth

    def _case(self) -> Truth:
        self._at += 1
        subject = value(self._word(), self._at_line())
        self._at += 1
        self._expect("in")
        rest: Truth = True
        self._separators()
        while self._word() != "esac":
            self._more("esac")
            self._at += self._operator() == "("
            patterns = []
            while self._operator() != ")":
                self._more(")")
                if self._operator() != "|":
                    patterns.append(value(self._word(), self._variables))
                self._at += 1
            self._at += 1
            found = any(fnmatchcase(subject, pattern) for pattern in patterns)
            known = not self._variables.causes(subject) or "*" in patterns
            match: Truth = found if known else None
            self._within(both(rest, match), self._list)
            rest = both(rest, negated(match))
            if self._operator() == ";;":
                self._at += 1
            self._separators()
        self._at += 1
        return True

    def _loop(self, kind: str) -> Truth:
        self._at += 1
        condition: Truth = None
        if kind in ("while", "until"):
            truth = self._list()
            condition = False if truth is (kind == "until") else None
        else:
            while self._word() != "do" and self._at < len(self._tokens):
                self._at += 1
        self._separators()
        self._expect("do")
        self._within(condition, self._list)
        self._expect("done")
        return None

    # Commands

    def _at_line(self) -> Variables:
        self._variables.line = self._line()
        return self._variables

    def _simple(self) -> Truth:
        line, words = self._line(), list[str]()
        self._at_line()
        while word := self._word():
            words.append(word)
            self._at += 1
        if self._taken is False:
            return True
        assignments = []
        while words and ASSIGNMENT.match(words[0]):
            assignments.append(words.pop(0))
        if not words:
            for assignment in assignments:
                self._assign(assignment)
            return True
        if words[0] in DECLARING:
            for word in words[1:]:
                self._declare(words[0], word)
            return True
        return self._start(words, assignments, line)

    def _assign(self, assignment: str) -> str:
        found = ASSIGNMENT.match(assignment)
        assert found
        name, adds, text = found[1], bool(found[2]), found[3]
        variables = self._variables
        variables.target = name
        held: str | list[str]
        if text.startswith("(") and text.endswith(")"):
            held = [
                field
                for token in tokenize(text[1:-1])
                if token.is_word
                for field in fields(token.text, variables)
            ]
        else:
            held = value(text, variables)
        before = variables.get(name)
        if adds and isinstance(held, list):
            held = [*(before if isinstance(before, list) else [before] if before else []), *held]
        elif adds and isinstance(before, str) and isinstance(held, str):
            held = before + held
        if self._taken is None:
            held = variables.mark(assignment, decides=True)
            held = [*before, held] if isinstance(before, list) else held
        variables.values[name] = held
        variables.target = ""
        return name

    def _declare(self, how: str, word: str) -> None:
        name = self._assign(word) if ASSIGNMENT.match(word) else word
        if how == "export" and not name.startswith("-"):
            self._reading.exported.add(name)

    def _start(self, words: list[str], assignments: list[str], line: int) -> Truth:
        made = [part for word in words for part in fields(word, self._variables)]
        if any(LAUNCH.search(word) for word in made) and not NO_LAUNCH.fullmatch(made[0]):
            self._launch(made, assignments, line)
            return True
        if made and made[0] in self._bodies:
            return self._call(made[0])
        return self._builtin(made or [""], words)

    def _builtin(self, made: list[str], words: list[str]) -> Truth:
        name, reading = made[0], self._reading
        if name in ("test", "["):
            return tested(made[1:-1] if name == "[" else made[1:], self._variables)
        if name == "exit" and self._taken:
            raise _Exit
        if name in ("source", ".", "eval"):
            reading.skipped.append(f"line {self._variables.line}: {' '.join(words)}")
            return None
        if name == "cd" and self._taken:
            reading.folder = str(Path(reading.folder) / made[-1]) if len(made) > 1 else "~"
        elif name == "unset" and self._taken:
            for other in made[1:]:
                self._variables.values[other] = ""
        elif name == "shift" and self._taken:
            if made[1:] and not made[1].isdigit():
                raise ShellError(f"line {self._variables.line}: {' '.join(words)}: is not known")
            del self._variables.arguments[: int(made[1]) if made[1:] else 1]
        elif name == "false":
            return False
        return True if name in ("true", ":", "echo", "printf", "set", "cd", "mkdir") else None

    def _launch(self, words: list[str], assignments: list[str], line: int) -> None:
        if self._taken is None:
            self._reading.hidden.append(f"line {line}")
            return
        variables = self._variables
        exports = {name: str(variables.values.get(name, "")) for name in self._reading.exported}
        for assignment in assignments:
            name = self._assign(assignment)
            exports[name] = str(variables.values[name])
        self._reading.launches.append(Command(words, exports, self._reading.folder, line))

    def _arithmetic(self, word: str) -> Truth:
        try:
            text = value(word[2:-2], self._variables)
            return None if self._variables.causes(text) else bool(number(text, self._variables))
        except ShellError:
            return None

    def _test(self) -> Truth:
        """`[[ … ]]`"""
        self._at += 1
        self._at_line()
        parts: list[str] = []
        while self._word() != "]]":
            if self._at >= len(self._tokens):
                raise ShellError("[[ without ]]")
            raw = self._word()
            parts.append(value(raw, self._variables) if raw else self._operator())
            self._at += 1
        self._at += 1
        return tested(parts, self._variables)
