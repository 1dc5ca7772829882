"""Lengths of the prompts, measured with the tokenizer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from omegaconf import DictConfig

from rltf_verl.adapters.startup.rules import ACTOR, ROLLOUT
from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.data.questions import QuestionRow
from rltf_verl.envs.calls import attempt_of, bounded, explain, grade_text, tools_of
from rltf_verl.envs.dry_run import DryRun, OutOfTimeError
from rltf_verl.episode.acting import world_seed
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.teacher import texts_known_before
from rltf_verl.feedback.judge_prompt import longest_feedback
from rltf_verl.findings import Finding, finding_of
from rltf_verl.prompts import render, template_of
from rltf_verl.prompts.lengths import empty_revision
from rltf_verl.registry import UserCodeError, described, raised_by
from rltf_verl.types import Message, Problem

NUM_BUDGET_PROBES = 32
"""Problems of the training set whose later prompts are measured at start."""
SHARE = 0.25
"""Share of the seconds for grades before a run; `rltf plan` has the rest for its problems."""
LIMIT = "data.max_prompt_length"
REVISE, TEACHER, CRITIC = "revise", "teacher's", "critic"


def check_row_budget(config: DictConfig) -> Iterator[Finding]:
    """A longest row that no micro-batch holds, which verl notices when such a row is there."""
    if config.trainer.device == "cpu":
        return  # our engine computes such a row alone
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
    # verl multiplies its limit on tokens by the ranks that share a sequence.
    ranks = int(actor.get("ulysses_sequence_parallel_size") or 1)
    for key, (used, limit) in limits.items():
        if used and limit is not None and int(limit) * ranks < longest:
            yield Finding(
                key,
                limit,
                "a row can have data.max_prompt_length + data.max_response_length ="
                f" {longest} tokens",
                f"set it to at least {-(-longest // ranks)}",
            )


@dataclass
class _Prompts:
    """Kind of a later prompt -> tokens and problem of each, at the first problems."""

    plain: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    judged: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """With a judge's longest feedback."""
    num_problems: int = 0


def check_prompt_budget(
    config: DictConfig,
    parts: Parts,
    questions: Sequence[QuestionRow],
    tokenizer: Any,
    dry_run: DryRun,
) -> Iterator[Finding]:
    """A `data.max_prompt_length` that cannot hold a second prompt, or a teacher's, even if the
    attempt had no tokens at all; and a teacher who has nothing to read.

    Measures the first problems of the training set with the environment's words on an empty answer.
    A first prompt above the limit is refused too: nothing cuts it, so its answer would be cut. With
    a slow grader, the longest words so far replace those of other problems. Prompts that are too
    long only with a judge's longest feedback are warnings.
    """
    limit, rltf = int(config.data.max_prompt_length), parts.config
    words = _Explanations(parts, dry_run)
    try:
        measured = _measure_prompts(config, words, questions, tokenizer)
    except ConfigError as error:
        yield finding_of(error)
        return
    if words.num_guessed:
        tokens = len(tokenizer.encode(words.longest, add_special_tokens=False))
        words.dry_run.left_out.append(
            f"feedback on {words.num_guessed} of {measured.num_problems} problems, whose later"
            f" prompts were measured with {tokens} tokens of feedback"
        )
    for kind in (REVISE, TEACHER):
        # Pairs: the longest prompt, and its problem.
        longest, worst = max(measured.plain[kind], default=(0, 0))
        if longest > limit:
            template = rltf.teacher.prompt if kind == TEACHER else rltf.episode.revise
            shorter = "" if kind == TEACHER else "; or set rltf.episode.revise=note, which is short"
            yield Finding(
                LIMIT,
                limit,
                f"the {kind} prompt of template {template} needs {longest} tokens for problem"
                f" {worst} before any attempt is quoted",
                f"set it to at least {longest} plus the length of an attempt{shorter}",
            )
    if measured.num_problems and rltf.teaches and not measured.plain[TEACHER]:
        why = f"none of the first {measured.num_problems} problems of the training data has one"
        fix = "give them one (docs/data.md says where), or let the teacher read feedback"
        reads = ", ".join(rltf.teacher.sources)
        yield Finding("rltf.teacher.reads", reads, why, fix)
    yield from _check_critic(limit, rltf, [tokens for tokens, _ in measured.plain[CRITIC]])
    yield from _too_long_if_judged(limit, parts, measured)


