"""What can be wrong with feedback: one table, one function per verdict."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rltf_verl.envs.base import Env, FindsCandidates
from rltf_verl.envs.text.number_words import as_number
from rltf_verl.feedback.guard.equality import tokens_of
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.feedback.guard.spans import numbers_in, quotations, undressed
from rltf_verl.findings import Finding, Level
from rltf_verl.texts import CHAT_TOKENS, one_line
from rltf_verl.tools.feedback.attempts import ORDER, REFERENCE
from rltf_verl.tools.feedback.collect import CheckedAttempt

SHOWN = 100
"""Characters of a text that a verdict quotes."""


@dataclass(frozen=True)
class CheckedFeedback:
    """All that is known of one feedback function."""

    env: Env
    """The leak guard asks it."""
    attempts: Sequence[CheckedAttempt]
    room: int
    """Characters of a second prompt."""
    tells_answer: bool = False
    """It is meant to."""
    constant: bool = False
    """It is meant to be the same sentence."""

    @property
    def graded(self) -> list[CheckedAttempt]:
        """Attempts with a grade."""
        return [one for one in self.attempts if not one.first.error]

    @property
    def wrong(self) -> list[CheckedAttempt]:
        """Those that are graded wrong and have a text."""
        return [one for one in self.graded if not one.first.correct and one.first.text.strip()]


Hits = Iterator[tuple[CheckedAttempt, str]]
"""Attempts, with what is wrong at them."""


def tells_answer(seen: CheckedFeedback) -> Hits:
    """The text has the answer, or a number that makes it of the attempt's."""
    if seen.tells_answer:
        return
    for one in seen.wrong:
        if not _has(one.attempt.text, one.question.problem.reference):
            problem, text = one.question.problem, one.first.text
            for leak in find_leaks(seen.env, problem, text, one.attempt.text)[:1]:
                if leak.kind != "unreadable":
                    yield one, f"{_said(one)} has {leak.verdict(text)}"
    if not isinstance(seen.env, FindsCandidates):  # which knows where its answer is told
        yield from _stated(seen)
    yield from _by_arithmetic(seen)


def _stated(seen: CheckedFeedback) -> Hits:
    """Texts that have their own row's reference more often than any other row's: no chance."""
    references = {one.question.problem.reference for one in seen.attempts}
    own, foreign = list[CheckedAttempt](), 0
    for one in seen.wrong:
        known = f"{_asked(one)}\n{one.attempt.text}"
        told = {r for r in references if _has(one.first.text, r) and not _has(known, r)}
        own += [one] * (one.question.problem.reference in told)
        foreign += len(told - {one.question.problem.reference})
    if len({one.row for one in own}) > 1 and len(own) > foreign:
        yield from ((one, f"{_said(one)} has {one.question.problem.reference!r}") for one in own)


WAYS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "their difference": lambda right, said: abs(right - said),
    "their quotient": lambda right, said: right / said if said else Fraction(0),
}


def _by_arithmetic(seen: CheckedFeedback) -> Hits:
    """Different numbers for different attempts, each of which makes the answer of the attempt."""
    pairs = [
        (one, *map(_number, (one.question.problem.reference, one.attempt.answer)))
        for one in seen.wrong
    ]
    for way, number in WAYS.items():
        numeric = [
            (one, number(right, said)) for one, right, said in pairs if right and said is not None
        ]
        hits = [(one, n) for one, n in numeric if n in _new_numbers(one)]
        if 2 * len(hits) > len(numeric) and len({n for _, n in hits}) > 1:
            for one, n in hits:
                yield one, f"{_said(one)} has {n}, {way} of attempt and answer"


def same_text(seen: CheckedFeedback) -> Hits:
    """One text for all wrong attempts, but for what it repeats of them."""
    texts = {_own_words(one) for one in seen.wrong}
    if not seen.constant and len(seen.wrong) > 1 and len(texts) == 1:
        yield from ((one, _said(one)) for one in seen.wrong)


