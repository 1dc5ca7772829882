"""Advice on a run before it starts, beyond its own refusals and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rltf_verl.config import DistillConfig, RLTFConfig
from rltf_verl.data.schema import files_of
from rltf_verl.envs.calls import bounded
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.placeholders import CRITIQUE, LATER, SLOW
from rltf_verl.feedback.judge_prompt import JUDGED
from rltf_verl.findings import Finding, Rule, findings
from rltf_verl.tools.feedback.attempts import (
    NO_IDEA,
    CheckedAttempt,
    FeedbackCall,
    MadeAttempt,
    forms_asked,
)
from rltf_verl.tools.feedback.verdicts import (
    FAULTS,
    CheckedFeedback,
    findings_of,
    quoted,
    same_text,
    tells_answer,
)
from rltf_verl.tools.plan.inputs import Inputs
from rltf_verl.tools.plan.play import GradedExample, PlannedEpisode, RunLengths
from rltf_verl.tools.plan.sizes import epochs_end_first

PLACEHOLDERS = (JUDGED, CRITIQUE, SLOW, *LATER.values())
LARGE = 100.0
"""Size of a reward that is worth a line."""
N, TEMPERATURE = (f"actor_rollout_ref.rollout.{name}" for name in ("n", "temperature"))
PROMPT, ANSWER = "data.max_prompt_length", "data.max_response_length"


def _only_console(inputs: Inputs) -> bool:
    logger = inputs.setting("trainer.logger")
    return list(logger) == ["console"] or logger == "console"


def _validates_on_training(inputs: Inputs) -> bool:
    files = (files_of(inputs.setting(f"data.{split}_files") or []) for split in ("train", "val"))
    return not set.isdisjoint(*map(set, files))


def _trains_on_siblings(inputs: Inputs) -> bool:
    attempt = None if inputs.parts is None else inputs.parts.config.attempt
    return attempt is not None and attempt.weight > 0 and attempt.estimator != "none"


RULES: tuple[Rule[Inputs], ...] = (
    Rule(
        "trainer.test_freq",
        lambda run: int(run.setting("trainer.test_freq")) <= 0,
        "only the untrained model is validated, if trainer.val_before_train is true",
        "set it to the steps between two validations, e.g. 10",
        "warning",
    ),
    Rule(
        "trainer.save_freq",
        lambda run: int(run.setting("trainer.save_freq")) <= 0,
        "no checkpoint is written, and the trained model is lost",
        "set it to the steps between two checkpoints, e.g. 50",
        "warning",
    ),
    Rule(
        "trainer.total_training_steps",
        epochs_end_first,
        "the run ends earlier, with its trainer.total_epochs={trainer.total_epochs}, and does not"
        " validate or save its last step",
        "raise trainer.total_epochs",
        "warning",
    ),
    Rule(
        "data.val_files",
        _validates_on_training,
        "is trained on, so validation does not measure other problems",
        "name another file",
        "warning",
    ),
    Rule(
        "trainer.logger",
        _only_console,
        "metrics are only printed",
        "set it to [console,file], which `rltf compare` reads",
        "warning",
    ),
    Rule(
        "rltf.episode_log.dir",
        lambda run: not run.setting("rltf.episode_log.dir"),
        "no episodes are kept, and `rltf view` has nothing to show",
        "name a folder",
        "warning",
    ),
    Rule(
        N,
        lambda run: int(run.setting(N)) == 1 and _trains_on_siblings(run),
        "a group of one is its own baseline, so answers as they were played train nothing",
        "set it to 8",
        "warning",
    ),
    Rule(
        TEMPERATURE,
        lambda run: int(run.setting(N)) > 1 and float(run.setting(TEMPERATURE)) == 0,
        "all answers of a group are the same, so they teach nothing",
        "set it to 1.0",
        "warning",
    ),
)
"""Settings that work and are seldom meant."""


def advice(
    inputs: Inputs,
    plays: Sequence[PlannedEpisode],
    no_idea: Sequence[GradedExample],
    measured: RunLengths | None,
) -> Iterator[Finding]:
    """Everything that is worth changing, beyond the run's own refusals and warnings."""
    yield from findings(RULES, inputs, inputs.config)
    if inputs.parts is not None:
        texts = not inputs.parts.env.acts  # a trajectory is no text that can be tried
        # A grader that was refused has failed before.
        refused = any(refusal.key == "rltf.env.name" for refusal in inputs.refusals)
        for line in (
            *(() if refused else _failures(plays)),
            *_scores(plays),
            *(_answers(plays, no_idea) if texts else ()),
            *_feedback(inputs.parts, plays),
            *_teachers(inputs.parts.config, plays),
        ):
            yield Finding("", None, line, "", "warning")
        yield from () if refused else _no_feedback(plays)
        yield from _grade_warnings(inputs.parts.config.distill, plays)
    if measured is not None:
        yield from _lengths(inputs, measured)


