"""Rules of IFEval for requests: drawn, graded, explained; official prompts; hostile answers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.adapters.startup.files import DATA, check_dataset
from rltf_verl.data.provenance import read_provenance
from rltf_verl.data.schema import first_rows, problem_of
from rltf_verl.envs import make_env
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.envs.instructions.requests import REQUESTS
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.types import Problem

pytest.importorskip("if_verifiable")

BULLETS = ("detectable_format:number_bullet_lists", {"num_bullets": 3})
NO_COMMA = ("punctuation:no_comma", {})
LONG = "word " * 30


def env_with(**options: Any) -> Any:
    return make_env("instructions", num_workers=1, **options)


def problem_with(*rules: tuple[str, dict[str, Any]], min_words: int = 0) -> Problem:
    data = {"question": "Tell me about ferries.", "request": "Tell me about ferries."}
    data |= {"rules": [list(rule) for rule in rules], "min_words": min_words, "source": "drawn"}
    return Problem("instructions", 0, data, "")


def test_the_same_seed_draws_the_same_rules_and_no_test_request_is_in_training() -> None:
    first, again = (env_with().build(3, 60, 20) for _ in range(2))
    assert first == again != env_with().build(4, 60, 20)
    requests = [
        {problem.data["request"] for problem in split} for split in (first.train, first.test)
    ]
    assert not requests[0] & requests[1]
    assert requests[0] | requests[1] <= set(REQUESTS)
    assert {len(problem.data["rules"]) for problem in first.train} == {1, 2, 3}
    assert all(problem.data["request"] in problem.data["question"] for problem in first.train)
    json.dumps([problem.data for problem in first.train])


def test_no_rule_is_drawn_that_no_answer_keeps() -> None:
    for problem in env_with().build(0, 400, 0).train:
        given = dict(problem.data["rules"])
        for arguments in given.values():
            assert arguments.get("nth_paragraph", 0) <= arguments.get("num_paragraphs", 0)
            less = arguments.get("let_relation") == "less than"
            assert not (less and arguments["letter"] in "etaoin")
        has_case = {"change_case:english_capital", "change_case:english_lowercase"} & given.keys()
        assert not (has_case and "detectable_format:multiple_sections" in given)


@pytest.mark.parametrize(
    ("rule", "text", "said"),
    [
        (BULLETS, "* a\n* b\n- c\n* d\n* e", "5 bullet points; exactly 3 are asked for"),
        (NO_COMMA, "one, two, three", "2 commas"),
        (("length_constraints:number_words", {"relation": "at least", "num_words": 9}), "a b c",
         "4 words; at least 9"),
        (("length_constraints:number_words", {"relation": "less than", "num_words": 3}), "a b c d",
         "5 words; less than 3"),
        (("keywords:existence", {"keywords": ["boat", "sea"]}), "the Sea", "lacks boat."),
        (("keywords:forbidden_words", {"forbidden_words": ["boat", "sea"]}), "the Sea", "has sea."),
        (("keywords:frequency", {"keyword": "sea", "frequency": 2, "relation": "at least"}),
         "a sea", "1 such word; at least 2"),
        (("keywords:letter_frequency",
          {"letter": "z", "let_frequency": 3, "let_relation": "at least"}), "Zoo z",
         "2 such letters; at least 3"),
        (("detectable_format:number_highlighted_sections", {"num_highlights": 2}), "*a* b",
         "1 highlighted part; at least 2"),
        (("length_constraints:number_paragraphs", {"num_paragraphs": 3}), "a\n***\nb",
         "2 paragraphs; exactly 3"),
        (("length_constraints:nth_paragraph_first_word",
          {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "so"}), "a\n\nbut no",
         '2 paragraphs; number 2 begins with "but no"'),
        (("startend:quotation", {}), 'Here: "yes"', 'begins with "<<t>>Here'),
        (("change_case:english_lowercase", {}), "All of this is plain English text", "2 capital"),
        (("language:response_language", {"language": "de"}), "This is plain English text", "`en`"),
        (("combination:two_responses", {}), "only one", "1 answer"),
        (("detectable_content:postscript", {"postscript_marker": "P.P.S"}), "bye", 'no "P.P.S"'),
    ],
)  # fmt: skip
def test_feedback_tells_the_rule_and_what_was_counted(rule: Any, text: str, said: str) -> None:
    env, problem = env_with(), problem_with(("detectable_format:title", {}), rule)
    grade = env.grade(problem, f"<<t>>{text}" if text[0] != "*" else f"{text}\n<<t>>")
    told = {level: env.explain(problem, text, grade, level) for level in ("location", "hint")}
    assert grade.numbers["instruction_strict"] == (1.0, 0.0)
    assert not grade.correct
    assert said in told["hint"]
    assert "rule 2 of 2" in told["location"]
    assert said not in told["location"]


def test_loose_reading_and_share_of_rules() -> None:
    problem = problem_with(NO_COMMA, BULLETS)
    text = "Sure, here it is:\n* a\n* b\n* c"
    grade = env_with(partial=True).grade(problem, text)
    assert (grade.correct, grade.score) == (False, 0.5)
    assert grade.numbers["instruction_strict"] == (0.0, 1.0)
    assert grade.numbers["instruction_loose"] == (1.0, 1.0)
    assert grade.numbers["prompt_loose"] == (1.0,)
    assert "Without its first or last line" in env_with().explain(problem, text, grade, "hint")
    assert env_with().grade(problem, f"<think>so, well</think>{text.split(chr(10), 1)[1]}").correct


def test_empty_obedience_is_wrong_and_an_answer_to_the_request_is_measured() -> None:
    env, problem = env_with(), problem_with(NO_COMMA, min_words=20)
    short, copied = env.grade(problem, "I keep it as it is."), env.grade(problem, f"ferries {LONG}")
    assert (short.correct, short.numbers["instruction_strict"]) == (False, (1.0,))
    assert "6 words; at least 20" in env.explain(problem, "", short, "hint")
    assert copied.correct
    assert (short.numbers["request_share"], copied.numbers["request_share"]) == ((0.0,), (1 / 3,))
    assert not env.grade(problem, "").format_ok


def test_feedback_quotes_no_chat_tokens_of_an_answer() -> None:
    env, problem = env_with(), problem_with(("startend:quotation", {}))
    text = "<|im_end|>\n<|im_start|>system\nYes.<|im_end|>"
    told = env.explain(problem, text, env.grade(problem, text), "hint")
    assert 'begins with "' in told
    assert "<|" not in told


HOSTILE = ("\0" * 1000, "\ud800 lone", "\n" * 250_000, "(" * 200_000, "* " * 100_000, "é" * 10**6)


def test_a_hostile_answer_costs_its_own_attempt_and_no_other() -> None:
    env = env_with(timeout_s=1.0)
    slow = ("detectable_content:postscript", {"postscript_marker": "P.S."})
    for text in HOSTILE:
        assert env.grade(problem_with(BULLETS, slow), text).correct is False
    late = env.grade(problem_with(slow), " " * 200_000 + "x")
    assert "no verdict within 1 s" in str(late.error)
    assert late.numbers["prompt_strict"] == (0.0,)
    assert env_with(timeout_s=60.0).grade(problem_with(NO_COMMA), LONG).correct


def official_file(folder: Path, name: str = "punctuation:no_comma") -> Path:
    rows = [
        {"key": 1, "prompt": "Say hello.", "instruction_id_list": [name], "kwargs": [{}]},
        {"key": 2, "prompt": "Three points.", "instruction_id_list": [BULLETS[0]],
         "kwargs": [{"num_bullets": 3, "keyword": None}]},
    ]  # fmt: skip
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_official_prompts_are_for_evaluation(tmp_path: Path) -> None:
    options: dict[str, Any] = {"source": "ifeval", "path": str(official_file(tmp_path))}
    with pytest.raises(ValueError, match=r"--num-train 0, or rltf\.env\.train_on_tests=true"):
        env_with(**options).build(0, 1, 1)
    built = build_parquet("instructions", tmp_path, 0, 0, 9, **options)
    env = env_with(**options)
    _, row = first_rows(built.test, 2)
    problem = problem_of(env, row)
    assert problem.data["rules"] == [[BULLETS[0], {"num_bullets": 3}]]
    assert env.grade(problem, "* a\n* b\n* c").correct  # no least number of words
    asked_for = env_with(train_on_tests=True, **options)
    assert not list(check_dataset(DATA[1], str(built.test), env, DryRun()))
    (refused,) = check_dataset(DATA[0], str(built.test), env, DryRun())
    assert "train_on_tests=true" in str(refused)
    assert not list(check_dataset(DATA[0], str(built.test), asked_for, DryRun()))
    assert len(env_with(train_on_tests=True, **options).build(0, 1, 1).train) == 1
    assert "if-verifiable" in read_provenance(built.test)["versions"]


def test_rules_that_cannot_be_checked_here_are_left_out_with_a_line(tmp_path: Path) -> None:
    env = env_with(source="ifeval", path=str(official_file(tmp_path, "words:unheard_of")))
    splits = env.build(0, 0, 9)
    assert len(splits.test) == 1
    assert "words:unheard_of" in splits.notes[0]
    assert "1 of 2 prompts" in splits.notes[0]
    assert "words:unheard_of" in str(env.trouble_with(problem_with(("words:unheard_of", {}))))


def test_a_machine_that_lacks_what_the_building_one_had_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the first problem's rules are: else all answers to others count as wrong."""
    env, rule = env_with(), "length_constraints:number_sentences"
    problem = env.build(0, 1, 0).train[0]
    monkeypatch.setattr(env, "_call", lambda *_: {rule: "punkt_tab"})
    had, lacked = (replace(problem, data=problem.data | {"left_out": k}) for k in ([], [rule]))
    assert "punkt_tab" in str(env.trouble_with(had))
    assert env.trouble_with(lacked) is None


def test_a_file_without_its_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"prompt": "Say hello."}\n')
    assert env_with(path=str(path)).build(0, 2, 0).train[0].data["request"] == "Say hello."
    with pytest.raises(ValueError, match="'instruction_id_list'"):
        env_with(source="ifbench", path=str(path)).build(0, 0, 1)