def _check_critic(limit: int, rltf: RLTFConfig, lengths: list[int]) -> Iterator[Finding]:
    """Feedback modelling without a row; a warning of problems that have none."""
    num = sum(length > limit for length in lengths)
    if not num:
        return
    why = (
        f"the critic prompt of rltf.feedback_modeling.critic={rltf.feedback_modeling.critic} does"
        f" not fit at {num} of {len(lengths)} problems, whose feedback is not predicted"
    )
    fix = f"set it to at least {max(lengths)} plus the length of an attempt"
    yield Finding(LIMIT, limit, why, fix, "error" if num == len(lengths) else "warning")


def _too_long_if_judged(limit: int, parts: Parts, measured: _Prompts) -> Iterator[Finding]:
    ends = {REVISE: "episodes end after their first answer", TEACHER: "attempts have no teacher"}
    for kind, end in ends.items():
        lengths = [tokens for tokens, _ in measured.judged[kind]]
        num = sum(length > limit for length in lengths)
        if num:
            yield Finding(
                LIMIT,
                limit,
                f"a judge may write {parts.words_of_judge} words, and with so many the {kind}"
                f" prompt does not fit at {num} of {len(lengths)} problems (up to {max(lengths)}"
                f" tokens before any attempt is quoted): those {end}",
                f"set it to at least {max(lengths)} plus the length of an attempt, or choose an"
                " rltf.feedback.style of fewer words",
                "warning",
            )


def _measure_prompts(
    config: DictConfig, words: _Explanations, questions: Sequence[QuestionRow], tokenizer: Any
) -> _Prompts:
    limit, measured, parts = int(config.data.max_prompt_length), _Prompts(), words.parts
    options = dict(config.data.get("apply_chat_template_kwargs") or {})
    tools = tools_of(parts.env)
    length = partial(_length, tokenizer, {**options, "tools": tools} if tools else options)
    rltf = parts.config
    reads = rltf.episode.horizon > 1 or (rltf.teaches and "feedback" in rltf.teacher.sources)
    for asked in questions:
        problem, question = asked.problem, list(asked.messages)
        tokens = length(question, problem.index)
        if parts.env.acts:  # refused here if the template has no place for it
            observation = {"role": "tool" if tools else "user", "content": "?"}
            answered = [*question, {"role": "assistant", "content": ""}, observation]
            length(answered, problem.index)
        # The tools add no token: the template leaves them out.
        if tools and tokens == _length(tokenizer, options, question, problem.index):
            key, model = "actor_rollout_ref.model.path", config.actor_rollout_ref.model.path
            why = f"its chat template shows none of the tools of {parts.env.name}"
            fix = "name another model, or a copy of its folder with a chat_template.jinja that does"
            raise ConfigError(Finding(key, model, why, fix))
        if tokens > limit and config.data.get("filter_overlong_prompts"):
            continue
        if tokens > limit:
            raise ConfigError(
                Finding(
                    LIMIT,
                    limit,
                    f"the first prompt of problem {problem.index} has {tokens} tokens",
                    "raise it, or leave such problems out with data.filter_overlong_prompts=True",
                )
            )
        measured.num_problems += 1
        samples = [(words.of(problem) if reads else "", measured.plain)]
        if parts.words_of_judge:
            samples.append((longest_feedback(parts.words_of_judge), measured.judged))
        for sample, lengths in samples:
            for kind, prompt in later_prompts(parts, problem, question, sample):
                lengths[kind].append((length(prompt, problem.index), problem.index))
    return measured