def same_for_row(seen: CheckedFeedback) -> Hits:
    """One text for all wrong attempts at a row, and others at other rows."""
    by_row = defaultdict[int, list[CheckedAttempt]](list)
    for one in seen.wrong:
        by_row[one.row].append(one)
    rows = [row for row in by_row.values() if len(row) > 1]
    texts = [{_own_words(one) for one in row} for row in rows]
    if not seen.constant and len(set().union(*texts)) > 1 == max(map(len, texts), default=0):
        yield from ((one, _said(one)) for row in rows for one in row)


VERDICT_WORDS = frozenset(
    "your the this that it a an my previous last first answer attempt solution response result"
    " output is was are isn't wasn't not no yes nope correct incorrect right wrong false true good"
    " bad sorry unfortunately please let's now and but still try again once more pass passed fail"
    " failed score reward grade verdict feedback graded as you i rejected accepted invalid error".split()
)
"""A text of these and of numbers says right or wrong and no more."""


def only_verdict(seen: CheckedFeedback) -> Hits:
    """Most texts only say that the attempt is wrong."""
    bare = [one for one in seen.wrong if set(_words(_own_words(one))) <= VERDICT_WORDS]
    if not seen.constant and 2 * len(bare) > len(seen.wrong):
        yield from ((one, _said(one)) for one in bare)


