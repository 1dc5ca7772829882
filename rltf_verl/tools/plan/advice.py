"""What to look at before the run: a line each, the key first where there is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rltf_verl.config import RLTFConfig
from rltf_verl.data.schema import files_of
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.placeholders import CRITIQUE, LATER
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.feedback.judge_prompt import JUDGED
from rltf_verl.texts import counted
from rltf_verl.tools.plan.answers import NO_IDEA, Tried, forms_asked
from rltf_verl.tools.plan.inputs import Inputs
from rltf_verl.tools.plan.measure import Lengths
from rltf_verl.tools.plan.play import Played
from rltf_verl.tools.plan.sizes import epochs_end_first, steps_of
from rltf_verl.types import Turn

PLACEHOLDERS = (JUDGED, CRITIQUE, *LATER.values())
SHOWN = 80


def advice(
    inputs: Inputs, plays: Sequence[Played], no_idea: Sequence[Tried], measured: Lengths | None
) -> list[str]:
    """Everything that is worth changing, without what the run refuses or warns of itself."""
    found = [*_settings(inputs)]
    if inputs.parts is not None:
        found += _groups(inputs, inputs.parts.config)
        found += _failures(inputs, plays)
        found += _answers(plays, no_idea)
        found += _feedback(inputs.parts, plays)
        found += _teachers(inputs.parts.config, plays)
    if measured is not None:
        found += _lengths(inputs, measured)
    return found


def _settings(inputs: Inputs) -> Iterator[str]:
    get = inputs.setting
    test, save = int(get("trainer.test_freq")), int(get("trainer.save_freq"))
    if test <= 0:
        first = bool(get("trainer.val_before_train"))
        yield (
            f"trainer.test_freq={test}: {'only the untrained model is' if first else 'nothing is'}"
            " validated; set it to the steps between two validations, e.g. 10"
        )
    if save <= 0:
        yield (
            f"trainer.save_freq={save}: no checkpoint is written, and the trained model is lost;"
            " set it to the steps between two checkpoints, e.g. 50"
        )
    if epochs_end_first(inputs):
        yield (
            f"trainer.total_training_steps={get('trainer.total_training_steps')}: the run ends"
            f" after {counted(steps_of(inputs), 'step')}, with its trainer.total_epochs="
            f"{get('trainer.total_epochs')}, and does not validate or save its last step; raise"
            " trainer.total_epochs"
        )
    both = set(files_of(get("data.train_files") or [])) & set(files_of(get("data.val_files") or []))
    if both:
        yield (
            f"data.val_files={', '.join(sorted(both))}: is trained on, so validation does not say"
            " what the policy can do with other problems; name a file of its own"
        )
    logger = get("trainer.logger")
    if [logger] == ["console"] or list(logger) == ["console"]:
        yield (
            "trainer.logger=[console]: metrics are only printed; set it to [console,file], which"
            " `rltf compare` reads"
        )
    if not get("rltf.episode_log.dir"):
        yield (
            "rltf.episode_log.dir=null: no episodes are kept, and `rltf view` has nothing to show;"
            " name a folder"
        )


def _groups(inputs: Inputs, config: RLTFConfig) -> Iterator[str]:
    get = inputs.setting
    n, temperature = (
        int(get("actor_rollout_ref.rollout.n")),
        float(get("actor_rollout_ref.rollout.temperature")),
    )
    if n == 1 and config.attempt.weight > 0 and config.attempt.estimator != "none":
        yield (
            "actor_rollout_ref.rollout.n=1: a group of one is its own baseline"
            f" (rltf.attempt.estimator={config.attempt.estimator}), so answers as they were played"
            " train nothing; set it to 8"
        )
    if n > 1 and temperature == 0:
        yield (
            "actor_rollout_ref.rollout.temperature=0.0: all answers of a group are the same, so"
            " they teach nothing; set it to 1.0"
        )


def _failures(inputs: Inputs, plays: Sequence[Played]) -> Iterator[str]:
    """Each cause once, and none that is refused."""
    causes = Counter(cause for play in plays if (cause := _error(play)) is not None)
    for cause, num in causes.items():
        if not any(cause.partition(": ")[2] in refusal for refusal in inputs.refusals):
            yield f"the grader failed at {num} of {len(plays)} problems ({cause})"


def _error(played: Played) -> str | None:
    return next((t.grade.error for t in played.tried if t.grade.error), None)


def _answers(plays: Sequence[Played], no_idea: Sequence[Tried]) -> Iterator[str]:
    for played in plays:
        at, reference = f"problem {played.case.problem.index}", played.case.problem.reference
        asked = forms_asked(played.case)
        missed = [t for t in played.tried if t.form in asked]
        if _error(played) is not None:
            continue
        if missed and (played.right is None or played.right.form not in asked):
            reads = f", and reads {played.right.form}" if played.right is not None else ""
            yield (
                f"{at}: its prompt asks for {missed[0].form}, and the grader takes"
                f" {_quoted(missed[0].text)} for wrong{reads}; change the prompts, or choose the"
                " environment that reads them"
            )
        elif played.right is None and reference.strip():
            yield (
                f"{at}: the grader takes its reference answer {_quoted(reference)} for wrong in"
                " every form that was tried; look at rltf.env, or at the dataset's ground truth"
            )
        elif played.right is not None and not asked and played.right.form in ("\\boxed{}", "####"):
            yield (
                f"{at}: the grader reads {played.right.form}, and the prompt does not say so; add"
                " it to the prompts"
            )
    if no_idea and all(tried.grade.correct for tried in no_idea):
        yield f"the grader takes {NO_IDEA!r} for right: every answer would be rewarded"


def _feedback(parts: Parts, plays: Sequence[Played]) -> Iterator[str]:
    config = parts.config
    firsts = [play.episode.turns[0] for play in plays]
    num = len(firsts)
    told = [play for play in plays if _tells(parts, play)]
    dropped = [turn.error for turn in firsts if turn.withheld is not None]
    failed = [turn.error for turn in firsts if turn.withheld is None and _failed(turn)]
    if told and config.episode.horizon > 1:
        meant = ", as acknowledge_leaks=true says" if config.feedback.acknowledge_leaks else ""
        yield (
            f"the feedback tells the answer at {len(told)} of {num} problems{meant}; later answers"
            " may be copies of it: rltf.feedback.level=hint, or rltf.feedback.guard.action=drop"
        )
    same = {turn.feedback.text for turn in firsts if turn.feedback is not None}
    read = all(t.feedback and t.grade.format_ok and t.grade.error is None for t in firsts)
    if num > 1 and read and len(same) == 1 and not (parts.provider.constant or _later(*same)):
        yield (
            f"the feedback is {_quoted(*same)} at all {num} problems, and says nothing else; let"
            " the environment say more (a reward function returns it as `feedback`), or choose"
            " another rltf.feedback.provider"
        )
    for what, causes in (("the leak guard withholds the", dropped), ("there is no", failed)):
        if causes:
            less = "have one turn" if config.episode.horizon > 1 else "have no teacher who reads it"
            yield (
                f"{what} feedback at {len(causes)} of {num} problems ({causes[0]}): those episodes"
                f" {less}"
            )


def _failed(turn: Turn) -> bool:
    return turn.error is not None and turn.stop in ("feedback_unavailable", "horizon")


def _teachers(config: RLTFConfig, plays: Sequence[Played]) -> Iterator[str]:
    alone = [p for p in plays if all(turn.teacher is None for turn in p.episode.turns)]
    if config.teaches and alone:
        reads = ", ".join(config.teacher.sources)
        yield (
            f"at {len(alone)} of {len(plays)} problems no attempt has a teacher: there is nothing"
            f" to read (rltf.teacher.reads={reads}), or it does not fit data.max_prompt_length"
        )


def _later(text: str) -> bool:
    return text in PLACEHOLDERS


def _tells(parts: Parts, play: Played) -> bool:
    """Whether the first feedback states the answer. Our environments say it at level `full` only;
    of others it is looked for, as the leak guard does.
    """
    turn = play.episode.turns[0]
    said, env = turn.feedback, parts.config.env.name
    if said is None or turn.grade.correct or _later(said.text):
        return False
    if said.leak is not None:
        return bool(said.leak)
    foreign = ":" in env or env == "reward_function"
    if not (foreign or said.sees_reference):
        return False
    return bool(find_leaks(parts.env, play.case.problem, said.text, turn.attempt.text))


def _lengths(inputs: Inputs, measured: Lengths) -> Iterator[str]:
    get = inputs.setting
    prompt, answer = int(get("data.max_prompt_length")), int(get("data.max_response_length"))
    num = measured.num
    refused = any(": the first prompt of problem " in message for message in inputs.refusals)
    if measured.num_long and not refused and not get("data.filter_overlong_prompts"):
        yield (
            f"data.max_prompt_length={prompt}: {measured.num_long} of {num} first prompts are"
            f" longer (up to {measured.longest}), and their answers are cut; raise it, or set"
            " data.filter_overlong_prompts=True"
        )
    if measured.num_long_solutions * 2 > num:
        yield (
            f"data.max_response_length={answer}: {measured.num_long_solutions} of {num} reference"
            f" solutions are longer (up to {measured.longest_solution} tokens), so most answers"
            " will be cut; raise it"
        )
    if measured.room is not None and measured.room < answer / 2:
        yield (
            f"data.max_prompt_length={prompt}: a second prompt has room for {measured.room} tokens"
            f" of a first answer, which can have {answer}; longer ones are quoted from their end."
            f" Raise it by {answer - measured.room} to quote all"
        )


def _quoted(text: str) -> str:
    shown = " ".join(text.split())
    return repr(shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…")
