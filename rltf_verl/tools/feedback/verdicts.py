"""Faults of feedback: one table, one function per verdict."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from rltf_verl.envs.base import Env
from rltf_verl.envs.calls import graded_part
from rltf_verl.envs.text.number_words import as_number, spell_digits
from rltf_verl.feedback.guard.equality import tokens_of
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.feedback.guard.spans import numbers_in, quotations, undressed
from rltf_verl.findings import Finding
from rltf_verl.texts import CHAT_TOKENS, one_line
from rltf_verl.tools.feedback.attempts import ORDER, REFERENCE, CheckedAttempt

MOST_READ = 2000
"""Characters of a text in which the leak guard looks for the answer: its time grows faster."""
SHOWN = 100
"""Characters of a text that a verdict quotes."""


@dataclass(frozen=True)
class CheckedFeedback:
    """All that is known of one feedback function."""

    env: Env
    """The leak guard asks it."""
    attempts: Sequence[CheckedAttempt]
    room: float = math.inf
    """Characters of a second prompt."""
    tells_answer: bool = False
    """It is meant to."""
    constant: bool = False
    """It is meant to be the same sentence."""

    @property
    def wrong(self) -> list[CheckedAttempt]:
        """Attempts that are graded wrong and have a text."""
        return [one for one in self.attempts if one.first.is_wrong and one.first.text.strip()]

    @property
    def has_answers(self) -> bool:
        """Attempts are made of answers, and not of what answers are held against."""
        references = [one for one in self.attempts if one.attempt.kind == REFERENCE]
        return not references or not all(map(_is_specification, references))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()) or text.split())


Hits = Iterator[tuple[CheckedAttempt, str]]
"""Attempts, with what is wrong at them."""


def raises(one: CheckedAttempt) -> str:
    """The function raised, or returned a value that verl refuses."""
    return "" if one.first.late or not_finite(one) else one.first.error


def stalls(one: CheckedAttempt) -> str:
    """No end within the time of a call."""
    return one.calls[-1].error if one.calls[-1].late else ""


def not_finite(one: CheckedAttempt) -> str:
    """The score is NaN or infinite."""
    score = one.first.score
    return f"it scores {score}" if isinstance(score, float) and not math.isfinite(score) else ""


def reference_wrong(one: CheckedAttempt) -> str:
    """The right attempt is graded wrong."""
    is_wrong = one.attempt.kind == REFERENCE and one.first.is_wrong
    return f"it scores {one.first.score}" if is_wrong and not _is_specification(one) else ""


def _is_specification(one: CheckedAttempt) -> bool:
    """The right attempt is wrong, and its reference a JSON object that the prompt does not ask for:
    tests or numbers to use, say.
    """
    is_object = one.reference.lstrip().startswith("{")
    return is_object and not one.first.correct and "json" not in _asked(one).lower()


def calls_differ(one: CheckedAttempt) -> str:
    """The second call on the same attempt had another outcome."""
    first, last = one.first, one.calls[-1]
    for name in ("score", "text", "error") if not last.late else ():
        before, after = str(getattr(first, name)), str(getattr(last, name))
        if before != after:
            return f"{name} {quoted(before)}, then {name} {quoted(after)}"
    return ""


def no_text(one: CheckedAttempt) -> str:
    """A wrong attempt without a word."""
    return "it gets no text" if one.first.is_wrong and not one.first.text.strip() else ""


def contradicts(one: CheckedAttempt) -> str:
    """Praise of a wrong attempt, or blame of a right one, and nothing else."""
    praised = any(map(_praises, _SENTENCES.split(one.first.text)))
    # an attempt that states the answer may be wrong in its form only
    is_form = not one.first.correct and _has(one.attempt.text, one.reference)
    # left are praise without blame of a wrong attempt, and blame without praise of a right one
    if one.first.error or is_form or praised in (_blamed(one.first.text), one.first.correct):
        return ""
    return f"graded {'right' if one.first.correct else 'wrong'}, and {_said(one)}"


def carries_on(one: CheckedAttempt) -> str:
    """The text has what an attempt says to the reader or to the chat template."""
    text = one.first.text
    tokens = CHAT_TOKENS.search(text) and CHAT_TOKENS.search(one.attempt.text)
    return _said(one) if ORDER in text or tokens else ""


def same_score(seen: CheckedFeedback) -> Hits:
    """Right and wrong attempts have one score, but for those without an answer."""
    kinds = (REFERENCE, "one place changed", "another row's reference")
    graded = [one for one in seen.attempts if not one.first.error and one.attempt.kind in kinds]
    # a proper subset: the reference and something else
    several = {REFERENCE} < {one.attempt.kind for one in graded}
    if several and seen.has_answers and len({str(one.first.score) for one in graded}) == 1:
        yield from ((one, f"all score {one.first.score}") for one in graded)


PRAISE = _words("correct right perfect flawless excellent accepted done good nice great")
FILLER = _words(
    "that this it which everything s is was your the final previous last answer attempt solution"
    " response reply result output code program number value looks seems you re are were got yes"
    " all well now entirely completely absolutely indeed exactly quite job work student query"
)
"""A sentence of these and a word of `PRAISE` praises, and does nothing else."""
_BLAME = (
    "incorrect|wrong|mistake|mistaken|mistakes|missing|should|must|check|fix|unfortunately|sorry"
    "|doesn't|does not|not quite|not correct|not right|not accepted|isn't correct|isn't right"
    "|try again|off by|too large|too small|too high|too low|too big|too long|too short|too late"
    "|too early|mismatch|swapped|misplaced|failed|not it|not the|not what"
)
BLAME = set(_BLAME.split("|"))
"""Words, and pairs of words, that say that something is wrong."""
DENIABLE = {"wrong", "mistake", "mistakes", "missing"}
DENIALS = {"no", "not", "nothing", "without", "never", "none", "isn't"}
"""One of these up to three words before a word of `DENIABLE`: it blames nothing."""
_AS_IT_SHOULD = re.compile(r"\b(?:as|where) \w+ (?:should|must)\b", re.IGNORECASE)
# praise of a place too, and a program's exception or traceback: it seldom stops where it is wrong
_NO_PLACE = re.compile(r"(?i:right)|\w(?:Error|Exception)\b|\bFile \".*\", line \d")
# ends of sentences: a mark and a blank, a new line, a comma before `but` or `and`, a dash between
# blanks
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n+|,\s+(?=but\b|and\b)|\s[-–—]\s")


def same_text(seen: CheckedFeedback) -> Hits:
    """At each row one text for all wrong attempts, but for what it repeats of them."""
    rows: dict[int, list[CheckedAttempt]] = defaultdict(list)
    for one in seen.wrong:
        rows[one.row].append(one)
    # a row with one readable attempt has nothing to compare
    several = [row for row in rows.values() if sum(one.first.readable for one in row) > 1]
    is_fine = seen.constant or seen.tells_answer or not seen.has_answers
    if several and not is_fine and all(map(_is_constant, several)):
        yield from ((one, _said(one)) for one in seen.wrong)


def _is_constant(attempts: Sequence[CheckedAttempt]) -> bool:
    """True if texts differ only in words copied from their attempts."""
    shared = set.intersection(*(_words(one.first.text) for one in attempts))
    return all(_news(one) <= shared for one in attempts)


VERDICT_WORDS = _words(
    "your the this that it a an my you i as there previous last first final answer attempt"
    " solution response result output is was are be isn wasn t s not no yes nope quite correct"
    " incorrect right wrong false true good bad sorry unfortunately please let now and but still"
    " try again once more pass passed fail failed score reward grade verdict feedback graded"
    " rejected accepted invalid does did match matches expected reference ground truth one to of"
    " 0 1"
)
"""A text of these says right or wrong and no more."""


def only_verdict(seen: CheckedFeedback) -> Hits:
    """Most texts only say that the attempt is wrong."""
    # a text of numbers and signs may be a code, like marks of cells
    talk = [one for one in seen.wrong if re.search(r"[^\W\d_]", one.first.text)]
    bare = [one for one in talk if _news(one) <= VERDICT_WORDS]
    if not seen.constant and 2 * len(bare) > len(seen.wrong):
        yield from ((one, _said(one)) for one in bare)


def too_long(seen: CheckedFeedback) -> Hits:
    """Question and text do not fit one prompt."""
    for one in seen.wrong:
        size, room = len(one.first.text), max(0, seen.room - len(_asked(one)))
        if size > room:
            yield one, f"{size} characters, and there is room for {room:.0f}"


def tells_answer(seen: CheckedFeedback) -> Hits:
    """The text has the answer, or a number that makes it of the attempt's."""
    if seen.tells_answer:
        return
    for one in seen.wrong:
        problem, said, text = one.question.problem, one.attempt.text, _ends(one.first.text)
        is_news = not _has(said, problem.reference) and not _said_elsewhere(seen, one)
        for leak in find_leaks(seen.env, problem, text, said)[:1] if is_news else ():
            yield one, f"{_said(one)} has {leak.verdict(text)}"
    if not seen.env.finds_candidates:  # which knows where its answer is told
        yield from _stated(seen)
    yield from _by_arithmetic(seen)


