"""The nouns of the project: what crosses a process boundary or a layer. Frozen data.

`K` turns of one episode: attempt y_k, grade r_k, feedback f_k about it, which leads to turn k+1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import isfinite
from operator import index
from typing import Any, Literal, get_args

from rltf_verl.texts import clean_text, one_line

Message = dict[str, str]
"""One chat message, `{"role": …, "content": …}`."""

StopReason = Literal[
    "solved", "horizon", "not_asked", "feedback_unavailable", "prompt_too_long", "ungraded"
]
"""`not_asked`: feedback was not wanted (`rltf.feedback.ask`), not a failure;
`feedback_unavailable`: it was.
"""

TECHNICAL_STOPS: frozenset[StopReason] = frozenset(
    {"feedback_unavailable", "prompt_too_long", "ungraded"}
)
"""Reasons that say nothing about the attempt: what the missing turns would have earned is unknown,
not 0.
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """One dataset row: what the environment needs to state it and to grade an answer to it."""

    env: str
    """Name of the environment that made it and grades it."""
    index: int
    """Position in its split; with the step and the episode it seeds all sampling."""
    data: Mapping[str, Any]
    """The environment's own fields, JSON-serialisable."""
    reference: str
    """The reference answer, as the environment's grader would read it."""
    demonstration: str = ""
    """A good answer that the dataset has beside it (`extra_info.demonstration`); a teacher may read
    it.
    """

    def __post_init__(self) -> None:
        if not isinstance(self.reference, str):
            raise ValueError(f"reference must be a text, not {type(self.reference).__name__}")


MOST_READ = 2**18
"""Characters of an answer that are graded, its last ones: more than 60 000 tokens of prose."""

MAX_SCORE = 1e6
"""Largest size of a score: returns, advantages and losses of larger ones overflow."""


MAX_ERROR = 1000
"""Characters of what a grader raised."""


def _set(record: object, **values: object) -> None:
    """Set fields of a frozen dataclass that is being made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def _flag(name: str, value: Any) -> bool:
    """True or False, also of NumPy, 0 and 1. Raises ValueError for anything else."""
    if value not in (True, False):
        raise ValueError(f"{name} must be true or false, not {type(value).__name__}")
    return bool(value)


@dataclass(frozen=True, slots=True)
class Grade:
    """The verifier's verdict on one attempt. Numbers and truth values may be of NumPy.

    Raises:
        ValueError: the score is out of range, or `correct` or `format_ok` is not true or false.
        TypeError: a field of another kind.
    """

    correct: bool
    format_ok: bool
    """An answer could be extracted from the text."""
    parsed: str | None = None
    """The extracted answer, if any."""
    error: str | None = None
    """The grader itself failed (the attempt is then graded wrong): what it raised, in one line."""
    score: float | None = None
    """Graded share in [0, 1] where an answer can be partly right; None: 1 if correct, else 0."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Results of the grader that `Env.explain` needs again; JSON-serialisable."""
    numbers: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The environment's own numbers from 0 to 1, by name; `rltf eval` and the log's statistics show
    the mean of each over the values of all answers.
    """

    def __post_init__(self) -> None:
        score = None if self.score is None else float(self.score)
        if score is not None and not abs(score) <= MAX_SCORE:  # NaN is not either
            raise ValueError(f"score {score:g} must be a number from -1e6 to 1e6; scale it")
        if not isinstance(self.parsed, str | None):
            raise TypeError(f"parsed must be a text or None, not {type(self.parsed).__name__}")
        _set(
            self,
            correct=_flag("correct", self.correct),
            format_ok=_flag("format_ok", self.format_ok),
            parsed=self.parsed and self.parsed[:MOST_READ],
            error=None if self.error is None else one_line(self.error, MAX_ERROR),
            score=score,
            details=dict(self.details or {}),
            numbers={name: tuple(map(float, many)) for name, many in self.numbers.items()},
        )


StepKind = Literal["ok", "format", "error", "timeout"]
"""Outcome of a step. `format`: no action could be read; `error`: the environment refused it."""
STEP_KINDS: tuple[StepKind, ...] = get_args(StepKind)

EndReason = Literal[
    "done",
    "answered",
    "steps",
    "length",
    "context",
    "deadline",
    "invalid",
    "environment_error",
]
"""Why a trajectory ended. `done`: the environment says so. `answered`: an answer without a call.
`steps`, `length`, `context`, `deadline`, `invalid`: a limit on steps, on sampled tokens, on all
tokens, on seconds, on invalid actions. `environment_error`: the environment raised.
"""
END_REASONS: tuple[EndReason, ...] = get_args(EndReason)


@dataclass(frozen=True, slots=True)
class Action:
    """The policy's action: one call of a tool, or a whole answer where there are no tools."""

    text: str
    """The answer that the action was read from."""
    tool: str | None = None
    """The tool's name; None where the environment has no tools."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The call's arguments, decoded from JSON."""


