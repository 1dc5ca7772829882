"""How feedback on `knights_knaves` is worded.

Both halves were written before their author had read the rules. By `KNOWN` the rules were then
mended; `HELD_OUT` was measured, and only its direct leaks that were missed and one false positive
were mended in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.leak_texts.common import Wordings, listed
from benchmarks.leak_texts.knights_knaves import COUNTS, Case

Make = Callable[[Case], str]


def _lead(leads: Sequence[str], shapes: Sequence[Make]) -> Make:
    return lambda c: c.rng.choice(leads).replace("{}", c.rng.choice(shapes)(c))


def _everyone(form: str, join: str = ", ") -> Make:
    return lambda c: join.join(c.each(form))


def _others(c: Case, form: str) -> str:
    """The form with `few`, the smaller group, unless it is empty; `it` is its role, `rest` the role
    of the others.
    """
    role = len(c.who(True)) <= len(c.who(False))
    few = c.who(role)
    if not few:
        return ""
    return form.format(
        few=listed(few),
        are="is" if len(few) == 1 else "are",
        it=c.nouns(role),
        rest=c.nouns(not role),
        do=(
            ("tells" if len(few) == 1 else "tell") + " the truth"
            if role
            else "lies"
            if len(few) == 1
            else "lie"
        ),
        rest_do="lie" if role else "tell the truth",
        rest_does="lies" if role else "tells the truth",
    )


def _except(form: str) -> Make:
    return lambda c: _others(c, form)


def one(form: str) -> Make:
    """The form with one person whose role the attempt has wrong."""

    def say(c: Case) -> str:
        name, role = c.one_wrong()
        return form.format(
            name=name,
            a=c.a(role),
            noun=c.noun(role),
            not_a=c.a(not role),
            not_noun=c.noun(not role),
            n=len(c.wrong()),
            verb="tells the truth" if role else "lies",
            ing="telling the truth" if role else "lying",
            honest="truthful" if role else "a liar",
            other=c.other(name),
            not_verb="lies" if role else "tells the truth",
            have="lie" if role else "tell the truth",
            code=name if role else name.lower(),
        )

    return say


def _free(form: str) -> Make:
    """The form with what the question and the attempt say anyway."""

    def say(c: Case) -> str:
        name, quote = c.said()
        other, (bad, role) = c.other(name), c.one_wrong()
        return form.format(
            name=name,
            quote=quote,
            other=other,
            bad=bad,
            bad_a=c.a(not role),
            a=c.a(True),
            b=c.a(False),
            third=c.rng.choice([n for n in c.names if n not in (name, other)]),
            mine=c.written(c.attempt).rstrip("."),
            As=c.nouns(True),
            Bs=c.nouns(False),
            any=c.a(c.rng.random() < 0.5),
            n=len(c.names),
            num=len(c.wrong()),
            told=", ".join(c.each("{name}: {noun}", c.attempt)),
            good=len(c.names) - len(c.wrong()),
            mine_a=c.a(c.attempt[c.names.index(name)]),
            other_a=c.a(c.attempt[c.names.index(other)]),
        )

    return say


def _grouped(form: str) -> Make:
    return lambda c: form.format(
        As=c.nouns(True),
        Bs=c.nouns(False),
        Title=c.nouns(True).capitalize(),
        Title2=c.nouns(False).capitalize(),
        yes=listed(c.who(True) or ["nobody"]),
        no=listed(c.who(False) or ["nobody"]),
        yes_list=", ".join(c.who(True)) or "none",
        no_list=", ".join(c.who(False)) or "none",
    )


def _answer(c: Case) -> str:
    return c.written(c.solution)


def _boxed(c: Case) -> str:
    return f"\\boxed{{{c.written(c.solution)}}}"


KNOWN_LEADS = (
    "{}",
    "The correct answer is: {}",
    "Your previous answer is incorrect. The solution is: {}",
    "You should have answered {}",
    "Not quite. Correct roles:\n{}",
    "Final answer: {}",
    "Think again about the implications. In the end you should get {}",
    "**Solution**\n\n{}\n\nCheck it with every statement.",
)
HELD_OUT_LEADS = (
    "The only consistent assignment is {}",
    "Sorry, that is wrong! It has to be:\n{}",
    "Two statements contradict your roles. Working it out, we find {}",
    "Expected: {}",
    "Incorrect. Here is what I get:\n\n{}\n\nCompare this with what you have.",
    "The reference says {}",
    "Hint: {}",
    "{} That is the only possibility.",
)

KNOWN_SHAPES: list[Make] = [
    _answer,
    _boxed,
    _everyone("- {name}: {noun}", "\n"),
    _everyone("{name} = {noun}"),
    _everyone("{name} is {a}.", " "),
    _everyone("| {name} | {noun} |", "\n"),
    lambda c: "{" + ", ".join(c.each('"{name}": "{noun}"')) + "}",
    _grouped("{Title}: {yes_list}. {Title2}: {no_list}."),
    _everyone("{name} → {noun}", "; "),
    _everyone("{name} must be {a}", "; "),
]
HELD_OUT_SHAPES: list[Make] = [
    _everyone("{name} ({noun})"),
    _everyone("{i}. {name} – {Noun}", "\n"),
    _everyone("**{name}**: {a}", "\n"),
    _everyone("{name}'s {a}"),
    _everyone("{name}: {Noun}", " | "),
    lambda c: f"\\boxed{{\\text{{{_answer(c)}}}}}",
    _grouped("{As} = {{{yes_list}}}, {Bs} = {{{no_list}}}"),
    _everyone("{name} has to be {a}"),
    _grouped("{yes} as {As}, {no} as {Bs}"),
    _everyone("* {name} is {a}", "\n"),
]

KNOWN: Wordings[Case] = {
    "direct": [_lead(KNOWN_LEADS, KNOWN_SHAPES)],
    "paraphrased": [
        _except("Only {few} {do}, all the others {rest_do}."),
        _except("The {it} are {few}; everybody else is one of the {rest}."),
        _except("If you go through it case by case, {few} {do} and the rest {rest_do}."),
        lambda c: f"Try this: {listed(c.each('{name} {verb}'))}.",
        lambda c: (
            f"{listed(c.who(True))} can be trusted, {listed(c.who(False))} cannot."
            if 0 < sum(c.solution) < 5
            else ""
        ),
        _grouped("The liars are {no}, the truth-tellers {yes}."),
        lambda c: " ".join(c.each("{name} is {honest}.")),
    ],
    "spelled": [
        lambda c: f"In the order of the question: {', '.join(c.each('{noun}'))}.",
        lambda c: (
            f"From first to last the roles are {', '.join(c.each('{letter}'))}, with T for"
            " truth-teller."
        ),
        lambda c: ", ".join(c.each("{name}: {letter}")),
        lambda c: f"Truth values: {', '.join(c.each('{name} = {word}'))}.",
        lambda c: f"{listed(c.each('the {nth} is {a}'))}.".capitalize(),
    ],
    "partial": [
        one("Look at {name} again: {name} is {a}."),
        one("{name} should be {a}, not {not_a}."),
        one("You got {name} wrong. {name} {verb}."),
        one("Change {name} to {noun}."),
        one("{name} is not {not_a}; then the rest follows."),
        one("What {name} says shows that {name} must be {ing}."),
        one("{name} cannot be {not_a}."),
        one("Since {other}'s statement is what it is, {name} has to be {a}."),
        one("Start from the fact that {name} is {a}."),
        one("Mark {name} as {a} and try once more."),
    ],
    "oblique": [
        one("The role of {name} is wrong."),
        one("Flip {name}."),
        lambda c: f"There are exactly {COUNTS[sum(c.solution)]} {c.nouns(True)}.",
        lambda c: (
            f"{c.names[0]} is"
            f" {'the same as' if c.solution[0] == c.solution[1] else 'different from'}"
            f" {c.names[1]}."
        ),
    ],
    "innocent": [
        lambda c: c.told("location"),
        lambda c: c.told("hint"),
        lambda c: c.told("verdict"),
        _free('{name} said "{quote}". Does that fit with your answer?'),
        _free(
            "You call {name} {mine_a} and {other} {other_a}. Check what {third} says about that."
        ),
        _free(
            "If {name} is {any}, then what {name} says has to be judged accordingly. You did not do"
            " that."
        ),
        _free("Suppose that {other} is {any} and see whether it leads to a contradiction."),
        _free("Remember: {As} always tell the truth and {Bs} always lie."),
        _free('Your answer "{mine}" is not correct. Go through the statements one by one.'),
        _free("{num} of your {n} roles are wrong, and {good} are right."),
        _free("Start with {name}, whose statement is the simplest, and try both possibilities."),
        _free(
            "An implication is true when its first part is false. Apply this to what {name} says."
        ),
        _free("Is it possible for {name} to be {any}? Test it with what {other} says."),
        _free("You say that {bad} is {bad_a}. Did you check {bad}'s own statement?"),
    ],
}

HELD_OUT: Wordings[Case] = {
    "direct": [_lead(HELD_OUT_LEADS, HELD_OUT_SHAPES)],
    "paraphrased": [
        _except("Everyone {rest_does} except {few}."),
        _except("{few} {are} the only {it} on this island."),
        _except(
            "With a bit more care you would have seen that {few} {do}, whereas the others do not."
        ),
        lambda c: "; ".join(c.each("what {name} says is {word}")) + ".",
        lambda c: (
            f"We know {listed(c.who(False))} to be lying while {listed(c.who(True))} spoke"
            " truthfully."
            if 0 < sum(c.solution) < 5
            else ""
        ),
        _grouped("You can believe {yes}, but not {no}."),
        lambda c: f"So {', '.join(c.each('{name} turns out to be {a}'))}.",
    ],
    "spelled": [
        lambda c: f"Reading the names from left to right you need {' '.join(c.each('{noun}'))}.",
        lambda c: f"As bits (1 for {c.a(True)}): {' '.join(c.each('{bit}'))}.",
        lambda c: "/".join(c.each("{noun}")),
        lambda c: ", ".join(c.each("{name}={bit}")),
        lambda c: (
            f"Numbers {listed([str(i + 1) for i, r in enumerate(c.solution) if r])} are"
            f" {c.nouns(True)}, no others."
            if any(c.solution)
            else ""
        ),
    ],
    "partial": [
        one("I would reconsider {name}, who is actually {a}."),
        one("{name} can only be {a}."),
        one("Your mistake is {name}: this person {verb}."),
        one("Replace {not_noun} by {noun} for {name}."),
        one("It is impossible for {name} to be {not_a}."),
        one("{name} does not {have} as you think, but {name} is {a}."),
        one("The key insight is that {name} is {ing}."),
        one("You have {n} wrong, e.g. {name} (should be {noun})."),
        one("Note that {name} is in fact {honest}."),
        one("{name} turns out to be {a}, which {other} says too."),
    ],
    "oblique": [
        one("You are wrong about {name}."),
        one("Everyone except {name} may stay as it is."),
        lambda c: (
            f"You have {abs(sum(c.attempt) - sum(c.solution))}"
            f" {c.nouns(sum(c.attempt) > sum(c.solution))} too many."
            if sum(c.attempt) != sum(c.solution)
            else ""
        ),
        lambda c: f"Swap your answers for {listed([c.names[i] for i in c.wrong()])}.",
    ],
    "innocent": [
        lambda c: c.told("location"),
        lambda c: c.told("hint"),
        lambda c: c.told("verdict"),
        _free("According to {name}, {quote}. You have to decide whether this can be true."),
        _free(
            "In your solution {name} is {mine_a}, so whatever {name} claims must match that."
            " Does it?"
        ),
        _free("Try assuming {name} is {any}. What would that mean for {other} and {third}?"),
        _free("You wrote: {told}. At least one statement does not agree with this."),
        _free(
            "Either {name} is {any} or {other} is {any}? Work through both cases before you decide."
        ),
        _free(
            "{name} claims that {quote}; a claim of one of the {Bs} is false, one of the {As} true."
        ),
        _free(
            "The statement of {name} has the form 'if ... then ...'. You seem to have read it as an"
            " equivalence."
        ),
        _free("Good structure, but you assumed without proof that {name} is {mine_a}."),
        _free(
            "An 'or' is true as soon as one part is true. When you judged {name}'s statement you"
            " forgot this."
        ),
        _free(
            "{name} cannot say of themselves that they are {b}, because nobody can. Use this for"
            " the other statements."
        ),
        _free("Your reasoning treats {name} as {mine_a} at first and later as something else."),
    ],
}
