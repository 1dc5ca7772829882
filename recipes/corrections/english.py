"""Does a user turn correct the answer before it? A table of rules for English; the first that
matches decides.

    rltf data corrections chats.jsonl --out data/mine --rule recipes/corrections/english.py:corrects
    python recipes/corrections/english.py     # how often they are right on labelled turns
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rltf_verl.texts import split_words

MOST_READ = 2000
"""Characters of a text in which the rules look: people object in the first lines."""
MOST_STATED = 40
"""Words of a turn that only states a fact; a longer one is a new text."""
REPEATED = 0.75
"""Share of a sentence's words that the question has too, if the sentence repeats the question."""
FEWEST_REPEATED = 3
"""Words that a question shares with the first question if it asks for the same."""

_STOP = frozenset(
    split_words(
        "a about actually all also am an and any are as asked at be been but by can could d did do"
        " does done for from give have has how i if in into is it its just like ll m me my need no"
        " not now of ok on one or our out please re right s said say should show so sorry still"
        " t tell that the their them then there these they this to ve want was we were what when"
        " where which who why will with would write yes you your"
    )
)
_QUOTED = re.compile(r'```.*?(?:```|\Z)|"[^"\n]*"|^>[ \t].*?$', re.DOTALL | re.MULTILINE)
"""Code, quotations and quoted lines: words of somebody else."""
_SENTENCE_END = re.compile(r"(?<=[.!?;\n])\s+")
_ASKS = (
    r"\?\W*\Z|\A(?:(?:and|ok|so|now|also)[,.]? )?(?:how|what|who|when|where|why|which|can|could"
    r"|would|will|is|are|do|does|did)\b(?! not\b)"
)
_ASKS_BACK = re.compile(r"\?\W*\Z|\b(?:let me know|tell me|send me|share|paste)\b[^.!?\n]*\W*\Z")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
# `thats`, `doesnt`, `youre`: up to where the apostrophe is missing
_LEFT_OUT = re.compile(
    r"\b(?:that(?=s\b)|(?:you|they)(?=(?:re|ve)\b)"
    r"|(?:do|does|did|is|are|was|were|has|have|had|should|would|could|ca|wo)n(?=t\b))"
)


class UserTurn(NamedTuple):
    """What a user says to an answer, in lower case."""

    question: str
    """The user's message before the answer."""
    answer: str
    text: str
    """Without code and quotations."""


def _words(text: str) -> set[str]:
    """Words that carry the meaning, without the `s` of a plural."""
    found = re.findall(r"[^\W\d_]+|\d+", text)
    return {word if len(word) < 4 else word.removesuffix("s") for word in found} - _STOP


def _said(*patterns: str) -> Callable[[UserTurn], object]:
    pattern = re.compile("|".join(patterns), re.DOTALL)
    return lambda turn: pattern.search(turn.text)


def _replies(turn: UserTurn) -> bool:
    """The answer ended with a question or a request of the assistant."""
    return bool(_ASKS_BACK.search(_CODE.sub("", turn.answer)))


def _asks_alike(turn: UserTurn) -> bool:
    """A sentence asks with the question's words for something with other numbers."""
    numbers = set(re.findall(r"\d+", turn.question + turn.answer))
    return any(
        {*re.findall(r"\d+", one)} - numbers
        and len(_words(one) & _words(turn.question)) >= FEWEST_REPEATED
        and (re.search(_ASKS, one) or one.split()[:1] == turn.question.split()[:1])
        for one in _SENTENCE_END.split(turn.text)
    )


def _repeats(turn: UserTurn) -> bool:
    """A sentence has the question's words."""
    asked = _words(turn.question)
    return any(
        len(_words(one) & asked)
        >= max(FEWEST_REPEATED if re.search(_ASKS, one) else 1, REPEATED * len(_words(one)))
        for one in _SENTENCE_END.split(turn.text)
    )


# A statement that does not begin with the user or with something to do.
_STATES = re.compile(
    r"\A(?!(?:i|i'm|i've|i'd|i'll|my|we|let|let's|now|and|also|then|here|use|add|give|turn|he|she"
    r"|please|ok|okay|done|oh|so|right|great|wonderful|thanks)\b)"
    r".*(?:[=<>]|\w's\b|n't\b|\b(?:is|are|was|were|has|have|had|means?|contains?|needs?|computes?"
    r"|returns?|won|did|does|only)\b)",
    re.DOTALL,
)


