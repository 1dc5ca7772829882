"""What modules and names of earlier versions are called now: importing one says so in a line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NoReturn, TypeVar

T = TypeVar("T")

MODULES = (
    ("adapters.", "adapters.doctor.", "judge_probe>judge probes>process"),
    ("adapters.", "adapters.metrics.", "row_log session_metrics>episodes validation"),
    ("adapters.", "adapters.queue.", "columns pieces step_rows"),
    (
        *("adapters.", "adapters.rollout."),
        "agent_loop agent_worker chat_form judge_actor llm_client",
    ),
    (
        *("adapters.", "adapters.startup."),
        "checks modes presets stamp verl_settings",
    ),
    (
        *("adapters.", "adapters.training."),
        "async_trainers correction live_groups logit_loss loss registered teacher trainer",
    ),
    ("adapters.", "objectives.", "trust_region>attempt startup.trust_region>attempt"),
    ("adapters.cpu.vllm_", "adapters.cpu.vllm.", "name ready weights"),
    ("algos.", "algos.", "sessions>episodes"),
    ("cli_", "cli.", "compare data env eval>evaluate log options>common probe seeds view"),
    ("envs.", "", "answers"),
    ("envs.", "envs.binary_matrix.", "binary_matrix_leaks>leaks cell_candidates>leaks_cells"),
    ("envs.grid_", "envs.binary_matrix.", "candidates>leaks_grids readings>leaks_readings text"),
    ("envs.code_", "envs.code.", "arithmetic compare leaks sources text words>feedback"),
    ("envs.", "envs.knights_knaves.", "kk_puzzles>puzzles logic"),
    (
        *("envs.role_", "envs.knights_knaves."),
        "candidates>leaks feedback readings>leaks_readings text words>leaks_words",
    ),
    ("envs.math_", "envs.math.", "build leaks readings>leaks_readings sources worker"),
    ("envs.pool_", "envs.pool.", "worker"),
    ("envs.", "envs.reasoning_gym.", "lossless_json"),
    ("envs.reasoning_gym_", "envs.reasoning_gym.", "bridge>env worker"),
    ("envs.", "envs.shortest_path.", "paths>mazes"),
    (
        *("envs.path_", "envs.shortest_path."),
        "candidates>leaks feedback parts>leaks_parts readings>leaks_readings text"
        " words>leaks_words",
    ),
    (
        *("envs.", "envs.text."),
        "arithmetic_phrases boxed encodings number_languages number_reading number_words plain_text"
        " readings stated",
    ),
    ("envs.", "envs.writing.", "scoring"),
    ("episode.", "parity.", "release_fm"),
    ("plan.", "episode.", "stand_ins"),
    ("feedback.", "cli.", "judge_trial"),
    ("feedback.", "feedback.", "inbox>human"),
    ("report.", "", "printable>texts"),
    ("report.", "report.evaluation.", "bootstrap evaluation_show>show session_table>table"),
    (
        *("report.", "report.terminal."),
        "console console_rows>rows dataset environment judge stats_table>stats",
    ),
    ("report.", "report.view.", "curves row_words view_index>index"),
    (
        *("report.", "runlog."),
        "episode_log>episodes file_log>metrics_file grep log_files>files record row_log>rows"
        " session>turns tail valid",
    ),
)
"""What the old path began with, what the new one begins with, and how both end."""

NAMES = (
    ("adapters.doctor", "adapters.doctor.doctor", "examine"),
    (
        *("adapters.metrics", "adapters.metrics.roles"),
        "role_metrics sampling_metrics stale_metrics with_grad_shares",
    ),
    ("algos", "algos", "Sessions>EpisodeBatch pack_sessions>pack_episodes"),
    ("algos.grad_share", "objectives.targets", "shared_targets"),
    ("algos.pack", "algos.pack", "pack_sessions>pack_episodes"),
    ("algos.targets", "objectives.targets", "compute_targets live_groups"),
    ("cli", "cli.app", "doctor inspect parity presets"),
    ("cli", "cli.common", "episodes_of nested"),
    ("cli", "cli.judge", "judge_audit judge_bench judge_try"),
    ("envs.pool", "envs.pool.pool", "CallFailed Pool shared_pool"),
    ("config.objectives", "config.teacher", "GateName LogitDistillConfig SOURCES TeacherConfig"),
    ("episode.rows", "objectives.critique", "critique_rows"),
    ("episode.rows", "objectives.distill", "distill_rows"),
    ("episode.rows", "objectives.rows", "session_rows>episode_rows"),
    ("episode.rows", "objectives.sft", "imitate_rows"),
    ("episode.run", "episode.parts", "EpisodeRules>Parts"),
    ("judge.gateway", "episode.parts", "use_opener>Parts.open"),
    ("judge.gateway", "judge.gateway", "gateways_of>judges_of open_gateway>Judge"),
    ("judge.gateway", "judge.wire", "ScoredReply"),
    ("objectives.attempt", "objectives.attempt", "Attempt>AttemptObjective Played>TurnObjective"),
    ("objectives.rows", "objectives.rows", "session_rows>episode_rows"),
    (
        *("report.evaluation", "report.evaluation.results"),
        "Found Results RoundResult TurnResult evaluate",
    ),
    ("report.view", "report.view.build", "page"),
    ("runlog.numbers", "runlog.numbers", "SessionTable>EpisodeTable"),
)
"""Where names were whose module is still there, where they are, and the names."""

ADVICE = {
    "judge.gateway.open_gateway": "hold Judge(options, block), declare it as self.judges ="
    " (judge,), and ask it by judge.complete(call)"
}
"""What to do where a name has more than moved."""

FIELDS = {
    "RowBatch.session": "episode",
    "RowBatch.sessions": "episodes",
    "EpisodeBatch.taught": "has_teacher",
}
"""What objectives and baselines of users read of a batch, and its name now."""


def moved() -> Iterator[tuple[str, str]]:
    """Old and new path of every module and name, without `rltf_verl.`."""
    for before, now, words in MODULES + tuple((f"{b}.", f"{n}.", w) for b, n, w in NAMES):
        for word in words.split():
            old, _, new = word.partition(">")
            yield before + old, now + (new or old)


def line_of(path: str) -> str | None:
    """What the module or name `rltf_verl.…` is now; None if it is none of an earlier version."""
    old = path.removeprefix("rltf_verl.")
    new = dict(moved()).get(old)
    if new is None:
        return None
    advice = f": {ADVICE[old]}" if old in ADVICE else ""
    return f"{path} is now rltf_verl.{new}{advice}"


def tell_lost_names(module: str) -> None:
    """Let a module that lost names say so; its last line. Packages do so without it."""

    def lost(name: str) -> NoReturn:
        if line := line_of(f"{module}.{name}"):
            raise ImportError(line)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    vars(sys.modules[module])["__getattr__"] = lost


def tell_lost_fields(owner: type[T]) -> type[T]:
    """Let a class that lost fields (`FIELDS`) say so; a decorator."""

    def lost(_: object, name: str) -> NoReturn:
        path = f"{owner.__name__}.{name}"
        now = f"is now {owner.__name__}.{FIELDS[path]}" if path in FIELDS else "does not exist"
        raise AttributeError(f"{path} {now}")

    owner.__getattr__ = lost  # type: ignore[attr-defined]  # a type has none
    return owner