def _failures(plays: Sequence[PlannedEpisode]) -> Iterator[str]:
    """Each cause once."""
    causes = Counter(cause for play in plays if (cause := _error(play)) is not None)
    for cause, num in causes.items():
        yield f"the grader failed at {num} of {len(plays)} problems ({cause})"


def _scores(plays: Sequence[PlannedEpisode]) -> Iterator[str]:
    largest = max((abs(t.reward) for play in plays for t in play.episode.turns), default=0.0)
    if largest > LARGE:
        yield (
            f"rewards reach {largest:g}, and gradients grow with them: let the environment's scores"
            " be about 1"
        )


def _error(play: PlannedEpisode) -> str | None:
    grades = [one.grade for one in play.tried] + [turn.grade for turn in play.episode.turns]
    return next((grade.error for grade in grades if grade.error), None)


def _answers(plays: Sequence[PlannedEpisode], no_idea: Sequence[GradedExample]) -> Iterator[str]:
    for play in plays:
        at, reference = f"problem {play.case.problem.index}", play.case.problem.reference
        asked = forms_asked(play.case.messages)
        missed = [t for t in play.tried if t.form in asked]
        if _error(play) is not None:
            continue
        if missed and (play.right is None or play.right.form not in asked):
            reads = f", and reads {play.right.form}" if play.right is not None else ""
            yield (
                f"{at}: its prompt asks for {missed[0].form}, and the grader takes"
                f" {quoted(missed[0].text)} for wrong{reads}; change the prompts, or choose the"
                " environment that reads them"
            )
        elif play.right is None and reference.strip():
            yield (
                f"{at}: the grader takes its reference answer {quoted(reference)} for wrong in"
                " every form that was tried; look at rltf.env, or at the dataset's ground truth"
            )
        elif play.right is not None and not asked and play.right.form in ("\\boxed{}", "####"):
            yield (
                f"{at}: the grader reads {play.right.form}, and the prompt does not say so; add"
                " it to the prompts"
            )
    if no_idea and all(tried.grade.correct for tried in no_idea):
        yield f"the grader takes {NO_IDEA!r} for right: every answer would be rewarded"


def _feedback(parts: Parts, plays: Sequence[PlannedEpisode]) -> Iterator[str]:
    checked = CheckedFeedback(
        bounded(parts.env), [*map(_checked_attempt, plays)], constant=parts.provider.constant
    )
    # An answer that is repeated may be all; trajectories are made in one way, and have one fault.
    is_same = len({one.first.text for one in checked.wrong}) == 1 and not parts.env.acts
    more = "" if parts.env.acts else ". `rltf feedback check` tries more attempts"
    shown = (tells_answer, *([same_text] if is_same else []))
    for finding in findings_of(checked, [fault for fault in FAULTS if fault.find in shown]):
        yield (
            f"the feedback, at {finding.value} problems: {finding.key}; {finding.why};"
            f" {finding.fix}{more}"
        )


