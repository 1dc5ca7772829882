"""The environment interface. One file per environment; everything deterministic from its seed;
never `eval`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import starmap
from typing import Annotated, Any, TypeVar

from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.runtime import run_to_end
from rltf_verl.kinds import Within, hints_of, trouble
from rltf_verl.registry import UserCodeError, described
from rltf_verl.types import Action, Attempt, Grade, Problem, Step

T = TypeVar("T")

FeedbackLevel = str
"""One of `LEVELS`: how much the verifier's own explanation gives away."""

LEVELS: tuple[FeedbackLevel, ...] = ("verdict", "location", "hint", "full")

CORRECT = "Your previous answer is correct."
INCORRECT = "Your previous answer is incorrect."


@dataclass(frozen=True, slots=True)
class Splits:
    """The problems of one dataset build."""

    train: tuple[Problem, ...]
    test: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    """Notes on the build for the user, a line each."""


def require_counts(num_train: int, num_test: int) -> None:
    """Raise ValueError if a count is negative."""
    for key, value in (("num_train", num_train), ("num_test", num_test)):
        if value < 0:
            raise ValueError(f"{key}={value} must be at least 0")


def number_problems(
    problem: Callable[[int, T], Problem], train: Iterable[T], test: Iterable[T]
) -> Splits:
    """The items of both splits as problems, each with its place in its split."""
    numbered_train, numbered_test = (starmap(problem, enumerate(items)) for items in (train, test))
    return Splits(tuple(numbered_train), tuple(numbered_test))


def split_items(
    key: str, what: str, items: Sequence[T], num_train: int, num_test: int
) -> tuple[Sequence[T], Sequence[T]]:
    """Items of training, and of the test split, which has the first ones.

    Args:
        key: config key and value that the items come from, for the error.
        what: what they are, in the plural.
        items: in a random order.
        num_train: of training.
        num_test: of the test split.

    Raises:
        ValueError: there are too few.
    """
    num = num_train + num_test
    if len(items) < num:
        raise ValueError(
            f"{key}: {len(items)} {what}, {num_train} + {num_test} are asked for; name more, or"
            " lower --num-train or --num-test"
        )
    return items[num_test:num], items[:num_test]


def draw_splits(
    draw: Callable[[int], T], key: Callable[[T], str], num_train: int, num_test: int, fix: str
) -> tuple[list[T], list[T]]:
    """Training problems, and distinct test problems that are none of them.

    Args:
        draw: a problem with this index.
        key: what makes problems different.
        num_train: of training.
        num_test: of the test split, which is drawn first.
        fix: what makes more problems possible.

    Raises:
        ValueError: a thousand draws in a row are all in the test split.
    """
    test: dict[str, T] = {}

    def new(index: int) -> T:
        for _ in range(1000):
            if key(drawn := draw(index)) not in test:
                return drawn
        there = f"after {len(test)} different test problems"
        raise ValueError(f"num_test={num_test}: no other one is found {there}; lower it, or {fix}")

    # The test split is drawn first, so that training can be drawn around it.
    while len(test) < num_test:
        drawn = new(len(test))
        test[key(drawn)] = drawn
    return [new(index) for index in range(num_train)], list(test.values())


def verdict(grade: Grade) -> str:
    """The verdict alone, as a sentence."""
    return CORRECT if grade.correct else INCORRECT