@dataclass(frozen=True, slots=True)
class Step:
    """An environment's answer to an action. Its text is cleaned.

    Raises:
        ValueError: `done`, `kind` or `score` has a value that it cannot have.
        TypeError: a field of another kind.
    """

    observation: str
    """Text that the policy reads next."""
    done: bool = False
    """The trajectory ends here."""
    kind: StepKind = "ok"
    score: float | None = None
    """The environment's own score of the action, if it has one."""

    def __post_init__(self) -> None:
        score = None if self.score is None else float(self.score)
        if score is not None and not isfinite(score):
            raise ValueError(f"score {score:g} must be finite")
        if self.kind not in STEP_KINDS:
            raise ValueError(f"kind must be one of {', '.join(STEP_KINDS)}")
        text, done = clean_text(self.observation), _flag("done", self.done)
        _set(self, observation=text, done=done, score=score)


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """One sampled answer of a trajectory and what came back."""

    text: str
    """The sampled text, without special tokens."""
    actions: tuple[Action, ...]
    """The calls in it that were played, in order; empty where it has none that could be read."""
    results: tuple[Step, ...]
    """One per action, then one of kind `format` where a call could not be read. Observations are
    cut as the policy reads them.
    """
    start: int
    """Position in `Attempt.response_ids` of its first sampled token."""
    end: int
    """One past its last sampled token; the observation's tokens follow, if another step does."""
    acted: tuple[int, int] = (0, 0)
    """[start, end) in `Attempt.response_ids` of its calls, or of the answer that is the action."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The steps of one attempt, as an environment grades them."""

    steps: tuple[PlayedStep, ...]
    """At least one."""
    end: EndReason
    state: Any = None
    """The environment's state after the last step, while it is open: for `grade` alone."""

    @property
    def answer(self) -> str:
        """The last sampled text."""
        return self.steps[-1].text if self.steps else ""


@dataclass(frozen=True, slots=True)
class Note:
    """A piece of feedback on a whole trajectory or on one of its steps. Its text is cleaned.

    Raises:
        TypeError: a field of another kind.
    """

    text: str
    step: int | None = None
    """Position in `Trajectory.steps`; None: on all of it."""

    def __post_init__(self) -> None:
        step = None if self.step is None else index(self.step)
        _set(self, text=clean_text(self.text), step=step)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sampled answer y_k, ids as the sampler made them (never decoded and encoded again)."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    log_probs: tuple[float, ...] | None
    """log π(y_t | x_k, y_<t) of the sampler, nats; None when it does not report them."""
    text: str
    ended: bool
    """True if the policy stopped by itself, False if it was cut off at the token limit."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """The sampler's reports beside the tokens (weight version, preemptions)."""
    trajectory: Trajectory | None = None
    """The steps of the attempt, without their state; None: one answer. Response ids then hold the
    observations too, with log-prob 0, and `text` shows all of it to readers.
    """
    prefix_ids: tuple[int, ...] = ()
    """For a retry from a step: the first attempt's tokens up to that step; they follow the first
    prompt.
    """
    recorded: bool = False
    """Another policy or a person wrote the answer (`Env.recorded`): no token of it trains."""

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """[start, end) of each stretch of response ids that the policy sampled; of a recorded
        answer an empty one.
        """
        if self.trajectory is None:
            return ((0, 0 if self.recorded else len(self.response_ids)),)
        return tuple((step.start, step.end) for step in self.trajectory.steps)


@dataclass(frozen=True, slots=True)
class Feedback:
    """Text f_k about attempt k."""

    text: str
    provider: str
    sees_reference: bool = False
    """The provider was shown the reference answer, so its text can leak it."""
    latency_s: float = 0.0
    fallback: bool = False
    """The chosen provider failed and this is the fixed sentence of `on_error: correctness`."""
    attempt: Attempt | None = None
    """The sampled tokens of a text that the policy itself wrote, a `critique` row."""
    span: tuple[int, int] | None = None
    """Place of its tokens in the ids of the prompt that it led to, if requested."""
    prompt_tokens: int = 0
    """Tokens that a judge read for it, by its endpoint's count."""
    completion_tokens: int = 0
    """Tokens that a judge wrote."""
    cached: bool = False
    """The judge's reply was paid for earlier."""
    leak: str | None = None
    """The leak guard's finding: the kind, then the passage (`answer: 0 1 …`). Empty: nothing.
    None: not checked.
    """
    original: str | None = None
    """The provider's text, where the leak guard replaced it."""
    notes: tuple[Note, ...] = ()
    """The parts of a text on a trajectory, which may be on steps of it; by its lines `Step N: …`
    where the provider does not say. Empty where none is on a step.
    """

    def __post_init__(self) -> None:
        """Any text, of a judge, person, record or program, can be tokenised, logged and shown.

        Raises:
            ValueError: a truth value is not true or false.
            TypeError: a field of another kind.
        """
        leak, original = self.leak and clean_text(self.leak), self.original
        _set(
            self,
            text=clean_text(self.text),
            provider=clean_text(self.provider),
            leak=leak,
            original=original and clean_text(original),
            latency_s=float(self.latency_s),
            sees_reference=_flag("sees_reference", self.sees_reference),
            fallback=_flag("fallback", self.fallback),
            cached=_flag("cached", self.cached),
            prompt_tokens=index(self.prompt_tokens or 0),
            completion_tokens=index(self.completion_tokens or 0),
        )


