"""Secrets are cut out of text, innocent text stays."""

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.feedback.base import FeedbackUnavailable, ask
from rltf_verl.findings import ConfigError, Finding
from rltf_verl.jsonl import append_lines, read_lines
from rltf_verl.kinds import plain, shown
from rltf_verl.redaction import Secrets, hidden, looks_secret, secrets_here
from rltf_verl.types import Feedback

KEY = "sk-Live_9aZ7+qX/42mNbVcRtYuIoP"


@pytest.mark.parametrize("text", ["{}", "Incorrect API key: {}.", "x{}y", '{{"k": "{}"}}'])
def test_a_secret_is_cut_out_and_the_rest_stays(text: str) -> None:
    secrets = Secrets([KEY, 'other"Secret-77'])
    assert secrets.clean(text.format(KEY)) == text.format("***")
    assert secrets.clean(text.format(KEY.lower())) == text.format("***")
    assert secrets.clean(json.dumps(text.format('other"Secret-77'))) == json.dumps(
        text.format("***")
    )
    assert repr(secrets) == "Secrets(…)"


@given(st.text(max_size=400))
def test_innocent_text_stays(text: str) -> None:
    assert Secrets([KEY, "123456789", "EMPTY"]).clean(text) == text


def test_numbers_placeholders_and_words_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "none of 1 1 1 1 1 1 1 1 is EMPTY; 1, 2, 3, 4, 5, 6, 7, 8, 9, in timestamp order, at"
        " /home/me/.ssh/id_1"
    )
    assert Secrets(["123456789", "EMPTY", "none"]).clean(text) == text
    monkeypatch.setenv("SORT_KEY", "timestamp")
    monkeypatch.setenv("SSH_KEY", "/home/me/.ssh/id_1")
    assert secrets_here().clean(text) == text


def test_passwords_of_proxies_are_secrets_and_odd_proxies_do_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://[odd@x:y")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:Proxy-Word-1@h:80")
    assert secrets_here().clean("proxy me:proxy-word-1@h refused") == "proxy me:***@h refused"


def test_a_quotation_is_short_and_a_cut_does_not_save_a_secret() -> None:
    secrets = Secrets([KEY, "abc"])
    quote = secrets.quote(" " * 19_990 + KEY + "x" * 30_000)
    assert KEY[:6] not in quote
    assert secrets.quote("<b>\n bad   key abc</b>") == "<b> bad key ***</b>"
    assert (
        secrets.quote("at https://me:word@h/v1?key=hush&x=1 with Bearer hush and sk-12****89")
        == "at https://***@h/v1?key=***&x=1 with Bearer *** and ***"
    )
    assert len(secrets.quote("word " * 10_000)) == 200


class Own:
    """A provider of a user's: awaits what it is given."""

    name, sees_reference, constant = "own", False, False

    def __init__(self, answer: Callable[[], Awaitable[object]]) -> None:
        self.feedback = lambda request: answer()


async def asked(answer: Callable[[], Awaitable[object]]) -> Feedback:
    return await ask(Own(answer), None)  # type: ignore[arg-type]


async def failure(answer: Callable[[], Awaitable[object]]) -> FeedbackUnavailable:
    with pytest.raises(FeedbackUnavailable) as info:
        await asked(answer)
    return info.value


async def fails(text: str) -> object:
    try:
        raise ConnectionError(f"GET https://h/?k={text}")
    except ConnectionError as error:
        raise RuntimeError(f"no answer with {text}") from error


async def returns(value: object) -> object:
    return value


async def raises(error: BaseException) -> object:
    raise error


async def test_no_text_of_an_own_provider_has_a_secret_of_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("MY_JUDGE_TOKEN", KEY)
    error = await failure(lambda: fails(KEY))
    assert KEY not in "".join(traceback.format_exception(error)) + repr(error) + error.cause
    assert error.__context__ is None
    assert (await asked(lambda: returns(Feedback(f"use {KEY}", "own")))).text == "use ***"
    assert isinstance((await failure(lambda: fails("harmless"))).__cause__, RuntimeError)


