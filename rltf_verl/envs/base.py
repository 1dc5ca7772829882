"""What an environment is. One file per environment; everything deterministic from its seed; never
`eval`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

from rltf_verl.kinds import Within, hints_of, trouble
from rltf_verl.registry import UserCodeError
from rltf_verl.types import Action, Grade, Note, Problem, Step, Trajectory

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
    """What a user should know about the build, a line each."""


def require_counts(num_train: int, num_test: int) -> None:
    """Raise ValueError if a count is negative."""
    for key, value in (("num_train", num_train), ("num_test", num_test)):
        if value < 0:
            raise ValueError(f"{key}={value} must be at least 0")


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

    while len(test) < num_test:
        drawn = new(len(test))
        test[key(drawn)] = drawn
    return [new(index) for index in range(num_train)], list(test.values())


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


class Env(Protocol):
    """A task with a verifier that can say what is wrong.

    Instances are cheap, stateless and safe to share between threads; options are constructor
    arguments with defaults, so that `rltf.env.<option>` of the config is `Env(<option>=…)`. A run
    makes each call in a thread of its own and waits ten minutes for it at most; an answer without a
    verdict in that time is wrong. An environment that asks judges declares them as `judges`
    (`judge.gateway.judges_of`). One whose hints are somebody else's words, who knows the reference,
    has `quotes_others = True`: the leak guard then reads them.
    """

    name: str

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Make the problems of both splits; the same seed gives the same problems."""
        ...

    def prompt(self, problem: Problem) -> str:
        """The user message x_0 of the first turn."""
        ...

    def grade(self, problem: Problem, text: str) -> Grade:
        """Grade an answer given in free text. Never raises on any text."""
        ...

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Say in words what is wrong with `text`. Only level `full` may contain the answer."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a trajectory may go.

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


@runtime_checkable
class ActingEnv(Protocol):
    """A task whose attempt is a trajectory: the policy acts, the environment answers.

    As `Env`, it is stateless: what an attempt changes lies in its `State`, which no other attempt
    shares. `fork(state)` is optional, `copy.deepcopy` without it. Every method may raise; the
    attempt then ends with `environment_error`.

    Calls come one after the other, but each from another thread, and each has `limits.step_s`
    seconds (`open`: `limits.attempt_s`). A SQLite connection that `open` makes needs
    `check_same_thread=False`.
    """

    name: str
    tools: Sequence[Mapping[str, Any]]
    """JSON schemas as OpenAI and verl have them; empty: the whole answer is the action."""
    limits: Limits

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Make the problems of both splits; the same seed gives the same problems."""
        ...

    def prompt(self, problem: Problem) -> str:
        """The user message x_0 of the first turn."""
        ...

    def open(self, problem: Problem, seed: int) -> Any:
        """A fresh state, owned by one attempt; the same problem and seed give the same one."""
        ...

    def look(self, state: Any) -> str | None:
        """What the policy reads before its first action, after the prompt; None: nothing."""
        ...

    def step(self, state: Any, action: Action) -> Step:
        """Do the action; the state changes in place."""
        ...

    def close(self, state: Any) -> None:
        """Free what the state holds. Called once for each state, forks included."""
        ...

    def grade(self, problem: Problem, trajectory: Trajectory) -> Grade:
        """Grade a trajectory, whose `state` is still open. `Grade.details` keeps what `explain`
        needs of it.
        """
        ...

    def explain(
        self, problem: Problem, trajectory: Trajectory, grade: Grade, level: FeedbackLevel
    ) -> Sequence[Note]:
        """Say in words what is wrong, of the whole or of steps; the state is closed. Only level
        `full` may contain the solution.
        """
        ...


@runtime_checkable
class HasSolution(Protocol):
    """An acting environment that knows actions which are graded correct. Optional."""

    def solution(self, problem: Problem) -> Sequence[Action]:
        """The actions, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage of a text that may state the answer, `text[start:end]`."""

    start: int
    end: int
    answer: str
    """The passage as an answer that `Env.grade` reads. If it states a part only: the reference with
    that part put in, so that it is graded correct just when the part is right."""
    part: bool = False


@runtime_checkable
class FindsCandidates(Protocol):
    """An environment that knows what its answers look like in prose. Optional: without it the leak
    guard looks at boxes, quotations, last lines and what follows `the answer is`."""

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """Every passage that may state the answer or a part of it. Never raises on any text.

        Args:
            problem: what is asked.
            text: the feedback.
            attempt: what it is about. A part that it had right is no news.
        """
        ...


@runtime_checkable
class GradesAsync(Protocol):
    """An environment that waits for an answer over the network, e.g. of a judge. Episodes call it
    and not `grade`.
    """

    async def agrade(self, problem: Problem, text: str) -> Grade:
        """As `Env.grade`. Raises GradeUnavailable."""
        ...


@runtime_checkable
class HasWorkedSolution(Protocol):
    """An environment whose problems come with a solution in words. Optional: the leak guard looks
    for copies of it.
    """

    def worked_solution(self, problem: Problem) -> str:
        """The reference solution; empty if this problem has none."""
        ...


@runtime_checkable
class HasReviseTemplates(Protocol):
    """An environment whose later prompts have templates of their own. Optional: see
    `episode.templates.TEMPLATES`.
    """

    revise_templates: Mapping[str, str]
    """What feedback is about (`attempt`, `question`, `answer`, `group`, `logits`), or `append` ->
    template of `prompts/revise`; `teacher` -> one of `prompts/teacher`.
    """


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


@runtime_checkable
class HasSubsets(Protocol):
    """An environment whose problems come from several sets, each with validation metrics of its
    own. Optional.
    """

    def subset(self, problem: Problem) -> str:
        """The set's name, the last part of the row's `data_source`."""
        ...


@runtime_checkable
class TakesRows(Protocol):
    """An environment that can grade a dataset which was made for something else. Optional."""

    def data_of(self, question: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """`Problem.data` for a row with a question and, in `reward_model.ground_truth`, a reference
        answer. It holds `reference`, the answer as a text, where the ground truth may be none.
        """
        ...


@runtime_checkable
class KnowsTrouble(Protocol):
    """An environment that cannot grade every problem. Optional: asked about the first problem of
    each file before training starts.
    """

    def trouble_with(self, problem: Problem) -> str | None:
        """Why its answers cannot be graded and what to do, in one line; None if they can. A line
        that begins with the key to change (`rltf.…`) blames that, any other the file.
        """
        ...


@runtime_checkable
class NeedsMachine(Protocol):
    """An environment that needs something of the machine to grade: a sandbox, a service. Optional:
    looked at before training starts."""

    def trouble(self) -> str | None:
        """Why it cannot grade here and what to do, in one line; None if it can."""
        ...