def _disputes(turn: UserTurn) -> bool:
    """A short statement about what the answer or the question speaks of."""
    topic = _words(turn.question) | _words(turn.answer)
    states = len(turn.text.split()) <= MOST_STATED and _STATES.search(turn.text)
    return bool(states and _words(turn.text) & topic)


_IT = r"(?:that|this|it|which|they|those|these|(?:the|your) \w+)"
_BE = r"(?:'s|'re| is| are| was| were| looks?| sounds?| seems?)"
_NOT = r"(?:n't| not| never)"
_VERY = r"(?: just| still| also| all| completely| totally| simply| clearly| a bit| way| far| much)*"

# Name, verdict, and what a turn matches.
RULES: tuple[tuple[str, bool, Callable[[UserTurn], object]], ...] = (
    ("only code or a quotation", False, _said(r"\A\Z")),
    (
        "nothing to correct",
        False,
        _said(
            r"\A(?:no+|nope|not an?|no, not an?)[,.]? (?:problem|worries|thank|thx|need|complaint"
            r"|change|(?:more |other |further )?question|idea|doubt|(?:that|this)(?:'s| is| was)"
            r" (?:all|it|fine|ok|perfect|great|good|everything|exactly))",
            r"\bnever ?mind\b|\b(?:another|different|new) (?:topic|question|subject)"
            r"|\bsomething else\b",
        ),
    ),
    (
        "the user's own mistake",
        False,
        _said(
            r"\b(?:i|sorry,?) (?:also |just |totally |completely )?forgot\b|\bmistyped\b"
            r"|\bmy (?:bad|mistake|fault|typo)\b|\A\*\w+\W*\Z"
            r"|\b(?:sorry|oops|typo|oh|ah|wait)\b[,.:;!]*(?: no| wait)*,? i (?:mean|meant|wanted)\b"
            r"(?!.*\bnot\b)"
            r"|\bi should(?:'ve| have) (?:said|written|asked|told)\b"
            r"|\bi (?:gave|got|wrote|typed|put) .{0,20}\b(?:wrong|but i (?:need|want|mean))\b"
        ),
    ),
    (
        "an earlier answer",
        False,
        _said(
            r"\A(?:(?:ok|so|and|but|now|wait),? )*(?:(?:going|coming) )?back to (?:the|my|your)\b"
            r"|\A(?:regarding|about|as for) (?:question|(?:the|my|your) .{1,30}\bagain\b)",
            r"\b(?:from|gave me|gave|said|wrote|sent|told me) (?:before|earlier|previously)\b"
            r"|\b(?:earlier|(?:the|your|that) (?:first|second|previous)) (?:answer|message|reply"
            r"|question|calculation)\b(?!.*\bbetter\b)",
        ),
    ),
    (
        "you failed",
        True,
        _said(
            r"\byou(?:'ve| have)?"
            + _VERY
            + r" (?:forg[eo]t|forgotten|miss(?:ed)?|left out|ignored?"
            r"|misread|misunderst\w+|mix(?:ed)? up|mixed|confus\w+|overlook\w*|skipp?e?d?|dropped"
            r"|omitted|(?:over|mis)\w+ed|made (?:a|an|the|some) (?:\w+ )?(?:mistake|error)s?"
            r"|didn't|did not|haven't"
            r"|have not|keep|were supposed|should(?:n't| not| be| have)|spell?ed|misspell?ed)\b",
            r"\byou(?:'re| are| were)" + _VERY + r" (?:wrong|mistaken|incorrect|missing|confus\w+)",
            r"\byou(?:'ve| have)? (?:got|have|gave)\b.{0,60}\b(?:wrong|backwards?|mixed up)\b",
            r"\byou (?:left|put) .{1,40} (?:out|in)\b",
        ),
    ),
    (
        "that is wrong",
        True,
        _said(
            rf"\b{_IT}(?:{_BE}|'s got| can| could| must){_VERY}(?:{_NOT})?{_VERY}(?: be)? ?"
            r"(?:wrong|incorrect|false|untrue|outdated|deprecated|nonsense|off by)\b",
            rf"\b{_IT}(?:{_BE}{_NOT}?|{_BE}? ?isn't|{_BE}? ?aren't| can't be| cannot be){_VERY} ?"
            r"(?<=n't |not )(?:right|correct|true|what|how|quite|an?|even|the|our)\b",
            rf"\b{_IT}{_NOT}? (?:doesn't|does not|didn't|did not) (?:answer|help)",
            r"\b(?:can't|cannot|couldn't) be (?:right|correct|true)\b",
            r"\Awrong(?: \w+){1,3}\W*\Z"
            r"|\b(?:swapped|reversed|back to front|(?:other|wrong) way (?:a?round|up))\b",
            # "that's feet", but no praise
            r"\Athat(?:'s| is) (?!(?:an?|all|actually|absolutely|pretty|super|hard"
            r"|fine|fun|funny|fair|ok|okay|good|great|better|best|it"
            r"|right|correct|true|what|why|how|so|very|really|my|our|the one|me|more like it|enough"
            r"|perfect|cool|cute|sweet|neat|nice|lovely|sad|hilarious|exactly|not"
            r"|\w+(?:ful|ant|ous|(?<!miss)ing|ive|ible|able|tastic|liant))\b)[a-z]+",
        ),
    ),
    (
        "I asked for another",
        True,
        _said(
            r"(?<!exactly what )\bi (?:(?:specifically|explicitly|clearly|only|just|actually"
            r"|already) )?(?:asked|said|told|specified|wanted|requested|meant|mean)\b"
            r"(?! (?:to ask|him|her|them|my|is|are|can|does|how)\b)",
            r"\b(?:as|like|(?<!exactly )what|which|than) i (?:asked|said|wanted|meant|told"
            r"|requested)\b",
            r"\bnot what i\b",
        ),
    ),
    (
        "doubts",
        True,
        _said(
            r"\bare you (?:really |absolutely )?sure\b",
            r"\A(?:but |hmm+,? |wait,? )*(?:isn't|aren't|wasn't|shouldn't|doesn't|didn't) "
            r"(?:it|that|this|they|the)\b",
            r"\bi don't (?:think|believe) (?:that|this|it)(?:'s| is) (?:right|correct|true)\b",
            r"(?:\bsurely|, (?:no|remember))\?",
        ),
    ),
    (
        "thanks or praise",
        False,
        _said(
            r"\A(?!.*(?:\b(?:but|however|though|although|yet|except|still|unfortunately"
            r"|(?:lol|haha?|wow),? no)\b|n't\b))"
            r".*\b(?:thanks?|thank (?:you|u)|thx|ty\b|great\b|perfect(?:ly)?|awesome|amazing"
            r"|brilliant|excellent|love|nice|beautiful|delicious|helpful|interesting|finally|lol|haha?|wow"
            r"|got it|makes sense|good (?:one|to know|job|idea)|looks good|(?:it )?work(?:s|ed)"
            r"|exactly (?:right|what)|i see|you(?:'re| are| were) right|that's (?:right|correct|it)"
            r"|not bad|as i expected|it is!)"
        ),
    ),
    ("replies to a question", False, _replies),
    (
        "again",
        True,
        _said(
            r"\b(?:try|check|count|look|read|do|do it|compute|calculate|think|solve|fix)"
            r"(?: it| that| this)? again\b",
            r"\Aagain\b(?!,? thank)|\b(?:redo|recheck|double[- ]check|recount)\b",
        ),
    ),
    (
        "in another style",
        True,
        _said(
            r"\A(?:(?:now|ok|and|but|please)[,.]? )*"
            r"(?:(?:make|say|write|put|keep) (?:it|that|this) )?(?:(?:a (?:bit|little)|much) )?(?:"
            # not "much better", not "more jokes"
            r"(?!(?:an)?other|\w*ever\b|later|better|super|cheer)[a-z]{3,}er"
            r"|more [a-z]+(?:al|ed|se|ly|le|ful|ic|nt|ct)|(?:less|too|not so) (?!of\b)[a-z]+"
            r"|in (?:plain|simple|short|full|one|two|\d+) [a-z]+|in [a-z ]{3,20} (?=please|pls)"
            r"|as (?:an? [a-z ]{3,20}|json|bullet \w+)|no (?:[a-z]+ )?[a-z]+s"
            r"|(?:without|use) (?!(?:it|that|this)\b)[a-z]+(?: [a-z]+)?"
            r"|eli5|tl;?dr|english)(?:,? (?:please|pls|max .*))?\W*\Z",
            r"\A(?:but )?please (?:use|don't|do not|stop|avoid|remove|keep)",
        ),
    ),
    ("asks for another one", False, _asks_alike),
    ("repeats the question", True, _repeats),
    ("asks something else", False, _said(_ASKS)),
    (
        "no, …",
        True,
        _said(
            r"\A(?:lol,? |haha?,? |wow,? |hmm+,? |um+,? |well,? |wait,? |sorry,? )*"
            r"(?:no+|nope|nah|false|incorrect|wrong|not (?:quite|right|true|correct|really|like))"
            r"(?:\Z|[,.!:;]| (?:it|that|this|you|the|i|they|chapter|\w+\Z))"
        ),
    ),
    (
        "not X but Y",
        True,
        _said(
            r"\w(?<!why),? (?:and )?not (?!sure|only|bad|yet|to )"
            r"(?:an? |the )?\w+[.!]*\Z|\b(?:instead|rather) (?:of|than)\b"
        ),
    ),
    (
        "should be",
        True,
        _said(
            # "also" and "too" ask for more
            r"\A(?!.*\b(?:too|as well)\b)"
            r".*\b(?:it|that|this|they|there|you|(?:the|your) [\w ]{1,40}) "
            r"(?:should|must|needs? to|has to|ought to)(?: not|n't)? (?!also|be (?:fine|ok|enough))"
        ),
    ),
    (
        "too much or too little",
        True,
        _said(
            rf"(?:\A|\b{_IT}{_BE}){_VERY} ?too \w+|\b(?:way|far|much) (?:too|over|more|less)\b"
            rf"|\b{_IT}{_BE} even (?:more|less|worse)\b"
        ),
    ),
    (
        "but, still",
        True,
        _said(
            r"\A(?:but |it |it's |this |this is |that's |they |both )*still\b",
            rf"\b{_IT}(?:'s| is| are)? still\b",
            r"\A(?:ha,? )?(?:thanks?|thank you|nice|great|good|ok(?:ay)?|cool)\b.{0,40}\bbut\b",
        ),
    ),
    (
        "it fails",
        True,
        _said(
            r"\b(?:that|this|it|which|your \w+)(?: \w+)? (?:doesn't|does not|don't|didn't|won't"
            r"|isn't|aren't|can't)\b",
            rf"\b{_IT}(?: \w+)? (?:fails?|failed|breaks?|broke|crash\w*|deletes|deleted|removes"
            r"|overwrites|sorts|mixes|skips"
            r"|comes across|throws?|raises?|returns|changed|matches)\b",
            r"\A(?:doesn't|does not|won't|didn't|fails|not)"
            r" (?:work|fit|compile|run|match|help|use)",
            r"\bi (?:don't|only|still) (?:get|see)\b|\bi(?:'m)? (?:get|getting|got|see|count)"
            r" (?:an? \w*(?:error|exception)|nothing|only|the same|\d)"
            r"|\A\w*(?:error|exception):|\bnothing (?:changed|happen(?:s|ed))\b",
        ),
    ),
    (
        "our way",
        True,
        _said(
            r"\bwe (?:never|always|don't|do not|only) (?:put|write|use|say|call|spell|add|start"
            r"|abbreviate|round|include|have the)\b"
        ),
    ),
    ("disputes the answer", True, _disputes),
    ("no rule matches", False, _said("")),
)


