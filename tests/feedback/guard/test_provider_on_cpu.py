"""What the leak guard does with a text: drop, redact, ask again, warn, or nothing."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable
from rltf_verl.feedback.guard import GuardedProvider, GuardSettings, Leak, find_leaks
from rltf_verl.feedback.guard.provider import GAP, redacted
from rltf_verl.types import Attempt, Problem
from tests.support.feedback_fakes import Scripted, Sums, asked, turn

CLEAN, LEAKY = "Carry the one.", "Not 41: the answer is 42."


class Explained(Sums):
    """Its problems come with a worked solution."""

    def worked_solution(self, problem: Problem) -> str:
        return "First multiply six by five which is thirty then add six twice to get the product"


async def refusal(guard: GuardedProvider, request) -> FeedbackUnavailable:
    with pytest.raises(FeedbackUnavailable) as refused:
        await guard.feedback(request)
    return refused.value


async def test_a_clean_text_passes_with_an_empty_verdict():
    said = await GuardedProvider(Scripted(CLEAN)).feedback(asked())
    assert (said.text, said.leak, said.original) == (CLEAN, "", None)


async def test_drop_is_unavailable_and_keeps_the_text_for_the_log():
    error = await refusal(GuardedProvider(Scripted(LEAKY)), asked())
    assert (
        str(error)
        == "scripted: the leak guard dropped it (answer: 42); rltf.feedback.guard.action=drop"
    )
    assert error.withheld is not None
    assert (error.withheld.text, error.withheld.leak) == (LEAKY, "answer: 42")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.withheld) == (str(error), error.withheld)


async def test_redact_cuts_the_passage_out():
    said = await GuardedProvider(Scripted(LEAKY), "redact").feedback(asked())
    assert (said.text, said.original, said.leak) == (
        f"Not 41: the answer is {GAP}.",
        LEAKY,
        "answer: 42",
    )


@pytest.mark.parametrize("text", ["42", "**42**", "forty-two"])
async def test_redact_drops_what_would_say_nothing(text):
    error = await refusal(GuardedProvider(Scripted(text), "redact"), asked())
    assert error.withheld is not None
    assert error.withheld.text == text


async def test_redact_drops_what_still_leaks():
    copied = Explained().worked_solution(asked().problem)
    guard = GuardedProvider(Scripted(f"Do it so: {copied}. The answer is 42."), "redact")
    error = await refusal(guard, asked(env=Explained()))
    assert error.withheld is not None


async def test_regenerate_asks_with_other_seeds_until_it_is_clean():
    inner = Scripted(LEAKY, LEAKY, CLEAN)
    said = await GuardedProvider(inner, "regenerate").feedback(asked())
    assert (said.text, said.leak, said.original) == (CLEAN, "answer: 42", LEAKY)
    assert len({request.seed for request in inner.requests}) == 3


async def test_regenerate_is_bounded():
    inner = Scripted(LEAKY)
    error = await refusal(GuardedProvider(inner, "regenerate", regenerations=3), asked())
    assert len(inner.requests) == 4
    assert error.withheld is not None


async def test_a_failure_while_asking_again_still_counts_the_leak():
    error = await refusal(GuardedProvider(Scripted(LEAKY, None), "regenerate"), asked())
    assert str(error) == "scripted: nobody there"
    assert error.withheld is not None
    assert error.withheld.leak == "answer: 42"


async def test_warn_lets_it_pass_and_says_so_once(caplog):
    guard = GuardedProvider(Scripted(LEAKY), "warn")
    for _ in range(3):
        assert (await guard.feedback(asked())).text == LEAKY
    assert (
        len([r for r in caplog.records if "gives the answer away (answer: 42)" in r.getMessage()])
        == 1
    )


async def test_nothing_is_looked_at_where_nothing_can_be_given_away():
    blind = await GuardedProvider(Scripted(LEAKY, sees_reference=False)).feedback(asked())
    solved = await GuardedProvider(Scripted(LEAKY)).feedback(asked(turn("42")))
    own_critique = Attempt((1,), (2,), None, LEAKY, ended=True)
    own = await GuardedProvider(Scripted(LEAKY, attempt=own_critique)).feedback(asked())
    assert [said.leak for said in (blind, solved, own)] == [None] * 3


async def test_check_all_looks_at_everybody():
    await refusal(GuardedProvider(Scripted(LEAKY, sees_reference=False), check_all=True), asked())


async def test_a_redacted_critique_is_not_trained_on_as_if_it_had_been_sampled():
    own_critique = Attempt((1,), (2,), None, LEAKY, ended=True)
    guard = GuardedProvider(Scripted(LEAKY, attempt=own_critique), "redact", check_all=True)
    assert (await guard.feedback(asked())).attempt is None


async def test_an_additional_check_sees_what_rules_do_not():
    seen = []

    async def check(request: FeedbackRequest, text: str) -> bool:
        seen.append(text)
        return "weeks" in text

    inner = Scripted("Count the days of six weeks.", CLEAN, LEAKY)
    guard = GuardedProvider(inner, also=check)
    error = await refusal(guard, asked())
    assert error.withheld is not None
    assert error.withheld.leak == "judged: Count the days of six weeks."
    assert (await guard.feedback(asked())).leak == ""
    await refusal(guard, asked())
    assert seen == [
        "Count the days of six weeks.",
        CLEAN,
    ], "what the rules find needs no further check"


def test_the_wrapper_is_transparent():
    inner = Scripted(CLEAN, sees_reference=False)
    guard = GuardedProvider(inner)
    assert (guard.name, guard.sees_reference, guard.constant) == ("scripted", False, False)
    with pytest.raises(
        ValueError, match=r"rltf\.feedback\.guard\.action='dorp'.*Did you mean 'drop'"
    ):
        GuardedProvider(inner, "dorp")


def kinds(text: str, settings: GuardSettings | None = None, env=None) -> set[str]:
    return {
        leak.kind for leak in find_leaks(env or Sums(), asked().problem, text, settings=settings)
    }


def test_a_copy_of_the_worked_solution_is_a_leak_and_a_phrase_of_it_is_none():
    whole = Explained().worked_solution(asked().problem)
    assert kinds(f"Look: {whole.upper()}!", env=Explained()) == {"solution"}
    assert kinds("First multiply six by five which is nice.", env=Explained()) == set()
    assert kinds(whole, GuardSettings(overlap=1.0), Explained()) == set(), "1 allows all of it"


def test_a_grader_that_breaks_on_a_passage_has_not_accepted_it():
    assert kinds('You wrote "boom", the answer is boom') == set()


async def test_redact_looks_again_at_what_is_left():
    """Two halves of an answer may become one when the words between them are gone."""
    seen: list[str] = []

    async def check(request: FeedbackRequest, text: str) -> bool:
        seen.append(text)
        return GAP in text

    error = await refusal(GuardedProvider(Scripted(LEAKY), "redact", also=check), asked())
    assert seen == [f"Not 41: the answer is {GAP}."]
    assert error.withheld is not None
    assert error.withheld.text == LEAKY


def test_a_passage_inside_another_is_gone_with_it():
    leaks = [Leak("answer", 0, 10), Leak("part", 2, 4), Leak("part", 6, 12)]
    assert redacted("0123456789abcdef", leaks) == f"{GAP}cdef"


PASSAGES = st.text(alphabet="ab 4\n", min_size=1, max_size=40)


@given(PASSAGES, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=6))
def test_redaction_keeps_every_other_character_and_no_leaking_one(text, spans):
    leaks = [Leak("answer", min(s, len(text)), min(e, len(text))) for s, e in spans if s < e]
    hidden = {i for leak in leaks for i in range(leak.start, leak.end)}
    assert re.sub(re.escape(GAP), "", redacted(text, leaks)) == "".join(
        c for i, c in enumerate(text) if i not in hidden
    )