def _said_elsewhere(seen: CheckedFeedback, one: CheckedAttempt) -> bool:
    """A row with another answer gets the same text: what it has of this row's is chance."""
    reference, text = one.reference, one.first.text
    return any(other.first.text == text and other.reference != reference for other in seen.wrong)


def _stated(seen: CheckedFeedback) -> Hits:
    """Texts that have their own row's reference more often than any other row's: no chance."""
    answers = {r: {r, *_fields(r).values()} for r in (one.reference for one in seen.attempts)}
    own, foreign = list[tuple[CheckedAttempt, str]](), 0
    for one in seen.wrong:
        known, right = f"{_asked(one)}\n{one.attempt.text}", answers[one.reference]
        # what the question or the attempt says the feedback may repeat, but for what it lacks there
        told = {a for a in set().union(*answers.values()) if _has(one.first.text, a)}
        news = {a for a in told if not _has(known, a) or a in _wrong_fields(one).values()}
        own += [(one, f"{_said(one)} has {answer!r}") for answer in sorted(news & right)[:1]]
        foreign += len(news - right)
    if len({one.row for one, _ in own}) > 1 and len(own) > foreign:
        yield from own


WAYS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "the difference of attempt and answer": lambda right, said: abs(right - said),
    # an attempt of 0 has no quotient: it counts as 1
    "the quotient of answer and attempt": lambda right, said: right / (said or right),
    "the error in per cent": lambda right, said: Fraction(round(100 * abs(said / right - 1))),
}


