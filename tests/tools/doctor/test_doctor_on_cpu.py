"""The doctor's single checks, without Ray."""

from typing import Any

import pytest
import verl  # noqa: F401  (loads the plugin, as the doctor's first checks do)

from rltf_verl.adapters.startup import checks
from rltf_verl.config import FeedbackConfig, GuardConfig, NamedOptions, RLTFConfig
from rltf_verl.episode.parts import Parts
from rltf_verl.tools.doctor import doctor
from rltf_verl.tools.doctor import process as probes
from rltf_verl.tools.doctor.doctor import judge_check
from rltf_verl.tools.doctor.process import Check, ProcessProbe
from tests.support.judge.server import InThread, JudgeServer


@pytest.mark.parametrize(
    ("name", "overrides", "word"),
    [
        ("rltf_sd", ["rltf.gama=1"], "gama"),
        ("rltf_sd", ["rltf.gamma=7"], "rltf.gamma=7: must be in [0, 1]"),
        ("rltf_sd", ["rltf/env=nope"], "nope"),
        ("rltf_sd", ["algorithm.rollout_correction.bypass_mode=True"], "bypass_mode"),
        ("ppo_trainer", [], "no `rltf:` block"),
    ],
)
def test_a_config_that_fails(monkeypatch, name: str, overrides: list[str], word: str) -> None:
    monkeypatch.setenv("VERL_PLATFORM", "cpu" if name == "rltf_sd" else "")
    checks = {check.name: check for check in doctor._run_checks(name, overrides)}
    check = checks["config"]
    assert check.status == "failed", check.fix
    assert word in check.detail + check.fix
    assert name == "rltf_sd" or checks["judge"].status == "note"


def test_versions_of_a_worker_must_be_the_driver_s() -> None:
    driver = [Check("versions", "ok", "verl 0.9.1"), Check("plugin", "ok", "")]
    other = [Check("versions", "ok", "verl 0.9.2", where="worker"), driver[1]]
    assert [check.status for check in doctor._compare_versions(driver, driver)] == ["ok", "ok"]
    assert [check.status for check in doctor._compare_versions(driver, other)] == ["failed", "ok"]


def test_a_verl_outside_the_tested_range(monkeypatch) -> None:
    monkeypatch.setattr(probes, "verl_is_tested", lambda: False)
    assert probes._versions().status == "failed"


def test_what_verl_hides_is_said(monkeypatch) -> None:
    monkeypatch.setattr(probes, "PLUGIN", "rltf_verl.plugin_that_breaks")
    assert "no entry point" in probes._plugin(loaded=False).detail
    check = probes._try(ProcessProbe("x", "no_such_module", lambda m: m))
    assert check.status == "failed"
    assert "no_such_module" in check.detail


def judged(provider: str, env: NamedOptions | None = None, **options: Any) -> Check:
    feedback = FeedbackConfig(NamedOptions(provider, options), guard=GuardConfig("warn"))
    return judge_check(
        Parts.of(RLTFConfig(env=env or NamedOptions("binary_matrix"), feedback=feedback))
    )


def test_an_endpoint_that_answers_and_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the provider and of the environment."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with InThread(JudgeServer()) as thread:
        endpoint = {"base_url": thread.server.url, "model": "m"}
        check = judged("judge", endpoint=endpoint)
        assert (check.status, check.detail) == ("ok", f"m at {thread.server.url}: answers")
    writing = NamedOptions("writing", {"judges": [{"endpoint": endpoint}]})
    assert judged("judge", endpoint=endpoint).status == "failed"
    assert judged("verifier", writing).status == "failed"
    assert "asks no model" in judged("verifier").detail


def test_files_of_a_users_own_are_named_absolutely_for_the_workers(
    verl_config, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pair = "{provider: paired, even: {provider: ./mine.py:Mine}, odd: {critic: ./mine.j2}}"
    config = verl_config(
        "rltf/feedback=paired",
        f"rltf.feedback.odd={pair}",
        "rltf.teacher.gate={name: ./mine.py:gate, scale: 2}",
        "rltf.teacher.prompt=./mine.j2",
    )
    checks.resolve_files(config)
    assert config.rltf.env.name == "binary_matrix"
    even, odd = (config.rltf.feedback.odd[which] for which in ("even", "odd"))
    assert even.provider == f"{tmp_path}/mine.py:Mine"
    assert odd.critic == config.rltf.teacher.prompt == f"{tmp_path}/mine.j2"
    assert config.rltf.teacher.gate.name == f"{tmp_path}/mine.py:gate"