def check_world(parts: Parts, problem: Problem, dry_run: DryRun) -> Iterator[Finding]:
    """An environment that opens no state: nothing would be trained."""
    env = bounded(parts.env)
    try:
        with dry_run.explained("a state to open"):
            env.close(env.open(problem, world_seed(problem)))
    except UserCodeError as error:
        raised = raised_by(type(parts.env), error)
        why = f"problem {problem.index} has no state to act in: {raised}"
        fix = "correct `open` or `close`; `rltf env check` tries the other methods too"
        yield Finding("rltf.env.name", parts.config.env.name, why, fix)


def _length(tokenizer: Any, options: Mapping[str, Any], messages: list[Message], index: int) -> int:
    try:
        ids = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=False, **options
        )
    except Exception as error:  # templates raise what they like
        roles = " ".join(message["role"] for message in messages)
        raise ConfigError(
            "actor_rollout_ref.model.custom_chat_template: the chat template cannot render"
            f" problem {index}, whose messages are of {roles} ({described(error)}); change the"
            " prompts, or set another template"
        ) from error
    return len(ids)


def later_prompts(
    parts: Parts, problem: Problem, question: list[Message], feedback: str
) -> Iterator[tuple[str, list[Message]]]:
    """Kind of each prompt, and its conversation."""
    rltf = parts.config
    if rltf.episode.horizon > 1:
        template, append = rltf.episode.revise or "", rltf.episode.context == "append"
        yield REVISE, empty_revision(template, question, feedback, append=append)
    if rltf.feedback_modeling.makes_rows:
        critic = template_of("critic", rltf.feedback_modeling.critic)
        text = render(critic, question=question[-1]["content"], attempt="")
        yield CRITIC, [*question[:-1], {"role": "user", "content": text}]
    if not rltf.teaches:
        return
    sources = texts_known_before(parts, problem)
    if "feedback" in rltf.teacher.sources:
        sources["feedback"] = feedback
    if any(sources.values()) or "sibling" in rltf.teacher.sources:
        bare = [""] if rltf.teacher.against.name == "reference_only" else []
        # The teacher of `reference_only` is contrasted with a prompt without the question.
        for asked in (question[-1]["content"], *bare):
            text = render(rltf.teacher.prompt or "", question=asked, attempt="", **sources)
            yield TEACHER, [*question[:-1], {"role": "user", "content": text}]


@dataclass
class _Explanations:
    """The environment's explanations of empty answers. It calls no provider, which may cost money
    or be down. A judge's feedback has an unknown text.
    """

    parts: Parts
    dry_run: DryRun
    longest: str = ""
    num_guessed: int = 0
    """Problems for which there was no time."""

    def of(self, problem: Problem) -> str:
        """The explanation for a problem, or the longest so far."""
        # The prompt with the judge's longest text is measured apart (`_Prompts.judged`).
        if self.parts.words_of_judge:
            return "."
        env = bounded(self.parts.env)
        level = self.parts.config.feedback.provider.options.get("level", "verdict")
        levels = [level] if isinstance(level, str) else level
        try:
            # The first problem may take all of the time: without one text there is nothing to guess
            # by.
            with self.dry_run.timed(SHARE if self.longest else 1.0):
                grade = grade_text(env, problem, "")
                tried = problem, attempt_of(env, ""), grade
                text = max((explain(env, *tried, each)[0] for each in levels), key=len)
        except OutOfTimeError:
            self.num_guessed += 1
            return self.longest
        except Exception as error:  # of a user's environment
            raised = raised_by(type(self.parts.env), error)
            why = f"an empty answer to problem {problem.index} raised {raised}"
            fix = "grade it wrong and explain it; `rltf env check` tries other texts too"
            name = self.parts.config.env.name
            raise ConfigError(Finding("rltf.env.name", name, why, fix)) from error
        self.longest = max(self.longest, text, key=len)
        return text