class GradeUnavailable(UserCodeError):
    """No verdict on this answer could be had, through no fault of the answer: a judge that is down,
    say.

    The episode ends there, and the answer counts neither for nor against the policy. An answer at
    which the grader breaks or runs out of time is another matter: that is graded wrong.

    Args:
        cause: one line that says what failed and what to change.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a trajectory.

    Raises:
        ValueError: a limit that is no number or out of range.
    """

    steps: Annotated[int, Within(1)] = 16
    """Sampled answers."""
    step_s: Annotated[float, Within(above=0)] = 30.0
    """Seconds of one call of a method."""
    attempt_s: Annotated[float, Within(above=0)] = 300.0
    """Seconds of `open`, and of all steps of an attempt together, without sampling."""
    observation_tokens: Annotated[int, Within(1)] = 256
    """Tokens of one observation; a longer one loses its middle, with a visible mark."""
    invalid_actions: Annotated[int, Within(1)] = 3
    """Actions of kind `format` or `error` in a row that end the trajectory."""

    def __post_init__(self) -> None:
        for name, hint in hints_of(Limits).items():
            value = getattr(self, name)
            if (fix := trouble(value, hint)) is not None:
                raise ValueError(f"limits.{name}={value!r} {fix}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage of a text that may state the answer, `text[start:end]`."""

    start: int
    end: int
    answer: str
    """The passage as an answer that `Env.grade` reads. If it states a part only: the reference with
    that part put in, so that it is graded correct just when the part is right."""
    part: bool = False


class Env:
    """A task with a verifier that can say what is wrong: extend this class.

    Every environment has `name`, `build`, `prompt`, `grade` and `explain`; the rest is optional. An
    attempt is one answer, or, if the class has `step`, a trajectory: the policy acts in a state
    that `open` makes, and the environment answers.

        class Doubles(Env):
            name = "doubles"

            def build(self, seed, num_train, num_test):
                numbers = range(seed, seed + num_train + num_test)
                made = [Problem(self.name, i, {"n": n}, str(2 * n)) for i, n in enumerate(numbers)]
                return Splits(tuple(made[:num_train]), tuple(made[num_train:]))

            def prompt(self, problem):
                return f"Two times {problem.data['n']}? Answer with the number alone."

            def grade(self, problem, text):
                return Grade(text.strip() == problem.reference, format_ok=text.strip().isdecimal())

            def explain(self, problem, text, grade, level):
                if grade.correct:
                    return CORRECT
                return f"It is {problem.reference}." if level == "full" else INCORRECT

    Instances are cheap, stateless and safe to share between threads; options are constructor
    arguments with defaults, so that `rltf.env.<option>` of the config is `Mine(<option>=…)`. A run
    makes each call in a thread of its own and waits ten minutes for it at most, or
    `limits.step_s` if the class has `step`. An answer without a verdict in that time is wrong, and
    a trajectory ends with `environment_error` if a method raises.
    """

    __slots__ = ()

    name: str
    acts: bool = False
    """Attempts are trajectories. True if the class has `step`."""
    grades_async: bool = False
    """True if the class has `agrade`, and no `grade` that a class below it has put in its place."""
    finds_candidates: bool = False
    """True if the class has `candidates`."""
    takes_rows: bool = False
    """True if the class has `data_of`."""
    has_record: bool = False
    """True if the class has `recorded`."""
    tools: Sequence[Mapping[str, Any]] = ()
    """JSON schemas as OpenAI and verl have them; empty: the whole answer is the action."""
    limits: Limits = Limits()
    """Limits of a trajectory."""
    judges: tuple[Judge, ...] = ()
    """The models that it asks; they share the limits and metrics of the job."""
    packages: Sequence[str] = ()
    """Packages whose versions decide which problems `build` makes."""
    quotes_others: bool = False
    """The leak guard reads its hints too: they are the words of others, who know the reference."""
    revise_templates: Mapping[str, str] | None = None
    """Templates of its later prompts. Subject of feedback (`attempt`, `question`, `answer`,
    `group`, `logits`), or `append` -> template of `prompts/revise`; `teacher` -> one of
    `prompts/teacher`. None: those of `episode.templates`.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.acts = cls.step is not Env.step
        nearest = next(base for base in cls.__mro__ if {"grade", "agrade"} & vars(base).keys())
        cls.grades_async = nearest is not Env and "agrade" in vars(nearest)
        cls.finds_candidates = cls.candidates is not Env.candidates
        cls.takes_rows = cls.data_of is not Env.data_of
        cls.has_record = cls.recorded is not Env.recorded

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Make the problems of both splits; the same seed gives the same problems."""
        raise self._lacks("build")

    def prompt(self, problem: Problem) -> str:
        """The user message x_0 of the first turn."""
        raise self._lacks("prompt")

    def grade(self, problem: Problem, attempt: Any) -> Grade:
        """Grade an answer given in free text, and never raise on any; or a `Trajectory`, whose
        `state` is still open. `Grade.details` keeps what `explain` needs of it. By default it
        waits for `agrade`, if the class has one.
        """
        # Not `grades_async`: a class below one with `agrade` may have a `grade` that ends here.
        if type(self).agrade is Env.agrade:
            raise self._lacks("grade")
        return run_to_end(self.agrade(problem, attempt))

    def explain(self, problem: Problem, attempt: Any, grade: Grade, level: FeedbackLevel) -> Any:
        """Say in words what is wrong with the answer. For a trajectory, whose state is closed:
        `Note`s on the whole or on steps. Only level `full` may contain the answer.
        """
        raise self._lacks("explain")

    def open(self, problem: Problem, seed: int) -> Any:
        """A fresh state, owned by one attempt; the same problem and seed give the same one.

        Calls on a state come one after the other, but each from another thread. A SQLite
        connection that `open` makes needs `check_same_thread=False`. `open` has `limits.attempt_s`
        seconds, every other call `limits.step_s`.
        """
        raise self._lacks("open")

    def look(self, state: Any) -> str | None:
        """Text that the policy reads before its first action, after the prompt; None: nothing."""
        return None

    def step(self, state: Any, action: Action) -> Step:
        """Do the action; the state changes in place."""
        raise self._lacks("step")

    def fork(self, state: Any) -> Any:
        """A copy of the state that lives by itself. Raises TypeError if it cannot be copied."""
        try:
            return deepcopy(state)
        except Exception as error:
            why = f"the state cannot be copied ({described(error)}); give the environment a `fork`"
            raise TypeError(why) from error

    def close(self, state: Any) -> None:
        """Free what the state holds. Called once for each state, forks included."""

    def solution(self, problem: Problem) -> Sequence[Action]:
        """Actions that are graded correct, in order; empty if none are known."""
        return ()

    async def agrade(self, problem: Problem, text: str) -> Grade:
        """Replaces `grade` in episodes, for an environment that waits for an answer
        over the network, e.g. of a judge. Raises GradeUnavailable.
        """
        raise self._lacks("agrade")

    def recorded(self, problem: Problem) -> str | None:
        """An answer that was given to this problem earlier. In training it is the first attempt if
        a second one follows, and trains nothing. None: the policy gives the first answer. Not for
        trajectories.
        """
        return None

    def accept(self, problem: Problem, attempt: Attempt, turn: int) -> Grade | None:
        """The verdict in training, where the class has `recorded`; None: that of `grade`.

        Args:
            problem: the question.
            attempt: the recorded answer, or the policy's.
            turn: 0 for the first attempt of the episode.
        """
        return None

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """Every passage that may state the answer or a part of it, for the leak guard. Never raises
        on any text. Without it the guard looks at boxes, quotations, last lines and what follows
        `the answer is`.

        Args:
            problem: the question.
            text: the feedback.
            attempt: what it is about. A part that it had right is no news.
        """
        raise self._lacks("candidates")

    def worked_solution(self, problem: Problem) -> str:
        """The reference solution in words, of which the leak guard looks for copies; empty if this
        problem has none.
        """
        return ""

    def subset(self, problem: Problem) -> str:
        """The set that a problem comes from, with validation metrics of its own: the last part of
        the row's `data_source`. Empty: no sets.
        """
        return ""

    def data_of(self, question: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """`Problem.data` for a row that was made for something else, with a question and, in
        `reward_model.ground_truth`, a reference answer. It holds `reference`, the answer as a text,
        where the ground truth may be none.
        """
        raise self._lacks("data_of")

    def trouble_with(self, problem: Problem) -> str | None:
        """Why answers to this problem cannot be graded and what to do, in one line; None if they
        can. Called on the first problem of each file before training starts. A line that begins
        with the key to change (`rltf.…`) blames that, any other the file.
        """
        return None

    def not_for_training(self, problem: Problem) -> str | None:
        """Why this problem is for evaluation only, in one line; None if it is not. Called on the
        first problem of each training file.
        """
        return None

    def trouble(self) -> str | None:
        """The sandbox or service that this machine lacks to grade, and the fix, in one line; None
        if it can. Called before training starts.
        """
        return None

    def _lacks(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no method `{method}`")


COMPACT_TEMPLATES = {
    "attempt": "compact",
    "question": "compact_guide",
    "answer": "compact",
    "group": "compact_guide",
    "logits": "compact_guide",
    "append": "compact_append",
    "teacher": "compact",
}
"""Templates of environments for small character-level models."""


def guided_templates(compact: bool) -> Mapping[str, str]:
    """Templates where the verifier's `full` needs no attempt next to it (the paper's form B)."""
    return COMPACT_TEMPLATES | {"answer": "compact_guide"} if compact else {"answer": "guide"}
