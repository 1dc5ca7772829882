"""The ramp of the distillation coefficient."""

from __future__ import annotations

from rltf_verl.config import DistillConfig, RLTFConfig, ScheduleConfig
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import Now
from tools.parity.report import Check, Json


def compare_schedule(item: Json, check: Check) -> None:
    """One coefficient. Relative schedules are those of a resume and of a late start: both must give
    the number.
    """
    start = item["start_batch"]
    ways = {"weight": (0, 0)}  # name -> start_step, resumed_at
    if item["relative_schedule"]:
        ways = {"weight": (0, start), "weight of a late start": (start, 0)}
    for name, (start_step, resumed_at) in ways.items():
        check.close(name, _weight(item, start_step, resumed_at), item["expected"])


def _weight(item: Json, start_step: int, resumed_at: int) -> float:
    coef = tuple(item["rl_coef"]) if isinstance(item["rl_coef"], list) else item["rl_coef"]
    schedule = ScheduleConfig(start_step, restart_on_resume=item["relative_schedule"])
    config = RLTFConfig(distill=DistillConfig(weight=coef), schedule=schedule)
    now = Now(item["current_batch"], item["total_batches"], resumed_at)
    return Method(config).weights(now)["distill"]
