"""A wandb workspace for RLTF runs: `python workspace.py ENTITY PROJECT`.

Needs `pip install wandb-workspaces` and a login.

Makes a saved view of the project, with the panels below in this order; it changes no run. `--json
FILE` writes the view instead of sending it, without a network.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

Panel = tuple[str, list[str]]

SECTIONS: dict[str, list[Panel]] = {
    "Does the first answer improve?": [
        ("First answer right, held out", [r"val-core/.*/acc/mean@.*"]),
        ("Answer that stands after feedback, held out", [r"val-aux/.*/acc_turn_\d+/mean@.*"]),
        ("Right by turn, training", [r"rltf/turn_\d+/acc"]),
    ],
    "What does feedback do?": [
        ("Wrong before, right now", [r"rltf/turn_\d+/fixed"]),
        ("Right before, wrong now", [r"rltf/turn_\d+/broken"]),
        ("Corrected, of wrong answers", [r"rltf/turn_\d+/corrected"]),
        ("Another answer than before", [r"rltf/turn_\d+/plasticity"]),
        ("Still wrong at the end", ["rltf/session/friction"]),
        ("Groups that teach GRPO nothing", ["rltf/group/dead_share"]),
    ],
    "Is the feedback any good?": [
        ("Failed or replaced", ["rltf/feedback/failed_share", "rltf/feedback/fallback_share"]),
        ("Gave the answer away", [r"rltf/feedback/leak_share.*"]),
        ("Says no more than right or wrong", ["rltf/feedback/no_op"]),
        ("Words", ["rltf/feedback/words"]),
        ("Judge: latency", [r"rltf/feedback/judge/latency_p\d+_s"]),
        ("Judge: cost since the start", ["rltf/feedback/judge/cost_run"]),
    ],
    "What is trained?": [
        ("Share of the gradient", [r"rltf/\w+/grad_share"]),
        ("Share of the tokens", [r"rltf/\w+/token_share"]),
        ("Weights", [r"rltf/\w+/weight"]),
        ("How far second answers are, nats per token", ["rltf/distill/log_prob_gap"]),
        ("Distilled tokens below the floor", ["rltf/distill/floor_masked"]),
        ("Effective sample size", ["rltf/distill/ess"]),
    ],
    "Is the run healthy?": [
        ("Format", [r"rltf/turn_\d+/format"]),
        ("Cut off", [r"rltf/turn_\d+/truncated"]),
        ("Tokens per answer", [r"rltf/turn_\d+/tokens"]),
        ("Entropy", ["actor/entropy"]),
        ("Gradient norm", ["actor/grad_norm"]),
        ("Sampler against actor, nats", ["rltf/attempt/sampler_log_prob_diff/max"]),
        ("Seconds per step", ["timing_s/step"]),
    ],
}
"""Section -> its panels: title and patterns of metric names."""


def workspace(entity: str, project: str) -> Any:
    """The view; nothing is sent yet."""
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws

    def panel(title: str, patterns: list[str]) -> Any:
        return wr.LinePlot(
            title=title, x="Step", metric_regex="|".join(f"(?:{pattern})" for pattern in patterns)
        )

    sections = [
        ws.Section(name=name, panels=[panel(*words) for words in panels], is_open=k < 2)
        for k, (name, panels) in enumerate(SECTIONS.items())
    ]
    return ws.Workspace(entity=entity, project=project, name="RLTF", sections=sections)


def main() -> None:
    """Send the view, or write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("entity")
    parser.add_argument("project", help="trainer.project_name of the runs")
    parser.add_argument("--json", type=Path, help="write the view to this file instead")
    args = parser.parse_args()
    made = workspace(args.entity, args.project)
    if args.json:
        args.json.write_text(made._to_model().model_dump_json(indent=1) + "\n")
        print(args.json)
    else:
        made.save()
        print(made.url)


if __name__ == "__main__":
    main()
