"""`rltf feedback check`: a feedback function on attempts that are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rltf_verl.data.questions import require_rows_of
from rltf_verl.envs import make_env
from rltf_verl.envs.calls import bounded
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.feedback import make_provider
from rltf_verl.judge.gateway import judges_of
from rltf_verl.runlog.files import log_folder
from rltf_verl.tools.evaluate.endpoint_policy import CHARACTERS
from rltf_verl.tools.evaluate.play import EvaluationFolder
from rltf_verl.tools.evaluate.probe import OF_THE_RUN, probe_of, split_sizes, training_run
from rltf_verl.tools.evaluate.settings import (
    ENDPOINT_BLOCKS,
    EPISODE_BLOCKS,
    evaluation,
    questions_of,
    rltf_block,
    training_blocks,
)
from rltf_verl.tools.feedback.attempts import MOST_SAID, CheckedFunction, collect
from rltf_verl.tools.feedback.verdicts import CheckedFeedback
from rltf_verl.tools.report.probe.rules import Probe


def checked_feedback(
    overrides: Mapping[str, Any], file: Path, num: int, config: Path | None, time: DryRun
) -> CheckedFeedback:
    """Feedback of a function on made-up attempts at the first rows of a dataset.

    Args:
        overrides: nested options of the command line: the blocks of `EPISODE_BLOCKS`, and
            `data.max_prompt_length`.
        file: dataset.
        num: its first rows.
        config: YAML of a training run, for what the command line leaves out.
        time: counts the time of the calls.

    Raises:
        ValueError: a bad key or value, feedback of a model, attempts with steps, or no time for
            one; names it and the fix.
    """
    sizes, overrides = split_sizes(
        "rltf feedback check", overrides, (*ENDPOINT_BLOCKS, *EPISODE_BLOCKS)
    )
    questions, named = questions_of(file, num, overrides, config)
    rltf = rltf_block(overrides, training_blocks(config), named, {"horizon": 2})
    block, env = rltf.feedback.provider, make_env(rltf.env.name, **rltf.env.options)
    provider = make_provider(block.name, **block.options)
    require_rows_of(env, questions)
    if env.acts or env.has_record or judges_of(env) or judges_of(provider):
        raise ValueError(
            "rltf feedback check: asks no judge, plays no steps and grades no corrections; `rltf"
            " env check` plays steps, `rltf feedback try` asks a judge, `rltf plan` shows"
            " corrections, and `rltf probe` reads episodes"
        )
    if rltf.env.name == "reward_function":
        env = CheckedFunction(**rltf.env.options)
    attempts = collect(env, provider, questions, time)
    if not attempts:
        raise ValueError(
            f"no answer was graded within {time.most_s:g} s; try again when the machine is idle"
        )
    return CheckedFeedback(
        bounded(env),
        attempts,
        min(CHARACTERS * training_run(sizes, config).prompt_tokens, MOST_SAID - 1),
        provider.tells_answer,
        provider.constant,
    )


def feedback_probes(
    overrides: Mapping[str, Any],
    file: Path,
    num: int,
    config: Path | None,
    out: Path,
    tell: Callable[[str], object],
) -> Iterator[tuple[str, Probe]]:
    """Named probes of a model's episodes with this feedback, and with its words on other problems.

    Args:
        overrides: as of `checked_feedback`, with the model's blocks `endpoint` and `limits`.
        file: dataset.
        num: its first rows; two episodes each.
        config: as of `checked_feedback`.
        out: folder that gets a folder of episodes for each; what is there is not played again.
        tell: gets a line if the limits of the run are not known.

    Raises:
        ValueError: a bad key or value, or an episode has no result; names it and the fix.
    """
    run = {block: values for block, values in overrides.items() if block in OF_THE_RUN}
    asked = {block: values for block, values in overrides.items() if block not in OF_THE_RUN}
    # A right answer gets no feedback, as in training.
    asked["episode"] = {"stop_when_solved_val": True, **asked.get("episode", {})}
    questions, env = questions_of(file, num, asked, config)
    own = evaluation(asked, 1, env, config=config)
    provider = own.parts.config.feedback.provider
    inner = {"provider": provider.name, **provider.options}
    other = evaluation(
        {**asked, "feedback": {"provider": "shuffled", "inner": inner}}, 1, env, config=config
    )
    for name, settings in (("this feedback", own), ("feedback on other problems", other)):
        place = out / name.replace(" ", "_")
        folder = EvaluationFolder(place, settings, questions, 2)
        folder.play()
        folder.require_results(folder.episodes())
        yield name, probe_of(run, log_folder(place), folder.episodes(), config, tell)
