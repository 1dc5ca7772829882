"""What the doctor says about a judge."""

import pytest

from rltf_verl.adapters import checks
from rltf_verl.adapters.judge_probe import judge_check
from rltf_verl.config import FeedbackConfig, GuardConfig, NamedOptions
from tests.feedback.judge_server import InThread, JudgeServer


def judge(url: str, **endpoint: str) -> FeedbackConfig:
    return FeedbackConfig(NamedOptions("judge", {"endpoint": {"base_url": url, "model": "m", **endpoint}}))


def test_a_provider_without_a_judge() -> None:
    rules = GuardConfig(action="warn")
    assert "asks no model" in judge_check(FeedbackConfig(NamedOptions("verifier"), guard=rules)).detail


def test_the_judge_of_the_guard_is_looked_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    guard = GuardConfig(judge={"endpoint": {"base_url": "http://127.0.0.1:9/v1", "model": "g"}})
    gone = judge_check(FeedbackConfig(NamedOptions("verifier", {"level": "full"}), guard=guard))
    assert (gone.status, "127.0.0.1:9" in gone.detail) == ("failed", True)


def test_an_endpoint_that_answers_and_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with InThread(JudgeServer()) as thread:
        url = thread.server.url
        assert (judge_check(judge(url)).status, judge_check(judge(url)).detail) == ("ok", f"m at {url}: answers")
    gone = judge_check(judge(url))
    assert (gone.status, "start it" in gone.fix) == ("failed", True)


def test_a_key_that_is_not_there_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not set" in judge_check(judge("http://127.0.0.1:9/v1", api_key_env="RLTF_NO_KEY")).fix
    monkeypatch.setenv("RLTF_SOME_KEY", "sk-wrong")
    with InThread(JudgeServer(key="sk-right")) as thread:
        refused = judge_check(judge(thread.server.url, api_key_env="RLTF_SOME_KEY"))
    assert refused.status == "failed"
    assert "401" in refused.detail
    assert "sk-wrong" not in refused.detail + refused.fix


def test_a_users_own_file_is_named_absolutely_for_the_workers(verl_config, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = verl_config("rltf.feedback.provider=./mine.py:Mine")
    checks.resolve_files(config)
    assert config.rltf.feedback.provider == f"{tmp_path}/mine.py:Mine"
    assert config.rltf.env.name == "binary_matrix"