@pytest.mark.parametrize("error", [SystemExit(2), RecursionError(), asyncio.CancelledError()])
async def test_whatever_a_provider_raises_or_returns_costs_its_feedback_and_no_more(
    error: BaseException,
) -> None:
    assert (await failure(lambda: returns(None))).cause == "it returned NoneType, not a Feedback"
    if isinstance(error, asyncio.CancelledError) and sys.version_info < (3, 11):
        pytest.skip("Python 3.10 does not say whose end it is")
    assert type(error).__name__ in (await failure(lambda: raises(error))).cause


async def test_an_episode_that_is_ended_ends() -> None:
    task = asyncio.create_task(asked(lambda: asyncio.sleep(60)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_no_line_of_a_log_holds_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_JUDGE_TOKEN", KEY)
    path = tmp_path / "log.jsonl"
    append_lines(path, [{"turns": [{"error": f"bad {KEY}", "n": 1}], "good": "x", KEY: None}])
    (record,) = read_lines(path)
    assert record == {"turns": [{"error": "bad ***", "n": 1}], "good": "x", "***": None}


@pytest.mark.parametrize(
    ("name", "value"),
    [("WANDB_API_KEY", "x"), ("DB_PASS", "1"), ("X", "http://me:word@h"), ("X", "{HF_TOKEN: x}")],
)
def test_a_name_or_a_value_shows_a_secret(name: str, value: str) -> None:
    assert looks_secret(name, value)


# What must go is `hush`, or all of the text. No such token was ever valid.
TOKENS = {
    "Hugging Face": "hf_abcdefghij1234hush",
    "GitHub": "ghp_0123456789abcdefhush",
    "GitHub's app": "ghs_0123456789abcdefhush",
    "GitHub, fine-grained": "github_pat_11AAAAAAA0_hush",
    "GitLab": "glpat-abcdefghij12hush",
    "AWS": "AKIAABCDEFGHIJKLMNOP",
    "Groq": "gsk_abc123def456hush",
    "Slack": "xoxb-123456-abcdefhush",
    "OpenAI": "sk-abc123def456hush",
    "OpenAI, project": "sk-proj-1a2b3c_hush",
    "Anthropic": "sk-ant-api03-abc_hush",
    "Google": "AIzaSyA1234567890abcdefhush",
    "npm": "npm_abcdefghijklmn0123hush",
    "NVIDIA": "nvapi-abcdefgh_ijklmn0123hush",
    "an organisation": "org-abc123def456hush",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.hush-_1",
    "bearer": "Authorization: Bearer hush",
    "basic": "Authorization: Basic bWU6aHVzaC1odXNo",
    "login": "https://me:hush@h:8/x",
    "login with @ and /": "http://me:hu/sh@hush@h/v1",
    "Slack's webhook": "https://hooks.slack.com/services/T00/B00/hush",
    "Discord's webhook": "https://discord.com/api/webhooks/12/hush",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIhush\n-----END RSA PRIVATE KEY-----",
    "cut private key": "-----BEGIN PRIVATE KEY-----\nMIIhush",
    "netrc": "machine api.wandb.ai login user password hush",
    "password": "the password: hush",
    "variable": "MY_TOKEN=hush",
    "short variable": "DB_PW=hush",
    "YAML": "{env_vars: {HF_TOKEN: hush}}",
    "JSON": '{"api_key": "hush"}',
    "wandb": "WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567",
    "AWS's secret": "aws_secret_access_key = hush/abc+def",
    "Azure's account": "AccountName=a;AccountKey=hushabc==;EndpointSuffix=x",
    "Azure's signature": "https://a.blob.core.windows.net/c?sv=1&sig=hush%3D&se=2",
    "query": "https://h/v1?x=1&access_token=hush",
    "DigitalOcean": "dop_v1_0123456789abcdef0123456789abcdef",
    "Linear": "lin_api_abcdefghij0123456789hush",
    "Shopify": "shpat_0123456789abcdef0123456789abcdef",
    "Notion": "secret_Ab0123456789cdefghijklmnhush",
    "Vault": "hvs.CAESI-0123_456789abcdefghush",
    "Figma": "figd_Ab-01234567_89abcdefhush",
    "Databricks": "dapi0123456789abcdef0123456789abcdef",
    "Amazon's address": "https://b.s3.amazonaws.com/x?X-Amz-Credential=hush&X-Amz-Signature=hush",
    "Amazon's signature": "X-Amz-Signature=hush",
    "login's key": "wandb login 0123456789abcdef0123456789abcdef01234567",
    "login's option": "huggingface-cli login --token hush",
    "option": "psql --password hush",
    "option of two words": "run --api-key hush --port 80",
    "MySQL": "mysql -u root -phush db",
    "random": "A1b2C3d4E5f6G7h8A1b2C3d4E5f6hush",
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("around", ["{}", "HTTP 401: {} is wrong", "['{}']"])
def test_a_token_is_hidden_wherever_it_is_quoted(token: str, around: str) -> None:
    text = around.format(token)
    for shown_text in (
        Secrets([]).quote(text),  # a judge's error
        str(FeedbackUnavailable("judge", text)),
        str(Finding("key", text, "", "")),
        str(ConfigError(text)),
        str(hidden({"env": [text]})),  # the stamp, run.json and the card
    ):
        assert "***" in shown_text
        assert token not in shown_text
        assert "hush" not in shown_text
    assert looks_secret("OPTIONS", text)
    assert hidden(hidden(text)) == hidden(text), "a resumed run compares hidden values"


@pytest.mark.parametrize(
    "text",
    [
        "Qwen/Qwen2.5-7B-Instruct",
        "/cache/hf_home/models--Qwen--Qwen3-4B/snapshots/0060bc56d46589041c1048efd1a397421b1142b5",
        "commit 0060bc56d46589041c1048efd1a397421b1142b5",
        "max_tokens=1024 max_num_batched_tokens: 8192 temperature=1e-5 tokens_per_minute=30000",
        "tokenizer=Qwen/Qwen3-8B pad_token=<pad> eos_token: </s> pad_token_id: 151643",
        "unexpected token=151643, unexpected token: }",
        "rltf.feedback.endpoint.api_key_env=MY_KEY: this environment variable is not set",
        "prompt_key: prompt, sort_key=timestamp, reward_fn_key=data_source",
        "HTTP 401: missing bearer token; a basic example; Basic understanding",
        "the bearer of news2024; the bearer of 3 tokens; login failed after 3 tries",
        "serve --max-tokens 1024 --tokenizer Qwen/Qwen3-8B --token <yours> --api-key $KEY -p 80",
        "global_step_00000000000000000020 req_0123456789abcdef01234",
        "3 tests pass: 2 of 5; session ended: horizon; author: Ann 2",
        "hf_transfer hf_hub_download sk-learn task-12345678 disk_12345678 org-chart",
        "http://127.0.0.1:8000/v1 https://huggingface.co/@user me@host:22",
        "chatcmpl-abc123 req_0123456789abcdef deadline_s=300",
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert Secrets([]).quote(text) == text
    assert hidden({"x": text}) == {"x": text}
    assert not looks_secret("TOKENIZERS_PARALLELISM", text)


def test_names_tell_secrets_from_counts_and_columns() -> None:
    secret = ("MY_PW", "MY_PIN", "OPENAI_ORG_ID", "SLACK_WEBHOOK_URL", "apiKey", "MY_KEY")
    assert hidden(dict.fromkeys(secret, "word")) == dict.fromkeys(secret, "***")
    assert hidden({"api_key_env": "my own word"}) == {"api_key_env": "***"}
    others = ("max_tokens", "tokenizer", "prompt_key", "spin", "session_id", "pad_token_id")
    for values in (
        dict.fromkeys(others, "word"),
        {"max_tokens": 5, "x": [1.5, None, True], 3: "y"},
    ):
        assert hidden(values) == values


@pytest.mark.parametrize("url", ["http://me:pass@word@h/v1", "https://only-a-name@h:8"])
def test_a_message_about_a_url_shows_neither_user_nor_password(url: str) -> None:
    for text in (shown(url), plain(url), shown([url]), shown({"url": url})):
        assert "://***@h" in text
        assert not any(word in text for word in ("me:", "word", "only"))
    assert plain("http://h:8000/v1") == "http://h:8000/v1"
