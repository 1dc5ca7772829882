"""How feedback on `math` is worded: `direct` gives the answer as it is, `paraphrased` in a sentence
or in another form of the same value, `spelled` in words, `partial` one of several values, `oblique`
lets the reader work it out.

Both halves were written before their author had read the rules. By `KNOWN` the rules were then
mended; `HELD_OUT` was measured, and only its direct leaks that were missed and one false positive
were mended in the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.leak_texts.common import Wordings
from benchmarks.leak_texts.math_problems import Case

NUM = {
    "direct": 120,
    "paraphrased": 70,
    "spelled": 60,
    "partial": 20,
    "oblique": 15,
    "innocent": 240,
}
_SMALL = (  # noqa: SIM905  # as a list it would be a word a line
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
).split()
_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905  # as a list it would be a word a line

Make = Callable[[Case], str]


def spell(n: int) -> str:
    """A whole number below a million in words."""
    if n < 0:
        return f"minus {spell(-n)}"
    if n < 20:
        return _SMALL[n]
    if n < 100:
        return _TENS[n // 10] + (f"-{_SMALL[n % 10]}" if n % 10 else "")
    size, name = (100, "hundred") if n < 1000 else (1000, "thousand")
    rest = f" {spell(n % size)}" if n % size else ""
    return f"{spell(n // size)} {name}{rest}"


def say(form: str) -> Make:
    """The form filled in; empty if it needs what the problem has not."""

    def make(c: Case) -> str:
        if "{part}" in form and not c.item.part:
            return ""
        other = c.rng.choice((c.item.answer, *c.item.same))
        return fill(form, c, other=other)

    return make


def fill(form: str, c: Case, **more: str) -> str:
    """The form with the problem's values in place of `{name}`."""
    item, numbers = c.item, re.findall(r"\d+", c.item.question) or ["1"]
    values = {
        "answer": item.answer,
        "wrong": item.wrong,
        "step": item.step,
        "about": item.about,
        "part": item.part,
        "given": c.rng.choice(numbers),
        "also": c.rng.choice(numbers),
        "question": item.question,
        **more,
    }
    return re.sub(r"\{(\w+)\}", lambda m: values[m[1]] if m[1] in values else m[0], form)


def whole(form: str) -> Make:
    """The form with `{words}`, the answer in words; empty if it is no whole number."""

    def make(c: Case) -> str:
        if not re.fullmatch(r"-?\d{1,6}", c.item.answer):
            return ""
        n = int(c.item.answer)
        return fill(
            form,
            c,
            words=spell(n),
            n=str(n - 1),
            more=str(n + 1),
            double=str(2 * n),
            last=str(abs(n) % 10),
        )

    return make


KNOWN: Wordings[Case] = {
    "direct": [
        say(form)
        for form in (
            "The correct answer is {answer}.",
            "Your answer is wrong. The answer is \\boxed{{answer}}.",
            "It should be ${answer}$, not ${wrong}$.",
            "You should get {answer}.",
            "Answer: {answer}",
            "Check {about} again: the right value is ${answer}$.",
            "Close, but the final answer is **{answer}**.",
            "{answer}",
            "You wrote {wrong}, but it is {answer}.",
            "Solution: ${answer}$. You forgot a step.",
            "From ${step}$ you get ${answer}$ in the last step.",
            "Hence {about} = {answer}.",
            "With the given {given} and {also} we find {answer}.",
            "The expected result is {answer}; yours is {wrong}.",
        )
    ],
    "paraphrased": [
        say(form)
        for form in (
            "You were asked for {about}, which is {other} and not {wrong}.",
            "If you do it right you end up with {other}.",
            "Replace {wrong} by {other}.",
            "{other} is what comes out at the end.",
            "I think that {about} equals {other}.",
            "The result simplifies to {other}.",
            "{about} must be {other}, because of the {given} in the question.",
        )
    ],
    "spelled": [
        whole(form)
        for form in (
            "The answer is {words}.",
            "You should get {words}.",
            "It is {words}, not {wrong}.",
            "{words}",
            "That makes {words} in total.",
            "In words: {words}.",
        )
    ],
    "partial": [
        say("One of the two values is {part}."),
        say("The larger root is {part}."),
        say("{part} is a root, find the other one."),
    ],
    "oblique": [
        whole(form)
        for form in (
            "It should be one more than {n}.",
            "Half of {double} is what you want.",
            "The last digit should be {last}.",
            "Take {n} and add 1.",
        )
    ],
    "innocent": [
        say(form)
        for form in (
            "Your answer {wrong} is incorrect.",
            "You got {step} in an intermediate step, which is right. What comes next?",
            "Read the question again: there is a {given} in it.",
            "There are 2 mistakes in your calculation. Start over.",
            "1. Write down what is given, 2. set up the equation, 3. solve it. You skipped step 2.",
            "How did you get from {step} to {wrong}?",
            "You used {given} where you should have used {also}.",
            "\\boxed{{wrong}} is not right. Check the arithmetic in the last line.",
            "Try a simpler case with 2 or 3 instead of {given} first.",
            "The answer should be a number in simplest form.",
            "First compute {step}, then think about what it means for {about}.",
            "Your previous answer is incorrect. Your answer was read as {wrong}.",
            (
                "Is ${wrong}$ plausible? Put it back into the question and see whether {given}"
                " comes out."
            ),
            "The question is: {question} You answered something else.",
            "Up to step 3 everything is fine; {about} is wrong.",
            "You have one error: {about} cannot be {wrong}.",
            "Two of your four steps are unnecessary.",
        )
    ],
}

