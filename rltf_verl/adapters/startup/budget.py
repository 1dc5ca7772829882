"""Whether the prompts fit, measured with the tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.startup.verl_settings import ACTOR, ROLLOUT
from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.data.schema import files_of, first_rows, problem_of, text_of
from rltf_verl.envs.trials import OutOfTimeError, Trials
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.teacher import known_beforehand
from rltf_verl.feedback.judge_prompt import longest_feedback
from rltf_verl.findings import Finding
from rltf_verl.prompts import render, template_of
from rltf_verl.types import Message, Problem

NUM_BUDGET_PROBES = 32
"""Problems of the training set whose later prompts are measured at start."""
SHARE = 0.25
"""Of the seconds for grades before a run: `rltf plan` has the rest for the problems it shows."""
REVISE, TEACHER, CRITIC = "revise", "teacher's", "critic"


Tell = Callable[[str], None]


def check_budget(
    config: DictConfig, parts: Parts, tokenizer: Any, warn: Tell | None = None, *, trials: Trials
) -> None:
    """`check_prompt_budget` of the first rows of the first training file, as verl will read them.
    A dataset class of one's own is left to the trainer, which has one.
    """
    if config.trainer.device != "cpu":
        check_row_budget(config)  # our engine for the CPU computes a longer row alone
    if OmegaConf.select(config, "data.custom_cls.path") is None:
        rows = first_rows(files_of(config.data.train_files)[0], NUM_BUDGET_PROBES)
        check_prompt_budget(config, parts, rows, tokenizer, warn, trials=trials)


def check_row_budget(config: DictConfig) -> None:
    """Raise ConfigError if the longest row does not fit a micro-batch, which verl notices when such
    a row is there.
    """
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    longest = int(config.data.max_prompt_length) + int(config.data.max_response_length)
    limits = {
        f"{ACTOR}.ppo_max_token_len_per_gpu": (
            actor.use_dynamic_bsz,
            actor.get("ppo_max_token_len_per_gpu"),
        ),
        f"{ROLLOUT}.log_prob_max_token_len_per_gpu": (
            rollout.get("log_prob_use_dynamic_bsz"),
            rollout.get("log_prob_max_token_len_per_gpu"),
        ),
    }
    ranks = int(actor.get("ulysses_sequence_parallel_size") or 1)
    for key, (used, limit) in limits.items():
        if used and limit is not None and int(limit) * ranks < longest:
            raise ConfigError(
                f"{key}={limit}: a row can have data.max_prompt_length + data.max_response_length ="
                f" {longest} tokens; set it to at least {-(-longest // ranks)}"
            )


@dataclass
class _Prompts:
    """The prompts of the first problems."""

    longest: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Whose prompt -> tokens of the longest later one, and its problem."""
    num_problems: int = 0
    num_told: int = 0
    """Problems whose teacher has something to read."""
    critic: list[int] = field(default_factory=list)
    """Tokens of each critic prompt that feedback is predicted at."""
    judged: dict[str, list[int]] = field(default_factory=dict)
    """Whose prompt -> tokens of each, with the longest feedback that a judge may write."""


