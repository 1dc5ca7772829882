"""The doctor's single checks, without Ray."""

import pytest
import verl  # noqa: F401  (loads the plugin, as the doctor's first checks do)

from rltf_verl.adapters.doctor import doctor
from rltf_verl.adapters.doctor import process as probes
from rltf_verl.adapters.doctor.process import Check, Probe


def run_checks(monkeypatch, platform: str, *overrides: str) -> dict[str, Check]:
    monkeypatch.setenv("VERL_PLATFORM", platform)
    return {check.name: check for check in doctor._run_checks("rltf_sd", overrides)}


@pytest.mark.parametrize(
    ("overrides", "word"),
    [
        (["rltf.gama=1"], "gama"),
        (["rltf.gamma=7"], "rltf.gamma=7: must be in [0, 1]"),
        (["rltf/env=nope"], "nope"),
        (["algorithm.rollout_correction.bypass_mode=True"], "bypass_mode"),
    ],
)
def test_a_config_that_cannot_work(monkeypatch, overrides: list[str], word: str) -> None:
    check = run_checks(monkeypatch, "cpu", *overrides)["config"]
    assert check.status == "failed"
    assert word in check.detail + check.fix


def test_an_own_reward_function_is_the_environment_s(monkeypatch, tmp_path) -> None:
    (tmp_path / "reward.py").write_text("def compute_score(*args, **kwargs):\n    return 0.0\n")
    named = f"custom_reward_function.path={tmp_path / 'reward.py'}"
    check = run_checks(monkeypatch, "cpu", "rltf/env=reward_function", named)["config"]
    assert check.status == "ok", check.fix


def test_a_config_that_is_not_ours(monkeypatch) -> None:
    monkeypatch.setenv("VERL_PLATFORM", "")
    checks = {check.name: check for check in doctor._run_checks("ppo_trainer", [])}
    assert "no `rltf:` block" in checks["config"].fix
    assert checks["judge"].status == "note"


def test_versions_of_a_worker_must_be_the_driver_s() -> None:
    driver = [Check("versions", "ok", "verl 0.9.1"), Check("plugin", "ok", "")]
    other = [
        Check("versions", "ok", "verl 0.9.2", where="worker"),
        Check("plugin", "ok", "", where="worker"),
    ]
    assert [check.status for check in doctor._compared(driver, driver)] == ["ok", "ok"]
    assert [check.status for check in doctor._compared(driver, other)] == ["failed", "ok"]


def test_a_verl_outside_the_tested_range(monkeypatch) -> None:
    monkeypatch.setattr(probes, "verl_is_tested", lambda: False)
    check = probes._versions()
    assert check.status == "failed"
    assert "pip install" in check.fix


def test_what_verl_hides_is_said(monkeypatch) -> None:
    monkeypatch.setattr(probes, "PLUGIN", "rltf_verl.plugin_that_breaks")
    assert "no entry point" in probes._plugin(loaded=False).detail
    check = probes._try(Probe("x", "no_such_module", lambda m: m))
    assert check.status == "failed"
    assert "no_such_module" in check.detail