_WHOLE = (
    r"(?:(?:that|this|it|which|everything)(?:'s|\s+is|\s+was)|(?:your|the|this|that|my)\s+(?:\w+\s+)?"
    r"(?:answer|attempt|solution|response|reply|result|output|code|program|number|value)"
    r"(?:\s+(?:is|was|looks|seems))?|you(?:'re|\s+are|\s+were|\s+got\s+it)|yes|all|well)"
)
_PRAISE = re.compile(
    rf"^\W*(?:{_WHOLE}\W+)*(?:(?:now|entirely|completely|absolutely|indeed|exactly|quite|all|is)\s+)*"
    r"(?:correct|right|perfect|flawless|excellent|accepted|done|good\s+job|great(?:\s+(?:job|work))?)\W*$",
    re.IGNORECASE,
)
_NOT_WRONG = re.compile(
    r"\b(?:no|not|nothing|without|never|isn't)\s+(?:\w+\s+)?(?:wrong|mistakes?|missing|errors?)\b",
    re.IGNORECASE,
)
_BLAME = re.compile(
    r"\b(?:incorrect|wrong|mistaken?|mistakes?|not\s+(?:correct|right|accepted)|isn't\s+(?:correct|right)"
    r"|too\s+(?:large|small|high|low|big|long|short|late|early)|try\s+again|missing|off\s+by)\b",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n+|,\s+(?=but\b|and\b)|\s[-–—]\s")


def contradicts(seen: CheckedFeedback) -> Hits:
    """Praise of a wrong attempt, or blame of a right one, and nothing else."""
    for one in seen.graded:
        praised, blamed = _praised(one.first.text), _blamed(one.first.text)
        if praised != blamed and praised != one.first.correct:
            grade = "right" if one.first.correct else "wrong"
            yield one, f"graded {grade}, and {_said(one)}"


_UNITS: dict[str, re.Pattern[str]] = {
    "line|row": re.compile(r"[^\n]+"),
    "word|token": re.compile(r"\S+"),
    "digit": re.compile(r"\d"),
    "letter": re.compile(r"[^\W\d_]"),
    "character|char": re.compile(r"(?s)."),
    "item|element|entry": re.compile(r"[^,;\s]+"),
}
"""Names of a place in a text -> what is counted there."""


def blames_right_place(seen: CheckedFeedback) -> Hits:
    """It names a place by its number, or quotes it, and the attempt differs elsewhere."""
    placed = [one for one in seen.wrong if one.attempt.place is not None]
    for names, unit in _UNITS.items():
        named = [
            (one, _index(unit, one), {int(n) for s in _blaming(one) for n in _numbers_of(names, s)})
            for one in placed
        ]
        for base in (1, 0):  # people count from 1, programs from 0
            missed = [one for one, at, numbers in named if numbers and at + base not in numbers]
            if not missed:
                break
        else:
            yield from ((one, f"{_said(one)}, and another place is wrong") for one in missed)
    for one in placed:
        changed = _word_at(one.attempt.answer, one.attempt.place or 0)
        quoted = [s[start:end] for s in _blaming(one) for start, end in quotations(s)]
        known = [q for q in quoted if q in one.attempt.answer]
        right = [q for q in known if _has(one.question.problem.reference, q) and changed not in q]
        if right and len(right) == len(known):
            yield one, f"{_said(one)}, and {right[0]!r} is right there"


def no_text(seen: CheckedFeedback) -> Hits:
    """A wrong attempt without a word."""
    for one in seen.graded:
        if not one.first.correct and not one.first.text.strip():
            yield one, "it gets no text"


def raises(seen: CheckedFeedback) -> Hits:
    """An exception, or a value that is none of verl's."""
    for one in seen.attempts:
        if one.first.error and not (one.first.late or _not_finite(one)):
            yield one, one.first.error


def stalls(seen: CheckedFeedback) -> Hits:
    """No end within the time of a call."""
    calls = ((one, call) for one in seen.attempts for call in (one.first, one.second) if call)
    yield from ((one, call.error) for one, call in calls if call.late)


def calls_differ(seen: CheckedFeedback) -> Hits:
    """The second call on the same attempt had another outcome."""
    for one in seen.attempts:
        if one.second and not one.second.late:
            for name in ("error", "score", "correct", "text"):
                before, now = (str(getattr(call, name)) for call in (one.first, one.second))
                if before != now:
                    yield one, f"{name} {_quoted(before)}, then {_quoted(now)}"
                    break


def changes_arguments(seen: CheckedFeedback) -> Hits:
    """Later calls of an episode would get other arguments."""
    yield from (
        (one, "it changes extra_info") for one in seen.graded if one.first.changes_arguments
    )


def too_long(seen: CheckedFeedback) -> Hits:
    """Question and text do not fit one prompt."""
    for one in seen.wrong:
        room = seen.room - len(_asked(one))
        if len(one.first.text) > room:
            yield one, f"{len(one.first.text)} characters, and there is room for {max(0, room)}"


def carries_on(seen: CheckedFeedback) -> Hits:
    """The text has what an attempt says to the reader or to the chat template."""
    for one in seen.graded:
        text = one.first.text
        if ORDER in text or (CHAT_TOKENS.search(text) and CHAT_TOKENS.search(one.attempt.text)):
            yield one, _said(one)


def reference_wrong(seen: CheckedFeedback) -> Hits:
    """The right attempt is graded wrong."""
    for one in seen.graded:
        if one.attempt.kind == REFERENCE and not one.first.correct:
            yield one, f"it scores {one.first.score}"


def not_finite(seen: CheckedFeedback) -> Hits:
    """The score is NaN or infinite."""
    yield from ((one, f"it scores {one.first.score}") for one in seen.attempts if _not_finite(one))


def same_score(seen: CheckedFeedback) -> Hits:
    """Right and wrong attempts have one score."""
    scores = {str(one.first.score) for one in seen.graded}
    if len(scores) == 1 and {REFERENCE} < {one.attempt.kind for one in seen.graded}:
        yield from ((one, f"all score {one.first.score}") for one in seen.graded)


@dataclass(frozen=True)
class FeedbackRule:
    """A verdict."""

    name: str
    find: Callable[[CheckedFeedback], Hits]
    fix: str
    level: Level = "error"


RULES = (
    FeedbackRule("raises", raises, "catch it, and return a score and a text for every attempt"),
    FeedbackRule("stalls", stalls, "bound its work, whatever the attempt"),
    FeedbackRule("score not finite", not_finite, "return a number for every attempt"),
    FeedbackRule(
        "reference graded wrong",
        reference_wrong,
        "let it read the form that the prompt asks for, or correct the row",
    ),
    FeedbackRule(
        "score the same for all", same_score, "let a right attempt score more than a wrong one"
    ),
    FeedbackRule(
        "two calls differ", calls_differ, "let score and text depend on the arguments alone"
    ),
    FeedbackRule("changes its arguments", changes_arguments, "work on a copy"),
    FeedbackRule("no text", no_text, "say what is wrong with every wrong attempt, in `feedback`"),
    FeedbackRule(
        "says only right or wrong", only_verdict, "say where the attempt is wrong, or why"
    ),
    FeedbackRule(
        "same text whatever the attempt", same_text, "say what is wrong with this attempt"
    ),
    FeedbackRule(
        "same text for every attempt at a row",
        same_for_row,
        "say what is wrong with this attempt, unless the text tells a rule that rows share",
        "warning",
    ),
    FeedbackRule(
        "contradicts the grade", contradicts, "make text and score of the same comparison"
    ),
    FeedbackRule(
        "blames a place that is right",
        blames_right_place,
        "name the place where attempt and reference differ",
    ),
    FeedbackRule(
        "tells the answer",
        tells_answer,
        "say what is wrong, not what is right; or see docs/feedback_guard.md",
    ),
    FeedbackRule(
        "longer than the second prompt has room for",
        too_long,
        "cut it, or raise data.max_prompt_length",
    ),
    FeedbackRule(
        "carries the attempt's tokens or instructions on",
        carries_on,
        "quote only the answer that was read, and a few words of it",
    ),
)
"""In the order in which they are printed: a function that raises is corrected before its words."""


def findings_of(seen: CheckedFeedback, rules: Sequence[FeedbackRule] = RULES) -> list[Finding]:
    """A line for each verdict that holds: how often, an example, the fix."""
    found = []
    for rule in rules:
        hits = list(rule.find(seen))
        if hits:
            one, what = hits[0]
            num = len({id(hit) for hit, _ in hits})
            why = f"row {one.row}, {one.attempt.kind} {_quoted(one.attempt.text)}: {what}"
            found.append(
                Finding(rule.name, f"{num} of {len(seen.attempts)}", why, rule.fix, rule.level)
            )
    return found


def _asked(one: CheckedAttempt) -> str:
    return "\n".join(message["content"] for message in one.question.messages)


def _said(one: CheckedAttempt) -> str:
    return f"the text {_quoted(one.first.text)}"


def _quoted(text: str) -> str:
    return repr(one_line(text, SHOWN))


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_][\w']*", text.lower().replace("’", "'"))


def _has(text: str, passage: str) -> bool:
    """The passage stands in the text, word by word."""
    words = " ".join(tokens_of(passage))
    return bool(words) and f" {words} " in f" {' '.join(tokens_of(text))} "


def _own_words(one: CheckedAttempt) -> str:
    """The text without what it repeats of the attempt."""
    text = one.first.text
    for echo in (one.attempt.text.strip(), one.attempt.answer):
        text = text.replace(echo, "") if echo else text
    return text


def _number(text: str) -> Fraction | None:
    return as_number(undressed(text))


def _new_numbers(one: CheckedAttempt) -> set[Fraction]:
    """Numbers of the text that the question does not have, without their signs."""
    new = numbers_in(one.first.text) - numbers_in(_asked(one))
    return {abs(number) for number in new if number is not None}


def _praised(text: str) -> bool:
    return any(_PRAISE.match(sentence) for sentence in _SENTENCES.split(text))


def _blamed(text: str) -> bool:
    return _BLAME.search(_NOT_WRONG.sub("", text)) is not None


def _blaming(one: CheckedAttempt) -> list[str]:
    """Sentences that say that something is wrong."""
    return [s for s in _SENTENCES.split(one.first.text) if _blamed(s) and "right" not in s.lower()]


def _index(unit: re.Pattern[str], one: CheckedAttempt) -> int:
    """Which unit of the reference is changed, from 0."""
    place = one.attempt.place or 0
    return sum(match.end() <= place for match in unit.finditer(one.question.problem.reference))


def _numbers_of(names: str, sentence: str) -> list[str]:
    """The numbers of places with one of these names."""
    return re.findall(
        rf"\b(?:{names})s?\s+(?:no\.?|number|#)?\s*(\d{{1,4}})\b", sentence, re.IGNORECASE
    )


def _word_at(text: str, place: int) -> str:
    return next((m[0] for m in re.finditer(r"[^\W_]+", text) if m.start() <= place < m.end()), "")


def _not_finite(one: CheckedAttempt) -> bool:
    return isinstance(one.first.score, float) and not math.isfinite(one.first.score)