def _by_arithmetic(seen: CheckedFeedback) -> Hits:
    """Different numbers for different attempts, each of which makes the answer of the attempt."""
    said = [
        (as_number(undressed(one.reference)), as_number(undressed(one.attempt.answer)), one)
        for one in seen.wrong
    ]
    for way, number in WAYS.items():
        # an answer of 0 makes every difference the attempt itself
        pairs = [(number(r, s), one) for r, s, one in said if r and s is not None]
        # a text may round it
        hits = [(n, one) for n, one in pairs if {n, round(n, 2)} & _new_numbers(one)]
        # most of them, and not one number by chance
        if 2 * len(hits) > len(pairs) and len({n for n, _ in hits}) > 1:
            yield from ((one, f"{_said(one)} has {way}") for _, one in hits)


_LINES, _ITEMS, _SIGNS = r"[^\n]+", r"[^,;\s]+", r"(?s)."
_UNITS = {
    "line|row|step": (_LINES, r"\n"),
    "word|token": (r"\S+",),
    "digit": (r"\d",),
    "letter": (r"[^\W\d_]",),
    "character|char": (_SIGNS,),
    "item|element|entry": (_ITEMS,),
    "position|place|index": (_LINES, _ITEMS, r"\d", _SIGNS),
}
"""Names of a place in a text -> patterns of what may be counted; lines with and without empty
ones."""
OFFSETS = (1, 0, 2)
"""Added to a count from 0: people count from 1, programs from 0, and line 1 may be a fence."""


