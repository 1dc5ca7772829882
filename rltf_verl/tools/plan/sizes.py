"""Size of a run: per step, per validation, in all."""

from __future__ import annotations

from collections.abc import Sequence

from rltf_verl.adapters.startup.rules import ROLLOUT, Setting
from rltf_verl.config import RLTFConfig
from rltf_verl.tools.plan.inputs import Inputs
from rltf_verl.tools.plan.play import PlannedEpisode


def step_sizes(
    inputs: Inputs, config: RLTFConfig, plays: Sequence[PlannedEpisode]
) -> dict[str, int | float | None]:
    """The sizes of one training step; `most_…` are bounds: every episode has all its turns, every
    answer all its tokens. None: not known, nothing could be played.
    """
    get = inputs.setting
    answer = int(get("data.max_response_length"))
    episodes = int(get("data.train_batch_size")) * int(get(f"{ROLLOUT}.n"))
    rows = max((len(p.rows) for p in plays), default=None)
    first = len(plays[0].rows) if plays else None
    whole = int(get("data.max_prompt_length")) + answer
    calls, price = _judge(inputs, plays)
    stops = config.episode.stop_when_solved_train or config.episode.horizon == 1
    # A table, printed in this order.
    return {
        "problems": int(get("data.train_batch_size")),
        "episodes": episodes,
        "most_answers": episodes * config.episode.horizon,
        "fewest_rows": episodes if stops or first is None else episodes * first,
        "most_rows": None if rows is None else episodes * rows,
        "most_sampled_tokens": episodes * config.episode.horizon * answer,
        "most_trained_tokens": None if rows is None else episodes * rows * whole,
        "most_judge_calls": None if calls is None else episodes * calls,
        "most_judge_price": None if price is None else episodes * price,
        "optimiser_updates": updates_of(get, config),
    }


def updates_of(get: Setting, config: RLTFConfig) -> int:
    """Optimiser updates per step."""
    syncs = 1
    if str(get("trainer.v1.trainer_mode")).endswith("separate_async"):
        syncs = int(get("trainer.v1.separate_async.parameter_sync_step"))
    return config.updates_per_batch * int(get("actor_rollout_ref.actor.ppo_epochs")) * syncs


def steps_of(inputs: Inputs) -> int:
    """Training steps of the run: all its epochs, without an incomplete last batch of each, or as
    many of them as `trainer.total_training_steps` says.
    """
    get = inputs.setting
    given = get("trainer.total_training_steps")
    per_epoch = inputs.num_train // int(get("data.train_batch_size"))
    most = per_epoch * int(get("trainer.total_epochs"))
    # 0: no rows could be counted
    return most if given is None or 0 < most < int(given) else int(given)


def epochs_end_first(inputs: Inputs) -> bool:
    """True if fewer steps are played than `trainer.total_training_steps` says. verl then never
    comes to the step that it takes for the last: none is validated or saved as such.
    """
    given = inputs.setting("trainer.total_training_steps")
    return given is not None and steps_of(inputs) < int(given)


def validations_of(inputs: Inputs) -> int:
    """Number of validations of the run."""
    get, steps = inputs.setting, steps_of(inputs)
    every = int(get("trainer.test_freq"))
    # verl validates the last step too, whatever its number (trainer_base.py), if it comes to it
    last = every > 0 and steps % every > 0 and not epochs_end_first(inputs)
    during = 0 if every <= 0 else steps // every + last
    return during + bool(get("trainer.val_before_train"))


def _judge(inputs: Inputs, plays: Sequence[PlannedEpisode]) -> tuple[int | None, float | None]:
    """Calls and price of one episode at most; a price of None is not known."""
    if not plays or inputs.policy is None:
        return None, None
    longest = max(plays, key=lambda p: len(p.calls))
    price = 0.0
    for settings, prompt in longest.calls:
        reply = settings.endpoint.max_tokens or 0
        price += settings.price.of(inputs.policy.count(prompt), reply)
    return len(longest.calls), price or None