def check_prompt_budget(
    config: DictConfig,
    parts: Parts,
    dataset: Any,
    tokenizer: Any,
    warn: Tell | None = None,
    *,
    trials: Trials | None = None,
) -> None:
    """Refuse a `data.max_prompt_length` that cannot hold a second prompt, or a teacher's, even if
    the attempt had no tokens at all; and a teacher who has nothing to read.

    Measures the first problems of the training set with what the environment says of an empty
    answer. A first prompt above the limit is refused too: nothing cuts it, so its answer would be
    cut by as much. With a slow grader, the longest words so far stand for those of other problems.
    Whoever asks to be warned is told of prompts that are too long only with the longest feedback
    that a judge may write.
    """
    limit, rltf = int(config.data.max_prompt_length), parts.config
    said = _Said(parts, trials or Trials())
    measured = _measured(config, said, dataset, tokenizer)
    if said.num_guessed:
        tokens = len(tokenizer.encode(said.longest, add_special_tokens=False))
        said.trials.left_out.append(
            f"feedback on {said.num_guessed} of {measured.num_problems} problems, whose later"
            f" prompts were measured with {tokens} tokens of feedback"
        )
    for what, (longest, worst) in measured.longest.items():
        if longest > limit:
            template = rltf.teacher.prompt if what == TEACHER else rltf.episode.revise
            shorter = "" if what == TEACHER else "; or set rltf.episode.revise=note, which is short"
            raise ConfigError(
                f"data.max_prompt_length={limit}: the {what} prompt of template {template}"
                f" needs {longest} tokens for problem {worst} before any attempt is quoted; set it"
                f" to at least {longest} plus the length of an attempt{shorter}"
            )
    if measured.num_problems and rltf.teaches and not measured.num_told:
        reads = ", ".join(rltf.teacher.sources)
        raise ConfigError(
            f"rltf.teacher.reads={reads}: none of the first {measured.num_problems} problems of the"
            " training data has one; give them one (docs/methods.md says where), or let the teacher"
            " read feedback"
        )
    _check_critic(config, rltf, measured.critic, warn)
    if warn is not None:
        for message in _too_long_if_judged(limit, parts, measured):
            warn(message)


def _check_critic(
    config: DictConfig, rltf: RLTFConfig, lengths: list[int], warn: Tell | None
) -> None:
    """Refuse feedback modelling without a row; warn of problems that have none."""
    limit = int(config.data.max_prompt_length)
    num = sum(length > limit for length in lengths)
    if not num:
        return
    finding = Finding(
        "data.max_prompt_length",
        limit,
        f"the critic prompt of rltf.feedback_modeling.critic={rltf.feedback_modeling.critic} does"
        f" not fit at {num} of {len(lengths)} problems, whose feedback is not predicted",
        f"set it to at least {max(lengths)} plus the length of an attempt",
    )
    if num == len(lengths):
        raise ConfigError(str(finding))
    if warn is not None:
        warn(str(finding))


def _too_long_if_judged(limit: int, parts: Parts, measured: _Prompts) -> Iterator[str]:
    ends = {REVISE: "episodes end after their first answer", TEACHER: "attempts have no teacher"}
    for what, lengths in measured.judged.items():
        num = sum(length > limit for length in lengths)
        if num:
            yield (
                f"data.max_prompt_length={limit}: a judge may write {parts.words_of_judge} words,"
                f" and with so many the {what} prompt does not fit at {num} of {len(lengths)}"
                f" problems (up to {max(lengths)} tokens before any attempt is quoted): those"
                f" {ends[what]}. Set it to at least {max(lengths)} plus the length of an attempt,"
                " or choose an rltf.feedback.style of fewer words"
            )


def _measured(config: DictConfig, said: _Said, dataset: Any, tokenizer: Any) -> _Prompts:
    limit, measured, parts = int(config.data.max_prompt_length), _Prompts(), said.parts
    length = partial(_length, tokenizer, config.data.get("apply_chat_template_kwargs") or {})
    rltf = parts.config
    reads = rltf.episode.horizon > 1 or (rltf.teaches and "feedback" in rltf.teacher.sources)
    for i in range(min(len(dataset), NUM_BUDGET_PROBES)):
        row = dataset[i]
        problem, question = problem_of(parts.env, row), first_prompt(row)
        tokens = length(question, problem.index)
        if tokens > limit and config.data.get("filter_overlong_prompts"):
            continue
        if tokens > limit:
            raise ConfigError(
                f"data.max_prompt_length={limit}: the first prompt of problem {problem.index} has"
                f" {tokens} tokens; raise it, or leave such problems out with"
                " data.filter_overlong_prompts=True"
            )
        measured.num_problems += 1
        sample = said.of(problem) if reads else ""
        for what, prompt in _later_prompts(parts, problem, question, sample):
            measured.num_told += what == TEACHER
            needed = length(prompt, problem.index)
            if what == CRITIC:
                measured.critic.append(needed)
                continue
            if needed > measured.longest.get(what, (0, 0))[0]:
                measured.longest[what] = needed, problem.index
        if parts.words_of_judge:
            sample = longest_feedback(parts.words_of_judge)
            for what, prompt in _later_prompts(parts, problem, question, sample):
                if what != CRITIC:  # it does not quote the feedback
                    measured.judged.setdefault(what, []).append(length(prompt, problem.index))
    return measured


