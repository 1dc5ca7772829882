"""A reward function as every verl user has one, as an environment: it grades, and its words are
the verifier's feedback.

The function is verl's `compute_score(data_source, solution_str, ground_truth, extra_info)`. It
returns a number, or a dict with `score` and whatever else it knows: `acc` (right or not), `pred`
(the answer that it read) and, under `feedback_key`, a text about what is wrong. It may be a
coroutine function. Prompts and answer formats stay those of the dataset.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

from rltf_verl.envs.base import CORRECT, INCORRECT, Env, FeedbackLevel, Splits
from rltf_verl.envs.calls import await_env, call_env
from rltf_verl.kinds import Within
from rltf_verl.registry import UserCodeTimeoutError, load, raised_by
from rltf_verl.types import Grade, Problem

VERL_SCORER = "verl.utils.reward_score:default_compute_score"
"""verl's own: it knows GSM8K, MATH and more by their `data_source`."""

SAID = "rltf.env.function: "
SET_BY = "(custom_reward_function.path and .name set it)"
"""Before every cause in `Grade.error`."""


class RewardFunction(Env):
    """The environment `reward_function`. `Problem.data` holds `question`, `data_source`,
    `ground_truth`, `extra_info` and `reference`, the ground truth as a text.

    Args:
        function: `./reward.py:compute_score` or `module:function`. `custom_reward_function.path`
            and `.name` of verl's config set it.
        kwargs: further arguments of every call (verl's `reward_kwargs`).
        correct_from: least score of a right answer, where the function returns no `acc`.
        feedback_key: key of the returned dict that holds feedback.
        timeout_s: seconds for one call; then the answer is graded wrong, with the cause in
            `Grade.error`.

    Raises:
        ValueError: `function` names nothing that can be called.
    """

    name = "reward_function"
    quotes_others = True

    def __init__(
        self,
        function: str = VERL_SCORER,
        kwargs: Mapping[str, Any] | None = None,
        correct_from: float = 1.0,
        feedback_key: str = "feedback",
        timeout_s: Annotated[float, Within(above=0, most=3600)] = 60.0,
    ) -> None:
        try:
            loaded = load("rltf.env.function", function)
        except ValueError as error:
            raise ValueError(f"{error} {SET_BY}") from error
        if not callable(loaded) or isinstance(loaded, type):
            kind = type(loaded).__name__
            raise ValueError(f"rltf.env.function={function}: is a {kind}; name a function")
        self._function: Callable[..., Any] = loaded
        self._named, self._own = function, function != VERL_SCORER
        self._kwargs = dict(kwargs or {})
        self._correct_from, self._feedback_key = correct_from, feedback_key
        self._timeout_s = float(timeout_s)

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Raises ValueError: the problems are those of a dataset that is there."""
        raise ValueError(
            "rltf.env.name=reward_function makes no problems: name your parquet files as"
            " data.train_files and data.val_files"
        )

    def data_of(self, question: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """`Problem.data` for a row in verl's form."""
        truth = _plain((row.get("reward_model") or {}).get("ground_truth"))
        ours = ("env", "task")  # datasets fills fields that only other files have with None
        info = row.get("extra_info") or {}
        info = {k: v for k, v in info.items() if not (k in ours and v is None)}
        return {
            "question": question,
            "data_source": row.get("data_source"),
            "ground_truth": truth,
            "extra_info": _plain(info),
            "reference": _text_of(truth),
        }

    def prompt(self, problem: Problem) -> str:
        """The question, which is the last message of the dataset's own prompt."""
        return str(problem.data["question"])

    def worked_solution(self, problem: Problem) -> str:
        """`extra_info.answer` or `.solution`, where verl's datasets keep it; empty if it is no
        text.
        """
        info = problem.data["extra_info"]
        solution = next((info[key] for key in ("solution", "answer") if info.get(key)), "")
        return solution if isinstance(solution, str) else ""

    async def agrade(self, problem: Problem, text: str) -> Grade:
        """The function's verdict; a function that raises, returns nonsense or takes too long grades
        wrong, with the cause in `Grade.error`.
        """
        arguments = {
            "data_source": problem.data["data_source"],
            "solution_str": text,
            "ground_truth": problem.data["ground_truth"],
            "extra_info": problem.data["extra_info"],
            **self._kwargs,
        }
        run: Any = await_env if inspect.iscoroutinefunction(self._function) else call_env
        try:
            return self._grade(await run(self._timeout_s, partial(self._function, **arguments)))
        except UserCodeTimeoutError:
            error = f"no score within rltf.env.timeout_s={self._timeout_s:g} s"
        except Exception as no_score:  # a value of user code may raise too
            error = raised_by(self._function if self._own else None, no_score)
        return Grade(correct=False, format_ok=True, error=f"{SAID}{error[:500]}")

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """The function's feedback, from level `hint` on; `full` adds the ground truth."""
        if grade.correct:
            return CORRECT
        words = [INCORRECT]
        if level in ("hint", "full"):
            words.append(str(grade.details.get("feedback", "")))
        if level == "full" and problem.reference:
            words.append(f"The answer is {problem.reference}.")
        return " ".join(filter(None, words))

    def trouble_with(self, problem: Problem) -> str | None:
        """Why answers to a problem cannot be graded; None if they can."""
        error = self.grade(problem, problem.reference).error
        if error is None:
            return None
        source, cause = problem.data["data_source"], error.removeprefix(SAID)
        if self._own:
            return (
                f"rltf.env.function={self._named} {SET_BY}:"
                f" {cause} (the reference as the answer, data_source={source}); fix the function"
            )
        return (
            f"data_source={source}: {error}; name a function that scores"
            " it: custom_reward_function.path=./reward.py custom_reward_function.name=compute_score"
        )

    def _grade(self, returned: Any) -> Grade:
        """Raises ValueError: it is no score."""
        fields = returned if isinstance(returned, Mapping) else {"score": returned}
        if "score" not in fields:
            raise ValueError(f"returned a dict without `score`: {sorted(map(str, fields))}")
        score = _number("score", fields["score"])
        least, verdict = self._correct_from, score
        if fields.get("acc") is not None:
            # `acc` is 1 for a right answer and 0 for a wrong one, whatever the score's scale is.
            least, verdict = 1.0, _number("acc", fields["acc"])
        pred = fields.get("pred")
        unread = "pred" in fields and (pred is None or (isinstance(pred, str) and not pred))
        feedback = fields.get(self._feedback_key)
        if not (feedback is None or isinstance(feedback, str)):
            raise ValueError(
                f"returned the {self._feedback_key} {_quoted_value(feedback)}; return one text"
            )
        return Grade(
            correct=verdict >= least,
            format_ok=not unread,
            parsed=None if pred is None else str(pred),
            score=score,
            details={} if feedback is None else {"feedback": str(feedback)},
        )


def _number(name: str, value: Any) -> float:
    """Raises ValueError."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"returned the {name} {_quoted_value(value)}; return a number") from None
    if not math.isfinite(number):
        raise ValueError(f"returned the {name} {number}")
    return number


def _quoted_value(value: Any) -> str:
    return "None" if value is None else f"{str(value)[:80]!r}, a {type(value).__name__}"


def _text_of(truth: Any) -> str:
    """A truth as a text; of several accepted texts (`{"target": ["Paris", …]}`) the first; empty
    for a task without one.
    """
    if truth is None:
        return ""
    is_wrapped = isinstance(truth, Mapping) and len(truth) == 1
    match next(iter(truth.values())) if is_wrapped else truth:
        case [str(first), *_]:
            return first
    return truth if isinstance(truth, str) else json.dumps(truth, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value of a dataset's column as JSON has it: arrays as lists, what JSON has no word for as
    text.
    """
    if hasattr(value, "tolist"):  # numpy, which verl's dataloader makes of lists
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