@dataclass(frozen=True, slots=True)
class TeacherPrompt:
    """Context of an attempt's teacher."""

    ids: tuple[int, ...]
    text: str
    """Its last message."""
    against: tuple[tuple[int, ...], ...] = ()
    """The prompts of its contrast (`rltf.teacher.against`)."""
    of_steps: tuple[tuple[int, ...] | None, ...] = ()
    """Ids of each step's own prompt, None: it has no teacher; empty: `ids` are before all steps."""

    def before(self, attempt: Attempt, position: int) -> tuple[int, ...] | None:
        """The teacher's tokens before the step of a response's token; None: it has no teacher."""
        if not self.of_steps:
            return self.ids
        ends = (end for _, end in attempt.spans)
        return self.of_steps[next(step for step, end in enumerate(ends) if position < end)]


@dataclass(frozen=True, slots=True)
class Turn:
    """One attempt with its verdict and the feedback on it, which led to the next turn or only to
    the teacher's prompt.
    """

    attempt: Attempt
    grade: Grade
    reward: float
    """The attempt's training reward: its graded reward, shaped by `rltf.reward`."""
    feedback: Feedback | None = None
    stop: StopReason | None = None
    """Why no turn follows; None when one does."""
    error: str | None = None
    """Why feedback was unavailable, in one line."""
    withheld: Feedback | None = None
    """Feedback that the leak guard dropped: it trained nothing, but it is counted and logged."""
    prompt: str | None = None
    """The message that the attempt answers; None for the first attempt, which answers the problem's
    question.
    """
    unshaped: float | None = None
    """The graded reward before shaping; None where `reward` is not shaped."""
    teacher: TeacherPrompt | None = None
    """None where the attempt has no teacher."""

    @property
    def graded(self) -> float:
        """R(x_0, y_k): what the answer is worth as an answer to the problem, whenever it was
        given.
        """
        return self.reward if self.unshaped is None else self.unshaped


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode at one problem: 1..horizon turns, each the revision of the one before."""

    problem: Problem
    session_id: int
    turns: tuple[Turn, ...]
    num_shortened: int = 0
    """Revise prompts in which the quoted attempt had to be cut to fit the prompt budget."""
    horizon: int | None = None
    """Most turns that it was to have, where that is fewer than the run's
    (`rltf.episode.val_feedback_every`).
    """


class Role(IntEnum):
    """Objective that a token trains. The workers get the integer."""

    ATTEMPT = 0
    """(x_k, y_k): reinforcement on the turns as they were played."""
    DISTILL = 1
    """(x_0, y_K): the last answer, as if it had been given to the first prompt."""
    CRITIQUE = 2
    """(critic prompt, the policy's own critique): credited with the turn that the critique led
    to.
    """
    FEEDBACK_MODELING = 3
    """(critic prompt with y_k, f_k), or f_k inside an appended conversation: the policy predicts
    the feedback.
    """
    IMITATE = 4
    """(x_0, correct y_K): supervised fine-tuning."""


CONTEXT = -1
"""In place of a role: a token that trains nothing."""

SAMPLED = (Role.ATTEMPT, Role.CRITIQUE)
"""Roles whose tokens the policy sampled under the row's own prompt: on-policy, so policy-gradient
losses apply.
"""


@dataclass(frozen=True, slots=True)
class TeacherSpan:
    """Tokens of a row that a teacher scores, and the prompt that it reads before them."""

    start: int
    """Position in `Row.response_ids` of the first of them."""
    end: int
    """One past the last."""
    prompt_ids: tuple[int, ...]
    against: tuple[tuple[int, ...], ...] = ()
    """Prompts that the teacher is contrasted with."""


@dataclass(frozen=True, slots=True)
class Row:
    """One (prompt, response) pair that is trained on. All per-token fields have length T =
    len(response_ids).
    """

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    role: tuple[int, ...]
    """`Role` of each token, or CONTEXT."""
    turn: tuple[int, ...]
    """Position in `Episode.turns` of the turn that each token is credited with."""
    log_probs: tuple[float, ...] | None
    """The sampler's log-probs of these tokens, under the prompt they were *sampled* from; 0 where
    they were not sampled.
    """
    rewards: tuple[float, ...]
    """Attempt rows: r_k on the last token of turn k, 0 elsewhere. Other rows: their turn's reward
    on the last token, which is what verl's own score metrics read; no objective takes it from
    there."""
    teachers: tuple[TeacherSpan, ...] = ()
    """In the order of their tokens, which no two share; empty without a teacher."""