def corrects(question: str, answer: str, reply: str) -> tuple[bool, str]:
    """True if a user's words correct an answer, and the name of the first rule that matches them.

    Args:
        question: the user's message before the answer.
        answer: the assistant's.
        reply: the user's next message.
    """
    question, answer, reply = (
        one[:MOST_READ].replace("\u2019", "'").lower() for one in (question, answer, reply)
    )
    reply = _LEFT_OUT.sub(r"\g<0>'", reply)
    turn = UserTurn(question, answer, _QUOTED.sub(" ", reply).strip())
    return next((verdict, name) for name, verdict, matches in RULES if matches(turn))


def main() -> None:
    lines = Path(__file__).with_name("turns.jsonl").read_text("utf-8").splitlines()
    turns = [json.loads(line) for line in lines]
    for part in dict.fromkeys(turn["part"] for turn in turns):
        of = [turn for turn in turns if turn["part"] == part]
        taken = [corrects(turn["question"], turn["answer"], turn["turn"])[0] for turn in of]
        right = sum(one for one, turn in zip(taken, of, strict=True) if turn["corrected"])
        given = sum(turn["corrected"] for turn in of)
        print(
            f"{part}: {right} of {given} corrections found,"
            f" {sum(taken) - right} of {len(of) - given} other turns taken"
        )


if __name__ == "__main__":
    main()