def blames_right_place(seen: CheckedFeedback) -> Hits:
    """It names a place by its number, or quotes it, and the attempt differs elsewhere."""
    placed = [one for one in seen.wrong if one.attempt.place is not None and seen.has_answers]
    for names, units in _UNITS.items():
        named = {one: numbers for one in placed if (numbers := _places(names, one))}
        for one in _never_named(named, units):
            yield one, f"{_said(one)}, and another place is wrong"
    for one in placed:
        # a quote is right if it does not touch a word that was changed
        quotes = _quoted_of_attempt(one)
        changed = _words(one.attempt.answer) - _words(one.reference)
        changed |= {text.lower() for field in _wrong_fields(one).items() for text in field}
        if quotes and not any(q in w or w in q for q in map(str.lower, quotes) for w in changed):
            yield one, f"{_said(one)}, and {quotes[0]!r} is right there"


def _never_named(
    named: Mapping[CheckedAttempt, set[int]], units: Sequence[str]
) -> list[CheckedAttempt]:
    """Attempts whose wrong place is not among the named numbers, whatever is counted and from
    whatever number on; none if a way to count fits all attempts.
    """
    first: list[CheckedAttempt] = []
    for unit in units:
        places = {one: _index(unit, one) for one in named}
        if len(set(places.values())) < 2:  # it tells no places apart
            continue
        for offset in OFFSETS:
            missed = [one for one, numbers in named.items() if places[one] + offset not in numbers]
            if not missed:
                return []
            first = first or missed
    return first


def _quoted_of_attempt(one: CheckedAttempt) -> list[str]:
    """Quotes from the attempt's answer in sentences that blame."""
    said = one.attempt.answer
    return [s[a:b] for s in _blaming(one) for a, b in quotations(s) if s[a:b] in said]


def _wrong_fields(one: CheckedAttempt) -> dict[str, str]:
    """Keys of JSON objects at which attempt and reference differ, with the reference's values."""
    said, right = _fields(one.attempt.answer), _fields(one.reference)
    keys = said | right if said else {}
    return {key: right.get(key, key) for key in keys if said.get(key) != right.get(key)}


@lru_cache(maxsize=1024)
def _fields(text: str) -> dict[str, str]:
    """The fields of a JSON object; empty for any other text."""
    try:
        return {key: str(value) for key, value in json.loads(text).items()}
    except (ValueError, AttributeError, RecursionError):
        return {}


def at_each(what: Callable[[CheckedAttempt], str]) -> Callable[[CheckedFeedback], Hits]:
    """A verdict about each attempt alone, which says what is wrong there."""
    return lambda seen: ((one, text) for one in seen.attempts if (text := what(one)))


@dataclass(frozen=True)
class FeedbackRule:
    """A fault, its test, and its fix."""

    name: str
    find: Callable[[CheckedFeedback], Hits]
    fix: str


FAULTS = (
    FeedbackRule(
        "raises",
        at_each(raises),
        "return a score and a text for every attempt, and let nothing raise",
    ),
    FeedbackRule(
        "stalls",
        at_each(stalls),
        "bound its work, whatever the attempt",
    ),
    FeedbackRule(
        "score not finite",
        at_each(not_finite),
        "return a number for every attempt",
    ),
    FeedbackRule(
        "reference graded wrong",
        at_each(reference_wrong),
        "let it read the form that the prompt asks for, or correct the row",
    ),
    FeedbackRule(
        "score the same for all",
        same_score,
        "let a right attempt score more than a wrong one",
    ),
    FeedbackRule(
        "two calls differ",
        at_each(calls_differ),
        "let score and text depend on the arguments alone, and leave those as they are",
    ),
    FeedbackRule(
        "no text",
        at_each(no_text),
        "say what is wrong with every wrong attempt, in `feedback`",
    ),
    FeedbackRule(
        "says only right or wrong",
        only_verdict,
        "say where the attempt is wrong, or why",
    ),
    FeedbackRule(
        "same text whatever the attempt",
        same_text,
        "say what is wrong with this attempt",
    ),
    FeedbackRule(
        "contradicts the grade",
        at_each(contradicts),
        "make text and score of the same comparison",
    ),
    FeedbackRule(
        "blames a place that is right",
        blames_right_place,
        "name the place where attempt and reference differ",
    ),
    FeedbackRule(
        "tells the answer",
        tells_answer,
        "say what is wrong, not what is right; or see docs/feedback.md",
    ),
    FeedbackRule(
        "longer than the second prompt has room for",
        too_long,
        "cut it, or raise data.max_prompt_length",
    ),
    FeedbackRule(
        "carries the attempt's tokens or instructions on",
        at_each(carries_on),
        "quote only the answer that was read, and a few words of it",
    ),
)
"""In the order in which they are printed: a function that raises is corrected before its words."""