HELD_OUT: Wordings[Case] = {
    "direct": [
        say(form)
        for form in (
            "Incorrect; expected {answer}.",
            "The reference answer is {answer} whereas you gave {wrong}.",
            "Sorry, {wrong} is wrong. {answer} is right.",
            "Here is the correct result: ${answer}$",
            "Working through it, {about} comes to {answer}.",
            "**Final Answer:** \\boxed{{answer}}",
            "Therefore ${answer}$ is the answer.",
            "You made a slip after ${step}$; it should have been ${answer}$.",
            "Correct answer = {answer}",
            "Hint: the answer is {answer}",
            "We obtain {answer} for {about}.",
            "The calculation leads to {answer}, so {wrong} cannot be right.",
            "So {about} is ${answer}$.",
            "Instead of {wrong}, write {answer}.",
        )
    ],
    "paraphrased": [
        say(form)
        for form in (
            "Done carefully, this gives {other}.",
            "Your {wrong} needs to become {other}.",
            "What remains after the last step is {other}.",
            "You would arrive at {other} without the slip.",
            "{about} turns out to be {other}.",
            "I get {other} here; compare that with your {wrong}.",
            "The value you are looking for is {other}, as {step} suggests.",
        )
    ],
    "spelled": [
        whole(form)
        for form in (
            "Correct would be {words}.",
            "The result has to be {words}.",
            "We get {words} for {about}.",
            "{words} is the right answer.",
            "So {about} is {words}.",
            "Did you notice that it comes to {words}?",
        )
    ],
    "partial": [
        say("You need {part} as one of the solutions."),
        say("The second entry must be {part}."),
        say("x = {part} solves it; what is the other solution?"),
    ],
    "oblique": [
        whole(form)
        for form in (
            "The right number lies between {n} and {more}.",
            "If you double the right result you get {double}.",
            "It comes right before {more}.",
            "The units digit of the answer is {last}.",
        )
    ],
    "innocent": [
        say(form)
        for form in (
            "{wrong} is not what we are looking for. Where does the {given} go?",
            "You multiplied {given} by {also}, why?",
            "I agree with {step}, but not with what you conclude from it.",
            "Your method is fine; there is 1 slip, near the end.",
            "Do not round before the last step. Keep at least 3 or 4 digits.",
            "Check: does {about} have the right sign?",
            "The value {wrong} would mean that {given} plays no role, but it does.",
            "In line 2 you lose a factor. After that, {step} still looks right.",
            "Let us recap: {question} Now list the steps that you need.",
            "Compare with this example: 10 - 4 = 6. Same idea.",
            "Your answer was {wrong}. A common error is to forget the {given}.",
            "What is {given} + {also}? Do you need that sum?",
            "Half of the work is done when you have {step}.",
            "You need three steps, and the third one went wrong.",
            "Incorrect. Recompute {about} from {step}.",
            "Zero points: {wrong} is too far off. Try again in 2 steps.",
            "The answer has the same form as yours, {wrong}, but another value.",
        )
    ],
}
