"""Promises of an environment whose attempt is one answer."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rltf_verl.envs.base import LEVELS, Env, FeedbackLevel
from rltf_verl.envs.calls import bounded
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.registry import UserCodeError, raised_by
from rltf_verl.tools.data.questions import QuestionRow
from rltf_verl.tools.feedback.attempts import FORMS, collect, written
from rltf_verl.tools.feedback.verdicts import FAULTS, CheckedFeedback, findings_of
from rltf_verl.types import Problem

NUM_PROBLEMS, NUM_HOSTILE = 50, 1000
NONSENSE = (
    "",
    " ",
    "I do not know.",
    "\\boxed{}",
    "\\boxed{banana}",
    "yes",
    "42 apples",
    "The answer is wrong.",
)
GUESSES = ("0", "1", "A", "yes", "no", "True", "False")
NUM_CONSTANT, MIN_CONSTANT = 20, 8
"""Problems that are answered alike, and the fewest that say something."""
NUM_EXPLAINED = 8
"""Problems at which explanations are looked at."""
CHECK_S = 60.0
"""Seconds of a call: a run waits longer, a person at a terminal does not."""
MOST_CONSTANT = 0.75
"""Highest mean score of one answer to all: a fair yes or no is right in half of them."""


@dataclass(frozen=True)
class Verdict:
    """One promise."""

    promise: str
    broken: str
    """The breach, with an example; empty if it was kept."""
    kept: str = "yes"
    """The word for a kept promise."""


def check_answering(env: Env, seed: int, num_problems: int, num_hostile: int) -> list[Verdict]:
    """As `check_env`."""
    own, env = env, bounded(env, CHECK_S)
    problems: list[Problem] = []
    verdicts = [
        verdict_on(
            own, "build is deterministic", partial(builds_again, env, seed, num_problems, problems)
        )
    ]
    checks: dict[str, Callable[[Problem], Iterator[str]]] = {
        "a problem survives JSON": survives_json,
        "prompts are text, and the same each time": partial(prompts, env),
    }
    if not env.grades_async:  # each verdict of a judge costs money, and may change
        checks |= {
            "the reference is graded correct": partial(_reference, env),
            "nonsense is graded wrong": partial(_nonsense, env),
            "grades are the same each time": partial(_repeatable, env),
        }
    verdicts += [
        verdict_on(own, what, partial(for_each_problem, own, problems, check))
        for what, check in checks.items()
    ]
    if env.grades_async:
        return verdicts
    alike, some = problems[:NUM_CONSTANT], problems[:NUM_EXPLAINED]
    secret, something = "below `full` no explanation gives the answer away", "`full` says something"
    constant, hostile = (
        "no constant answer scores well",
        f"{num_hostile} hostile texts raise nothing",
    )
    tried = verdict_on(own, constant, partial(_constants, env, alike))
    few = f"not tried: fewer than {MIN_CONSTANT} problems"
    return [
        *verdicts,
        verdict_on(own, secret, partial(_finds, "tells the answer", env, some, LEVELS[:-1])),
        verdict_on(own, something, partial(_finds, "no text", env, some, LEVELS[-1:])),
        tried if len(alike) >= MIN_CONSTANT else Verdict(constant, "", few),
        verdict_on(own, hostile, partial(_hostile, env, problems, seed, num_hostile)),
    ]


def builds_again(env: Env, seed: int, num: int, problems: list[Problem]) -> Iterator[str]:
    """Puts the training problems into `problems`, which the other checks are about."""
    first, again = (env.build(seed, num, max(1, num // 10)) for _ in range(2))
    problems.extend(first.train)
    if not (first.train and first.test):
        yield f"build({seed}, {num}, …) made {len(first.train)} and {len(first.test)} problems"
    if first != again:
        yield f"build({seed}, …) twice made different problems"


def verdict_on(env: object, promise: str, check: Callable[[], Iterator[str]]) -> Verdict:
    """The first thing that breaks it, an exception too."""
    try:
        return Verdict(promise, next(check(), ""))
    except (Exception, SystemExit) as error:  # what a user's environment raises is the finding
        return Verdict(promise, raised_by(type(env), error))


def for_each_problem(
    env: object, problems: Sequence[Problem], check: Callable[[Problem], Iterator[str]]
) -> Iterator[str]:
    for problem in problems:
        for broken in _broken_by(env, check, problem):
            yield f"problem {problem.index}: {broken}"


def _broken_by(
    env: object, check: Callable[[Problem], Iterator[str]], problem: Problem
) -> Iterator[str]:
    try:
        yield from check(problem)
    except Exception as error:  # as above
        yield raised_by(type(env), error)


def survives_json(problem: Problem) -> Iterator[str]:
    if json.loads(json.dumps(dict(problem.data))) != dict(problem.data):
        yield (
            "its data are other data after json.loads(json.dumps(data)), which is how a dataset"
            " keeps them"
        )


def prompts(env: Env, problem: Problem) -> Iterator[str]:
    if not (env.prompt(problem).strip() and env.prompt(problem) == env.prompt(reread(problem))):
        yield "its prompt is empty, or another one when asked again"


def _reference(env: Env, problem: Problem) -> Iterator[str]:
    grades = [env.grade(reread(problem), written(form, problem.reference)) for form in FORMS]
    if not any(grade.correct and grade.format_ok for grade in grades):
        yield (
            f"its reference {problem.reference[:60]!r} is graded wrong, also in \\boxed{{}} and in"
            " a code block"
        )


def _nonsense(env: Env, problem: Problem) -> Iterator[str]:
    yield from (
        f"{text!r} is graded correct" for text in NONSENSE if env.grade(problem, text).correct
    )


def _constants(env: Env, problems: Sequence[Problem]) -> Iterator[str]:
    """Answers that pay whatever is asked: the commonest references, and words that guess."""
    form = form_of(env, problems[0])
    common = Counter(problem.reference for problem in problems).most_common(3)
    for answer in dict.fromkeys([*(reference for reference, _ in common), *GUESSES]):
        text = written(form, answer)
        grades = [env.grade(problem, text) for problem in problems]
        scores = (float(g.correct) if g.score is None else g.score for g in grades)
        score = sum(scores) / len(grades)
        if score > MOST_CONSTANT:
            yield (
                f"{text[:60]!r} scores {score:.2f} on average of {len(problems)} problems:"
                " a policy may learn it and nothing else"
            )


def form_of(env: Env, problem: Problem) -> str:
    """The first of `FORMS` in which the reference is graded correct; a box if none is."""
    for form in FORMS:
        if env.grade(problem, written(form, problem.reference)).correct:
            return form
    return "\\boxed{}"


def _repeatable(env: Env, problem: Problem) -> Iterator[str]:
    for text in (*NONSENSE, problem.reference):
        if env.grade(problem, text) != env.grade(problem, text):
            yield f"{text[:60]!r} is graded differently the second time"


def _finds(
    fault: str, env: Env, problems: Sequence[Problem], levels: Sequence[FeedbackLevel]
) -> Iterator[str]:
    """A fault of its explanations, as `rltf feedback check` finds it."""
    asked = [({"role": "user", "content": env.prompt(problem)},) for problem in problems]
    questions = [QuestionRow(*pair, "", "") for pair in zip(problems, asked, strict=True)]
    rules = [rule for rule in FAULTS if rule.name in (fault, "raises")]
    for level in levels:
        checked = collect(env, VerifierProvider(level), questions, DryRun())
        for finding in findings_of(CheckedFeedback(env, checked), rules):
            yield f"level {level}, {finding.why}"


def _hostile(env: Env, problems: Sequence[Problem], seed: int, num: int) -> Iterator[str]:
    for k, text in enumerate(hostile_texts(seed, num)):
        problem = problems[k % len(problems)]
        try:
            grade = env.grade(problem, text)
            for level in LEVELS:
                env.explain(problem, text, grade, level)
        except UserCodeError as error:  # as above
            yield f"problem {problem.index}, {text[:80]!r}: {error}"


def reread(problem: Problem) -> Problem:
    """The problem as a dataset gives it back."""
    return replace(problem, data=json.loads(json.dumps(dict(problem.data))))


_PIECES = (
    "\\boxed{",
    "}",
    "{",
    "\\text{",
    "\\frac{1}{",
    "[[",
    "]]",
    "[",
    "]",
    "(",
    ")",
    "0",
    "1",
    "-1",
    "9" * 40,
    "1e999",
    "nan",
    "inf",
    "\n",
    "\r\n",
    "\t",
    " ",
    ",",
    ";",
    ":",
    "&",
    "\\\\",
    "$",
    "**",
    "`",
    "```python\n",
    "```",
    "<answer>",
    "</answer>",
    "\x00",
    "\ud7ff",
    "\u202e",
    "٣",
    "½",
    "é",
    "😀",
    "\\begin{pmatrix}",
    "\\end{pmatrix}",
    "%s",
    "{0}",
    "__import__('os')",
    "right",
    "down",
    "knight",
    "infeasible",
    "Answer:",
    "=",
    "<|im_end|>",
    "a" * 200,
)


def hostile_texts(seed: int, num: int) -> Iterator[str]:
    """Texts that parsers stumble over: unbalanced, nested, huge, empty, control characters, digits
    of other scripts.
    """
    rng = random.Random(seed)
    for k in range(num):
        pieces = rng.choices(_PIECES, k=rng.choice((1, 3, 10, 30, 100)))
        text = "".join(pieces)
        yield f"\\boxed{{{text}}}" if k % 3 == 0 else text