def _no_feedback(plays: Sequence[PlannedEpisode]) -> Iterator[Finding]:
    """Feedback that is withheld or fails; a refusal where it fails at all problems."""
    firsts = [play.episode.turns[0] for play in plays]
    dropped = [turn.error for turn in firsts if turn.withheld is not None]
    ends = ("feedback_unavailable", "horizon")
    failed = [t.error for t in firsts if t.withheld is None and t.error and t.stop in ends]
    for what, causes in (("the leak guard withholds the", dropped), ("there is no", failed)):
        if causes:
            why = (
                f"{what} feedback at {len(causes)} of {len(plays)} problems ({causes[0]}): no turn"
                " follows there, and no teacher reads it"
            )
            is_fatal = causes is failed and len(failed) == len(plays)
            yield Finding("", None, why, "", "error" if is_fatal else "warning")


def _teachers(config: RLTFConfig, plays: Sequence[PlannedEpisode]) -> Iterator[str]:
    alone = [p for p in plays if all(turn.teacher is None for turn in p.episode.turns)]
    if config.teaches and alone:
        reads = ", ".join(config.teacher.sources)
        yield (
            f"at {len(alone)} of {len(plays)} problems no attempt has a teacher: there is nothing"
            f" to read (rltf.teacher.reads={reads}), or it does not fit data.max_prompt_length"
        )


def _grade_warnings(distill: DistillConfig, plays: Sequence[PlannedEpisode]) -> Iterator[Finding]:
    """Grades in parts, and a baseline below most second answers."""
    scores = [turn.grade.score or 0.0 for play in plays for turn in play.episode.turns]
    below = distill.enabled and distill.baseline in ("first_turn", "leave_one_out", "none")
    if below and any(0 < score < 1 for score in scores):
        yield Finding(
            "rltf.distill.baseline",
            distill.baseline,
            "grades lie between 0 and 1, so nearly every second answer is above it and is imitated,"
            " whatever its grade",
            "set it to rejection",
            "warning",
        )


def _checked_attempt(play: PlannedEpisode) -> CheckedAttempt:
    """The first attempt, as `rltf feedback check` has it; all of a plan are of one row."""
    turn = play.episode.turns[0]
    text = "" if turn.feedback is None else turn.feedback.text
    said = "" if text in PLACEHOLDERS else text
    error, grade = turn.grade.error or "", turn.grade
    call = FeedbackCall(grade.correct, None, said, error, grade.format_ok)
    return CheckedAttempt(0, play.case, MadeAttempt("answer", turn.attempt.text), [call])


def _lengths(inputs: Inputs, measured: RunLengths) -> Iterator[Finding]:
    prompt, answer = int(inputs.setting(PROMPT)), int(inputs.setting(ANSWER))
    first, solutions = measured.first, measured.solutions
    refused = any(finding.key == PROMPT for finding in inputs.refusals)
    if first.num_over and not refused and not inputs.setting("data.filter_overlong_prompts"):
        yield Finding(
            PROMPT,
            prompt,
            f"{first.num_over} of {first.num} first prompts are longer (up to {first.longest}), and"
            " their answers are cut",
            "raise it, or set data.filter_overlong_prompts=True",
            "warning",
        )
    if solutions.num_over * 2 > solutions.num:
        yield Finding(
            ANSWER,
            answer,
            f"{solutions.num_over} of {solutions.num} reference solutions are longer (up to"
            f" {solutions.longest} tokens), so most answers will be cut",
            "raise it",
            "warning",
        )
    if measured.room is not None and measured.room < answer / 2:
        yield Finding(
            PROMPT,
            prompt,
            f"a second prompt has room for {measured.room} tokens of a first answer, which can have"
            f" {answer}; longer ones are quoted from their end",
            f"raise it by {answer - measured.room} to quote all",
            "warning",
        )
