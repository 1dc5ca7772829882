"""How a run ends: without feedback in verl's own loop, saved, logged and with an error; and when a
process dies without which it would wait for ever.
"""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    OutOfMemoryError,
)
from verl.trainer.ppo.v1 import trainer_base

from rltf_verl.adapters.training.best import BestCheckpoint
from rltf_verl.adapters.training.trainer import RLTFTrainerSync
from rltf_verl.adapters.training.watchdog import ActorWatchdog
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.runlog.health import Watch, end_rules
from tests.support.configs import composed


class Trainer(RLTFTrainerSync):
    """verl's loop over steps whose share of failed feedback is given."""

    def __init__(
        self,
        failed: list[float],
        stop_after: int | None = None,
        save_freq: int = -1,
        *,
        waits: bool = False,
        breaker: float = 0.0,
    ) -> None:
        self.config = composed(
            "rltf_sd",
            "trainer.logger=[]",
            "trainer.val_before_train=false",
            "trainer.test_freq=-1",
            f"trainer.save_freq={save_freq}",
        )
        OmegaConf.set_struct(self.config, True)
        self.failed, self.saved = failed, list[int]()
        self.logged = dict[int, float]()
        self.global_steps, self.total_training_steps, self.steps_per_epoch = 0, len(failed), 1000
        self.rltf = SimpleNamespace(episode_log=SimpleNamespace(dir=None))
        self.replay_buffer = SimpleNamespace(_wait_for_next_poll=None)
        self.judge = SimpleNamespace(last_failures=lambda: "connection refused")
        self.parts = SimpleNamespace(provider=SimpleNamespace(name="judge"))
        self.breaker = breaker
        self.watch, self.without_feedback = Watch(), Watch(end_rules(stop_after, waits=waits))

    def step(self, metrics: dict[str, Any], timing_raw: Any) -> Any:
        metrics["rltf/feedback/failed_share"] = self.failed[self.global_steps - 1]
        metrics["rltf/feedback/judge/breaker"] = self.breaker
        self._watch_step(metrics)
        return SimpleNamespace(keys=[], partition_id="train")

    def _save_checkpoint(self) -> None:
        self.saved.append(self.global_steps)

    def _compute_metrics(self, batch: Any, metrics: Any, *_: Any, **__: Any) -> None:
        self.logged[self.global_steps] = metrics["rltf/feedback/failed_share"]

    def nothing(self, *_: Any, **__: Any) -> Any:
        return {}

    on_step_end = on_train_begin = on_train_end = _consume_sync_metrics = nothing  # type: ignore[assignment]
    _start_profiling = _stop_profiling = _shutdown_dump_executor = nothing  # type: ignore[assignment]
    _reissue_inflight_prompts = nothing  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_base, "tq", SimpleNamespace(kv_clear=lambda **_: None))
    for name in ("pprint", "tqdm"):  # which `fit` replaces
        monkeypatch.setattr(trainer_base, name, getattr(trainer_base, name))


def test_what_a_validation_asks_of_the_judge_is_not_the_next_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, asked = Trainer([], 1, -1), [{"rltf/judge/failed_share": 1.0}]
    trainer.judge = SimpleNamespace(metrics=lambda: asked.pop() if asked else {})
    trainer.best = BestCheckpoint(tmp_path, None)
    trainer.rltf = SimpleNamespace(episode=SimpleNamespace(horizon=1))
    monkeypatch.setattr(trainer_base.PPOTrainer, "_val_metrics_update", lambda *_, **__: {})
    trainer._val_metrics_update([], [], {}, [])
    assert trainer.judge.metrics() == {}


FEW = [0.0, 1.0, 0.1, 0.9, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("failed", "options", "ends_at", "saved"),
    [
        # after so many steps in a row, with a checkpoint of its own
        (FEW, {"stop_after": 2}, 5, [5]),
        (FEW, {"stop_after": 2, "save_freq": 2}, 5, [2, 4, 5]),
        (FEW, {"stop_after": 2, "save_freq": 100}, 5, [5]),
        # over anyway; may go on
        ([0.0, 1.0], {"stop_after": 1}, None, []),
        ([1.0] * 4, {}, None, []),
        # it waits for its judge, which stayed away for longer than `outage_s`
        ([0.0, 0.9, 0.0], {"waits": True, "breaker": 1.0}, 2, [2]),
        # it refused the only question of step 2
        ([0.0, 1.0, 0.0], {"waits": True}, None, []),
        # a key that expired
        ([1.0, 1.0, 1.0, 0.0], {"waits": True}, 3, [3]),
        # calls of later steps wait for it
        ([0.1, 0.1], {"waits": True, "breaker": 1.0}, None, []),
    ],
)
def test_a_run_without_feedback_ends(
    failed: list[float], options: dict[str, Any], ends_at: int | None, saved: list[int]
) -> None:
    trainer = Trainer(failed, **options)
    with pytest.raises(FeedbackUnavailable, match="refused") if ends_at else nullcontext():
        trainer.fit(SimpleNamespace(agent_loop_workers=[]))
    assert list(trainer.logged) == list(range(1, (ends_at or len(failed)) + 1))
    assert trainer.saved == saved


ACTOR = SimpleNamespace(__ray_ready__=SimpleNamespace(remote=object))


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (ActorDiedError(), pytest.raises(RuntimeError, match=r"^agent-loop worker 0 ")),
        (OutOfMemoryError("killed"), pytest.raises(RuntimeError, match=r"^agent-loop worker 0 ")),
        # one that lives or is out of reach does not
        (ActorUnavailableError("away", None), nullcontext()),
        (GetTimeoutError(), nullcontext()),
        (None, nullcontext()),
    ],
)
def test_a_dead_actor_ends_the_run_with_its_name(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, ends: Any
) -> None:
    def get(ref: Any) -> None:
        if error:
            raise error

    monkeypatch.setattr("ray.get", get)
    monkeypatch.setattr("ray.wait", lambda asked, **_: (asked, []))
    with ends:
        ActorWatchdog({"agent-loop worker 0": ACTOR}).check()