def findings_of(seen: CheckedFeedback, rules: Sequence[FeedbackRule] = FAULTS) -> list[Finding]:
    """A line for each verdict that holds: how often, an example, the fix."""
    found = []
    for rule in rules:
        hits = list(rule.find(seen))
        if hits:
            one, what = hits[0]
            index, attempt = one.question.problem.index, one.attempt
            why = f"problem {index}, {attempt.kind} {quoted(attempt.text)}: {what}"
            num = len({id(hit) for hit, _ in hits})
            found.append(Finding(rule.name, f"{num} of {len(seen.attempts)}", why, rule.fix))
    return found


def _asked(one: CheckedAttempt) -> str:
    return graded_part("\n".join(message["content"] for message in one.question.messages))


def _ends(text: str) -> str:
    """The part that the leak guard reads in milliseconds."""
    if len(text) <= MOST_READ:
        return text
    return f"{text[: MOST_READ // 2]}\n{text[-MOST_READ // 2 :]}"


def _said(one: CheckedAttempt) -> str:
    return f"the text {quoted(one.first.text)}"


def quoted(text: str) -> str:
    return repr(one_line(text, SHOWN))


def _has(text: str, passage: str) -> bool:
    """The text has the passage, word by word."""
    return bool(_spelt(passage).strip()) and _spelt(passage) in _spelt(text)


@lru_cache(maxsize=1024)
def _spelt(text: str) -> str:
    return f" {' '.join(tokens_of(_ends(text)))} "


def _news(one: CheckedAttempt) -> set[str]:
    """Words of the text, without the attempt if all of it is repeated, or a hostile one in part."""
    words, answer, attempt = _words(one.first.text), _words(one.attempt.answer), one.attempt.text
    if answer:
        return words - answer if answer <= words else words
    return {word for word in words if word not in attempt.lower()}


def _new_numbers(one: CheckedAttempt) -> set[Fraction]:
    """Numbers of the text that the question does not have, without their signs."""
    return {abs(n) for n in numbers_in(_ends(one.first.text)) - numbers_in(_asked(one)) if n}


def _praises(sentence: str) -> bool:
    words = _words(sentence)
    return bool(words & PRAISE) and words <= PRAISE | FILLER


def only_praises(text: str) -> bool:
    """Praise, without a word of blame."""
    return any(map(_praises, _SENTENCES.split(text))) and not _blamed(text)


def _blamed(text: str) -> bool:
    words = re.findall(r"[\w']+", _AS_IT_SHOULD.sub("", text).lower())
    for k, word in enumerate(words):
        before = words[max(0, k - 3) : k]
        denied = word in DENIABLE and not DENIALS.isdisjoint(before)
        # `not quite` is a pair of BLAME, `wrong` a word
        if not denied and BLAME & {word, " ".join([*before[-1:], word])}:
            return True
    return False


def _blaming(one: CheckedAttempt) -> list[str]:
    """Sentences that say that something is wrong."""
    return [
        s for s in _SENTENCES.split(_ends(one.first.text)) if _blamed(s) and not _NO_PLACE.search(s)
    ]


def _index(unit: str, one: CheckedAttempt) -> int:
    """Index of the reference's changed unit, from 0."""
    # units that end before the changed character
    return sum(m.end() <= (one.attempt.place or 0) for m in re.finditer(unit, one.reference))


def _places(names: str, one: CheckedAttempt) -> set[int]:
    """The numbers of blamed places with one of these names: `line 2`, `the second line`."""
    text = "\n".join(map(spell_digits, _blaming(one)))
    # `line 2`, `lines 2`; `2nd line`, which `spell_digits` makes of `the second line`
    number = r"(?:number\s+|no\.?\s+|#)?(\d{1,4})\b"
    pattern = rf"\b(?:{names})s?\s+{number}|\b(\d{{1,4}})(?:st|nd|rd|th)\s+(?:{names})\b"
    return {int(a or b) for a, b in re.findall(pattern, text, re.IGNORECASE)}
