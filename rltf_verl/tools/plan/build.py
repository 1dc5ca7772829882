"""The plan as data: what `rltf plan --json` prints and the terminal shows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, get_args

from rltf_verl.adapters.startup.machine import PRECISIONS, loggers_of
from rltf_verl.adapters.training.run_files import file_log_path
from rltf_verl.config import RLTFConfig
from rltf_verl.config.rules import experimental
from rltf_verl.data.questions import QuestionRow
from rltf_verl.data.schema import files_of
from rltf_verl.envs.base import GradeUnavailable
from rltf_verl.envs.dry_run import OutOfTimeError
from rltf_verl.episode.placeholders import with_placeholders
from rltf_verl.findings import Finding, Level
from rltf_verl.judge.runtime import run_to_end
from rltf_verl.objectives import Method
from rltf_verl.objectives.user_code import OwnCodeError
from rltf_verl.registry import described
from rltf_verl.runlog.record import turn_record
from rltf_verl.runlog.turns import Record
from rltf_verl.tools.feedback.attempts import NO_IDEA
from rltf_verl.tools.plan.advice import advice
from rltf_verl.tools.plan.inputs import Inputs
from rltf_verl.tools.plan.play import (
    GradedExample,
    PlannedEpisode,
    RunLengths,
    measure_lengths,
    parts_of_row,
    play_problem,
    tried_answer,
)
from rltf_verl.tools.plan.row_rules import advantage_of, weight_of
from rltf_verl.tools.plan.sizes import step_sizes, steps_of, validations_of
from rltf_verl.tools.report.row_words import TRAINS, title
from rltf_verl.types import Turn

PURPOSES = {
    **TRAINS,
    "logit_distill": "answers, towards what the teacher says there",
}
TAUGHT = {"first": "first answers", "last": "last answers", "all": "answers"}
"""`rltf.teacher.turns` in words."""


@dataclass(frozen=True)
class PlannedProblem:
    """A problem, its episode, and what the episode trains."""

    index: int
    reference: str
    right: dict[str, str] | None
    """`text` and `form` of an answer that is graded right."""
    turns: list[Record]
    """Records of the episode log; prompts are the text of their tokens."""
    judge_prompts: list[str]
    critic_prompts: list[str]
    rows: list[dict[str, Any]]
    """`title`, and `parts` with role, turn, tokens and the advantage in words."""


@dataclass(frozen=True)
class Plan:
    """A run's plan. Mappings have the labels and values that are printed."""

    run: dict[str, Any]
    problems: list[PlannedProblem]
    lengths: RunLengths | None
    step: dict[str, int | float | None] | None
    schedule: dict[str, Any]
    memory: list[str]
    refusals: list[str]
    warnings: list[str]


def make_plan(inputs: Inputs, num_problems: int, attempt: str | None = None) -> Plan:
    """Play `num_problems` of the cases, and say what the run will do.

    Args:
        inputs: the run.
        num_problems: how many to play.
        attempt: the first answer of each; None: a wrong one that is made up.
    """
    episodes, no_idea, lengths, trouble = run_to_end(_play(inputs, num_problems, attempt))
    warnings = [*inputs.warnings, *inputs.dry_run.findings(), *trouble]
    warnings += advice(inputs, episodes, no_idea, lengths)
    config = None if inputs.parts is None else inputs.parts.config
    found = [*inputs.refusals, *warnings]
    lines = {level: [str(f) for f in found if f.level == level] for level in get_args(Level)}
    # Findings of level `note` are the estimates of memory; a run without a config has no sizes.
    return Plan(
        run=_run(inputs),
        problems=[_problem(inputs, episode) for episode in episodes],
        lengths=lengths,
        step=None if config is None else step_sizes(inputs, config, episodes),
        schedule=_schedule(inputs, config),
        memory=lines["note"],
        refusals=lines["error"],
        warnings=list(dict.fromkeys(lines["warning"])),
    )


async def _play(
    inputs: Inputs, num: int, attempt: str | None
) -> tuple[list[PlannedEpisode], list[GradedExample], RunLengths | None, list[Finding]]:
    parts, method, policy, cases = inputs.parts, inputs.method, inputs.policy, inputs.cases
    if parts is None or method is None or policy is None or not cases:
        return [], [], None, []
    plays: list[PlannedEpisode] = []
    no_idea: list[GradedExample] = []
    trouble: list[Finding] = []
    refused = set(map(str, inputs.refusals))
    (acting, asked), dry_run = with_placeholders(parts), inputs.dry_run

    async def play(case: QuestionRow) -> None:
        plays.append(
            await play_problem(acting, method, asked, policy, case, cases, attempt, dry_run)
        )
        no_idea.append(await tried_answer(parts.env, case, NO_IDEA, "no answer", dry_run))

    for i, case in enumerate(cases[:num]):
        try:
            failure = await _failure(play(case))
        except OutOfTimeError:
            dry_run.left_out.append(f"{len(cases[i:num])} of the {num} problems to show")
            break
        if failure is not None and failure not in refused:
            # Training can do without a grade after a recorded answer.
            at = "validations" if parts.env.has_record else f"problem {case.problem.index}"
            trouble.append(Finding("", None, f"{at}: {failure}", "", "warning"))
    answer = int(inputs.setting("data.max_response_length"))
    return plays, no_idea, await measure_lengths(parts, policy, cases, plays, answer), trouble


