"""User code in objectives: an error names the key, the file and the line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rltf_verl.algos.episodes import EpisodeBatch, in_line
from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.findings import Finding, finding_of
from rltf_verl.kinds import shown
from rltf_verl.objectives.base import Objective
from rltf_verl.registry import load, raised_by
from rltf_verl.types import Row

# Properties are no functions, and fall out; `rows` is a coroutine function and has its own wrapper.
HOOKS = [
    name
    for name, own in vars(Objective).items()
    if inspect.isfunction(own) and not name.startswith("_") and name != "rows"
]
"""Methods of an objective that a run calls, beside `rows`."""
ON_EXAMPLES = "(tried before the run, on episodes that are made up)"


class OwnCodeError(ConfigError):
    """User code raised, or returned a value of the wrong kind."""


@contextmanager
def naming_errors(what: str, own: Any) -> Iterator[None]:
    """Around a call of a user's class or function: turns what it raises into OwnCodeError, which
    begins with `what`. A ConfigError passes.
    """
    try:
        yield
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # user code
        raise OwnCodeError(f"{what} raised {raised_by(own, error)}") from error


def dry_run(call: Callable[[], object]) -> Iterator[Finding]:
    """A refusal, if a call of user code on made-up data fails."""
    try:
        call()
    except OwnCodeError as error:
        yield Finding("", None, f"{error} {ON_EXAMPLES}", "")
    except ValueError as error:  # a file that cannot be loaded
        yield finding_of(error)


def own_function(key: str, where: str) -> Callable[..., Any]:
    """The function that `./mine.py:function` names. Raises ConfigError."""
    function: Callable[..., Any] = load(key, where)
    if not callable(function):
        raise ConfigError(f"{key}={where}: must be a function")
    return function


def name_failures(own: Objective[Any], where: str) -> None:
    """Let all that a run calls of the objective name it where it fails.

    Args:
        own: the objective.
        where: its key and value.
    """
    for method in HOOKS:
        setattr(own, method, _naming_call(own, method, f"{where}: {method}()"))
    make, what = own.rows, f"{where}: rows()"

    async def rows(*args: Any, **options: Any) -> list[Row]:
        with naming_errors(what, type(own)):
            made = await make(*args, **options)
        if not (isinstance(made, list) and all(isinstance(row, Row) for row in made)):
            raise OwnCodeError(f"{what} returned {shown(made)}; return a list of rows")
        return made

    setattr(own, "rows", rows)  # noqa: B010  mypy takes no method for a value


def _naming_call(own: Objective[Any], method: str, what: str) -> Callable[..., Any]:
    call = getattr(own, method)

    def checked_call(*args: Any, **options: Any) -> Any:
        with naming_errors(what, type(own)):
            returned = call(*args, **options)
            if inspect.isgenerator(returned):
                returned = list(returned)  # here it can raise
        if method == "turn_weights":
            # Its one argument, by position or by name.
            (episodes,) = (*args, *options.values())
            return turn_numbers(what, returned, episodes)
        if method == "loss" and not (isinstance(returned, torch.Tensor) and returned.dim() == 0):
            raise OwnCodeError(f"{what} returned {_description(returned)}; return a scalar tensor")
        return returned

    return checked_call


def turn_numbers(what: str, returned: Any, episodes: EpisodeBatch) -> torch.Tensor:
    """[S, M] numbers of turns that a user's code returned as [S, 1] or [S, M].

    Args:
        what: whose they are.
        returned: tensor, array or lists.
        episodes: the S episodes.

    Raises:
        OwnCodeError: the shape differs, or a turn that was played has no finite number.
    """
    size, shape = len(episodes.rewards), tuple(episodes.rewards.shape)
    wanted = f"return a tensor of [S, 1] or [S, M], here [{size}, 1] or {list(shape)}"
    try:
        values = torch.as_tensor(returned, dtype=episodes.rewards.dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        raise OwnCodeError(f"{what} returned {shown(returned)}; {wanted}") from error
    if tuple(values.shape) not in ((size, 1), shape):
        raise OwnCodeError(f"{what} returned {_description(values)}; {wanted}")
    values = values.expand(shape)
    missing = (episodes.valid & ~values.isfinite()).nonzero().tolist()
    if missing:
        s, m = missing[0]
        group = episodes.rewards[episodes.group == episodes.group[s], m]
        raise OwnCodeError(
            f"{what} returned {float(values[s, m])} for turn {m + 1} of an episode of a group with"
            f" the rewards {group.tolist()}; return finite numbers"
        )
    return values


def _description(returned: Any) -> str:
    is_tensor = isinstance(returned, torch.Tensor)
    return f"a tensor of shape {list(returned.shape)}" if is_tensor else shown(returned)


def example_episodes(config: RLTFConfig, group_size: int) -> EpisodeBatch:
    """Three groups of ragged episodes: one all wrong, one mixed, one all right."""
    group = torch.arange(3).repeat_interleave(max(1, group_size))
    num_turns = config.episode.horizon
    episode, turn = torch.arange(len(group)).unsqueeze(1), torch.arange(num_turns)
    mixed = (group == 1).unsqueeze(1) & ((episode + turn) % 2 == 1)
    # Group 1 is a chessboard of right and wrong; episode e has e mod M + 1 turns.
    rewards = (mixed | (group == 2).unsqueeze(1)).float()
    return in_line(rewards, turn <= episode % num_turns, group)