def _length(tokenizer: Any, options: Mapping[str, Any], messages: list[Message], index: int) -> int:
    try:
        ids = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=False, **options
        )
    except Exception as error:  # templates raise what they like
        roles = " ".join(message["role"] for message in messages)
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ConfigError(
            "actor_rollout_ref.model.custom_chat_template: the chat template cannot render"
            f" problem {index}, whose messages are of {roles} ({cause}); change the prompts, or"
            " set another template"
        ) from error
    return len(ids)


def _later_prompts(
    parts: Parts, problem: Problem, question: list[Message], feedback: str
) -> Iterator[tuple[str, list[Message]]]:
    """Whose prompt it is, and its conversation."""
    rltf = parts.config
    if rltf.episode.horizon > 1:
        yield REVISE, second_prompt(rltf, question, feedback)
    if rltf.feedback_modeling.makes_rows:
        template = template_of("critic", rltf.feedback_modeling.critic)
        text = render(template, question=question[-1]["content"], attempt="")
        yield CRITIC, [*question[:-1], {"role": "user", "content": text}]
    if not rltf.teaches:
        return
    told = known_beforehand(parts, problem)
    if "feedback" in rltf.teacher.sources:
        told["feedback"] = feedback
    if any(told.values()) or "sibling" in rltf.teacher.sources:
        text = render(
            rltf.teacher.prompt or "", question=question[-1]["content"], attempt="", **told
        )
        yield TEACHER, [*question[:-1], {"role": "user", "content": text}]


def first_prompt(row: Mapping[str, Any]) -> list[Message]:
    """The messages of a dataset row."""
    raw = row["raw_prompt"] if "raw_prompt" in row else row["prompt"]
    return [{"role": str(m["role"]), "content": text_of(m["content"])} for m in raw]


def second_prompt(rltf: RLTFConfig, question: list[Message], feedback: str) -> list[Message]:
    """The conversation of the second turn, after an attempt without text."""
    template = template_of("revise", rltf.episode.revise or "")
    text = render(template, question=question[-1]["content"], attempt="", feedback=feedback)
    revise = {"role": "user", "content": text}
    if rltf.episode.context == "append":
        return [*question, {"role": "assistant", "content": ""}, revise]
    return [*question[:-1], revise]


@dataclass
class _Said:
    """The environment's explanations of empty answers; a provider is not asked, it may cost money
    or be down. Of a judge's nothing is known but that there is some.
    """

    parts: Parts
    trials: Trials
    longest: str = ""
    num_guessed: int = 0
    """Problems for which there was no time."""

    def of(self, problem: Problem) -> str:
        """That of a problem, or the longest of those before."""
        if self.parts.words_of_judge:
            return "."
        env = self.parts.env
        level = self.parts.config.feedback.provider.options.get("level", "verdict")
        levels = [level] if isinstance(level, str) else level
        try:
            with self.trials.timed(SHARE if self.longest else 1.0):
                grade = env.grade(problem, "")
        except OutOfTimeError:
            self.num_guessed += 1
            return self.longest
        text = max((env.explain(problem, "", grade, each) for each in levels), key=len)
        self.longest = max(self.longest, text, key=len)
        return text