async def _failure(play: Coroutine[None, None, None]) -> str | None:
    """Why a problem could not be played."""
    try:
        await play
    except OutOfTimeError:
        raise
    except GradeUnavailable as error:
        return f"could not be graded ({error.cause})"
    except OwnCodeError as error:
        return str(error)
    except Exception as error:  # environments, providers and templates are user code
        return f"could not be played ({described(error)})"
    return None


def _run(inputs: Inputs) -> dict[str, Any]:
    get = inputs.setting
    # A table, printed in this order.
    about: dict[str, Any] = {
        "name": get("trainer.experiment_name"),
        "model": get("actor_rollout_ref.model.path"),
        "devices": f"{get('trainer.nnodes')} x {get('trainer.n_gpus_per_node')}"
        f" {get('trainer.device')}, {get('actor_rollout_ref.rollout.name')}",
        "precision": " in the update, ".join(str(get(key) or "bf16") for key in PRECISIONS)
        + " in the rollout",
        "train_files": files_of(get("data.train_files") or []),
        "train_rows": inputs.num_train,
        "val_files": files_of(get("data.val_files") or []),
        "val_rows": inputs.num_val,
        "max_prompt_length": get("data.max_prompt_length"),
        "max_response_length": get("data.max_response_length"),
        "episodes_per_problem": get("actor_rollout_ref.rollout.n"),
    }
    if inputs.method is not None:
        about |= _own_facts(inputs, inputs.method)
    return about


def _own_facts(inputs: Inputs, method: Method) -> dict[str, Any]:
    """Facts of our runs only, after those of verl's own."""
    config = method.config
    feedback, episode = config.feedback, config.episode
    level = feedback.provider.options.get("level") or feedback.provider.options.get("style")
    words = None if inputs.parts is None else inputs.parts.words_of_judge or None
    # A table, printed in this order.
    return {
        "environment": config.env.name,
        "turns": episode.horizon,
        "context": episode.context,
        "revise": episode.revise if episode.horizon > 1 else None,
        "feedback": feedback.provider.name + (f", {level}" if level else ""),
        "judge": words and f"is not asked: a placeholder is shown for up to {words} words",
        "leak_guard": feedback.guard.action,
        "teacher": _teacher(config),
        "experimental": ", ".join(experimental(config)) or None,
        "trains": [
            f"{own.name} × {weight_of(own.settings, config)}:"
            f" {PURPOSES.get(own.name, 'your objective')}"
            for own in method.objectives
            if own.has_effect and own.settings.weight
        ],
    }


def _teacher(config: RLTFConfig) -> str | None:
    if not config.teaches:
        return None
    own = config.teacher
    only = "" if own.right else " that are wrong"
    return f"of {TAUGHT[own.turns]}{only}; reads {', '.join(own.sources)}, by template {own.prompt}"


def _problem(inputs: Inputs, play: PlannedEpisode) -> PlannedProblem:
    assert inputs.policy is not None
    assert inputs.method is not None
    method, text = inputs.method, inputs.policy.text
    turns = [_turn(text, turn) for turn in play.episode.turns]
    rows = []
    for row in play.rows:
        parts = [
            {
                "role": role,
                "turn": turn,
                "tokens": tokens,
                "advantage": advantage_of(role, method.config, taught=bool(row.teachers)),
            }
            for role, turn, tokens in parts_of_row(row, method)
        ]
        rows.append({"title": title({"parts": parts}, turns), "parts": parts})
    # the critics' prompts, and those at which rows predict the feedback; often the same
    critics = [*play.critics, *_critic_prompts(play)]
    return PlannedProblem(
        index=play.case.problem.index,
        reference=play.case.problem.reference,
        right=None if play.right is None else {"text": play.right.text, "form": play.right.form},
        turns=turns,
        judge_prompts=[prompt for _, prompt in play.calls],
        critic_prompts=[text(ids) for ids in dict.fromkeys(critics)],
        rows=rows,
    )


def _critic_prompts(play: PlannedEpisode) -> list[tuple[int, ...]]:
    """Prompts of the rows that predict the feedback at a prompt of its own."""
    answered = {turn.attempt.prompt_ids for turn in play.episode.turns}
    return [row.prompt_ids for row in play.rows if row.prompt_ids not in answered]


def _turn(text: Callable[[tuple[int, ...]], str], turn: Turn) -> Record:
    """The turn's record with all that its prompts hold, special tokens too."""
    record = turn_record(turn) | {"prompt": text(turn.attempt.prompt_ids)}
    if turn.teacher is not None:
        record["teacher"]["prompt"] = text(turn.teacher.ids)
    return record


def _schedule(inputs: Inputs, config: RLTFConfig | None) -> dict[str, Any]:
    get, steps = inputs.setting, steps_of(inputs)
    every = 1 if config is None else config.episode.val_feedback_every
    # A table, printed in this order.
    return {
        "steps": steps,
        "steps_per_epoch": inputs.num_train // int(get("data.train_batch_size")),
        "epochs": get("trainer.total_epochs"),
        "logger": loggers_of(inputs.config),
        "metrics_file": file_log_path(inputs.config),
        "validations": validations_of(inputs),
        "validate_before": bool(get("trainer.val_before_train")),
        "validate_every": int(get("trainer.test_freq")),
        "validation_feedback_every": every,
        "validation_episodes": inputs.num_val * int(get("actor_rollout_ref.rollout.val_kwargs.n")),
        "save_every": int(get("trainer.save_freq")),
        "folder": get("trainer.default_local_dir"),
        "resumes": inputs.resumes,
        "episode_log": get("rltf.episode_log.dir"),
    }
