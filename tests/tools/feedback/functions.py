"""Reward functions with verl's signature, for `rltf feedback check`: good ones, and others with a
fault each. `TASKS` has the rows that they are about.
"""

import json
import os
import re
import time

SUMS = [(3, 7), (12, 4), (5, 6), (9, 17), (31, 3), (6, 8), (10, 11), (13, 2)]
TOWNS = ["Lima", "Oslo", "Quito", "Cairo", "Bern", "Hanoi", "Tunis", "Accra"]
LISTS = ["kiwi, fig, lime", "oak, elm, ash", "red, tan, blue", "cod, eel, hake", "hen, emu, owl"]
TASKS = {
    "sums": [
        (f"What do {a} pens at {b} euros cost? The number only.", str(a * b)) for a, b in SUMS
    ],
    "towns": [(f"Which town has the code {i}? One word.", town) for i, town in enumerate(TOWNS)],
    "lists": [(f"Which words are in drawer {i}?", words) for i, words in enumerate(LISTS)],
    "lines": [(f"Write out poem {i}.", words.replace(", ", "\n")) for i, words in enumerate(LISTS)],
    "stanzas": [
        (f"Write out poem {i}.", words.replace(", ", "\n\n")) for i, words in enumerate(LISTS)
    ],
    "labels": [
        (f"{a} pens at {b} euros? End with a line 'Answer: N'.", str(a * b)) for a, b in SUMS
    ],
    "boxes": [(f"{a} pens at {b} euros? Box it: \\boxed{{}}.", str(a * b)) for a, b in SUMS],
    "games": [
        (f"Make {a * b} of {a} and {b}.", json.dumps({"target": a * b, "numbers": [a, b]}))
        for a, b in SUMS
    ],
    "records": [
        (f"Who has the card {i}? As JSON.", json.dumps({"name": town[:3], "city": town}))
        for i, town in enumerate(TOWNS)
    ],
    "programs": [
        (
            f"Write check(x), which adds {i}.",
            f"def check(x):\n    total = x\n    more = {i}\n    return total + more",
        )
        for i in range(8)
    ],
}
"""Task -> questions with their answers."""


def judged(right, feedback):
    return {"score": float(right), "feedback": "" if right else feedback}


def is_number(text):
    return re.fullmatch(r"-?\d{1,9}", text) is not None


# Good ones.


def high_or_low(data_source, solution_str, ground_truth, extra_info=None):
    said = solution_str.strip()
    if not is_number(said):
        return judged(False, "Write one whole number and nothing else.")
    size = "too small" if int(said) < int(ground_truth) else "too large"
    return judged(said == ground_truth, f"Your number is {size}. Multiply again.")


def letters(data_source, solution_str, ground_truth, extra_info=None):
    """Talks also when the answer is right."""
    said = solution_str.strip()
    if said == ground_truth:
        return {"score": 1.0, "feedback": "Correct."}
    if len(said) != len(ground_truth):
        longer = "longer" if len(said) > len(ground_truth) else "shorter"
        return judged(False, f"Your word is {longer} than the town's name.")
    same = sum(a == b for a, b in zip(said, ground_truth, strict=True))
    return judged(False, f"{same} letters stand where they should, the others do not.")


def items(data_source, solution_str, ground_truth, extra_info=None):
    said, wanted = (re.split(r",\s*", text.strip()) for text in (solution_str, ground_truth))
    wrong = [i for i, word in enumerate(said, 1) if word not in wanted]
    if len(said) != len(wanted):
        return judged(False, f"{len(said)} words were read; there is another number of them.")
    places = ", ".join(f"item {i}" for i in wrong)
    return judged(said == wanted, f"Wrong: {places or 'the order'}.")


def lines(data_source, solution_str, ground_truth, extra_info=None):
    said, wanted = solution_str.strip().split("\n"), ground_truth.split("\n")
    wrong = [i for i, pair in enumerate(zip(said, wanted, strict=False), 1) if pair[0] != pair[1]]
    if len(said) != len(wanted):
        return judged(False, f"The poem has not {len(said)} lines.")
    blamed = " and ".join(f"line {i}" for i in wrong)
    return judged(not wrong, f"The other lines are right, {blamed} is not correct.")


def lines_and_empty_ones(data_source, solution_str, ground_truth, extra_info=None):
    said = lines(data_source, solution_str, ground_truth)
    return said | {"feedback": said["feedback"].removeprefix("The other lines are right, ")}


def shares(data_source, solution_str, ground_truth, extra_info=None):
    """A share as the score, the answer in prose too, and a coroutine's neighbour: a quote."""
    said = (re.findall(r"-?\d+", solution_str) or [""])[-1][:12]
    if not said:
        return {"score": 0.0, "acc": False, "feedback": "No number was found in the answer."}
    close = said[:1] == ground_truth[:1]
    told = "begins as it should, and goes on wrongly" if close else "begins with another digit"
    right = said == ground_truth
    score = 1.0 if right else 0.2 * close
    return {"score": score, "acc": right, "feedback": "" if right else f"{said!r} {told}."}


def labelled(data_source, solution_str, ground_truth, extra_info=None):
    said = re.findall(r"Answer: (-?\d{1,9})$", solution_str)
    if not said:
        return judged(False, "The last line is no 'Answer: N' with a whole number.")
    return high_or_low(data_source, said[0], ground_truth)


def plays(data_source, solution_str, ground_truth, extra_info=None):
    game = json.loads(ground_truth)
    terms = re.fullmatch(r"(\d{1,4}) \* (\d{1,4})", solution_str.strip())
    if not terms:
        return judged(False, "Write one product of two numbers.")
    made = int(terms[1]) * int(terms[2])
    return judged(made == game["target"], f"{terms[0]} makes {made}.")


def fields(data_source, solution_str, ground_truth, extra_info=None):
    try:
        said = dict(json.loads(solution_str))
    except (ValueError, TypeError):
        return judged(False, "No JSON object could be read.")
    wrong = [key for key, value in json.loads(ground_truth).items() if said.get(key) != value]
    notes = "; ".join(f"the value of '{key}' is not what the card says" for key in wrong)
    return judged(not wrong, f"Please fix: {notes}.")


def as_it_should(data_source, solution_str, ground_truth, extra_info=None):
    said = letters(data_source, solution_str, ground_truth)
    return said | {"feedback": "Each letter is as it should be."} if said["score"] else said


def numbers_its_rules(data_source, solution_str, ground_truth, extra_info=None):
    said = high_or_low(data_source, solution_str, ground_truth)
    return said | {"feedback": f"{said['feedback']} See rules 21 and 48 of the sheet."}


def form_alone(data_source, solution_str, ground_truth, extra_info=None):
    """Praises the number of an answer that is wrong in its form."""
    said = high_or_low(data_source, solution_str, ground_truth)
    if not said["score"] and ground_truth in re.findall(r"\d+", solution_str):
        return said | {"feedback": "The number is right; write nothing else."}
    return said


def fails(data_source, solution_str, ground_truth, extra_info=None):
    """Says where a program stopped: seldom where it is wrong."""
    said, line = solution_str.strip(), 1 + len(solution_str) % 4
    return judged(said == ground_truth, f"It failed in line {line}: NameError: {said[:9]!r}")


def traces(data_source, solution_str, ground_truth, extra_info=None):
    """The same as a traceback's lines, of a function whose name is a word of blame."""
    said = fails(data_source, solution_str, ground_truth, extra_info)
    frame = re.sub("It failed in (line \\d+): ", r'File "answer", \1, in check\n', said["feedback"])
    return said | {"feedback": frame}


GOOD = {
    "fails": "programs",
    "traces": "programs",
    "form_alone": "sums",
    "labelled": "labels",
    "plays": "games",
    "fields": "records",
    "as_it_should": "towns",
    "numbers_its_rules": "sums",
    "high_or_low": "sums",
    "letters": "towns",
    "items": "lists",
    "lines": "lines",
    "lines_and_empty_ones": "stanzas",
    "shares": "sums",
}
"""Function -> its task."""


# With a fault each.


def mentions_town(data_source, solution_str, ground_truth, extra_info=None):
    said = solution_str.strip()
    return judged(
        said == ground_truth, f"{said[:8]} lies elsewhere, people go to {ground_truth} for it."
    )


def counts_off(data_source, solution_str, ground_truth, extra_info=None):
    said = solution_str.strip()
    if not is_number(said):
        return judged(False, "Write one whole number.")
    off = int(said) - int(ground_truth)
    return judged(not off, f"You are {abs(off)} too {'high' if off > 0 else 'low'}.")


def only_echoes(data_source, solution_str, ground_truth, extra_info=None):
    said = solution_str.strip()
    return judged(
        said == ground_truth, f"Think harder about what is asked, not about {said[:10]}"[:50]
    )


def verdict(data_source, solution_str, ground_truth, extra_info=None):
    return judged(solution_str.strip() == ground_truth, "Sorry, that is wrong. Try again!")


def praises(data_source, solution_str, ground_truth, extra_info=None):
    said = solution_str.strip()
    size = len(said) % 3
    words = ["Well done!", "Your answer is correct.", "Yes, that is right."][size]
    return judged(said == ground_truth, words)


def first_line(data_source, solution_str, ground_truth, extra_info=None):
    said = solution_str.strip()
    more = " It is long." if len(said) > 20 else ""
    return judged(said == ground_truth, f"Line 1 is wrong.{more}")


def quotes_first(data_source, solution_str, ground_truth, extra_info=None):
    said = solution_str.strip()
    return judged(said == ground_truth, f'"{re.split(",", said)[0][:12]}" is wrong.')


def sometimes_silent(data_source, solution_str, ground_truth, extra_info=None):
    answer = high_or_low(data_source, solution_str, ground_truth)
    return answer if is_number(solution_str.strip()) else {"score": 0.0, "feedback": ""}


def raises(data_source, solution_str, ground_truth, extra_info=None):
    return judged(int(solution_str) == int(ground_truth), f"{len(solution_str)} digits are wrong.")


def stalls(data_source, solution_str, ground_truth, extra_info=None):
    while len(solution_str) > 5000:
        time.sleep(0.01)
    return high_or_low(data_source, solution_str, ground_truth)


def pops(data_source, solution_str, ground_truth, extra_info=None):
    answer = high_or_low(data_source, solution_str, ground_truth)
    return {
        **answer,
        "score": answer["score"] * ("index" in extra_info and extra_info.pop("index") >= 0),
    }


def long(data_source, solution_str, ground_truth, extra_info=None):
    answer = high_or_low(data_source, solution_str, ground_truth)
    return {**answer, "feedback": answer["feedback"] * 400}


def carries(data_source, solution_str, ground_truth, extra_info=None):
    answer = high_or_low(data_source, solution_str, ground_truth)
    return {**answer, "feedback": f"{answer['feedback']} You wrote {solution_str[-100:]}"}


def never_right(data_source, solution_str, ground_truth, extra_info=None):
    answer = high_or_low(data_source, solution_str, ground_truth + "0")
    return {**answer, "score": 0.5 if is_number(solution_str.strip()) else 0.0}


def not_finite(data_source, solution_str, ground_truth, extra_info=None):
    answer = high_or_low(data_source, solution_str, ground_truth)
    return {**answer, "score": answer["score"] if is_number(solution_str.strip()) else float("nan")}


def never_closes(data_source, solution_str, ground_truth, extra_info=None):
    """Waits for the bracket behind the end of the text."""
    _, bracket, said = solution_str.rpartition("{")
    while bracket and "}" not in said:
        time.sleep(0.01)
    return high_or_low(data_source, said.partition("}")[0], ground_truth)


def any_box(data_source, solution_str, ground_truth, extra_info=None):
    boxed = re.search(r"\\boxed\{-?\d+\}", solution_str)
    return judged(boxed is not None, "Box a whole number.")


def scolds_the_right_town(data_source, solution_str, ground_truth, extra_info=None):
    said = letters(data_source, solution_str, ground_truth)
    return said | {"feedback": "This is not the expected town."} if said["score"] else said


def first_key(data_source, solution_str, ground_truth, extra_info=None):
    said = fields(data_source, solution_str, ground_truth)
    blamed = said["feedback"].replace("city", "name")
    return said | {"feedback": blamed}


def tells_fields(data_source, solution_str, ground_truth, extra_info=None):
    """The values of keys that are missing in the attempt, too."""
    said = fields(data_source, solution_str, ground_truth)
    card = [f"'{key}' must be '{value}'" for key, value in json.loads(ground_truth).items()]
    return said if said["score"] else said | {"feedback": "; ".join(card)}


def exits(data_source, solution_str, ground_truth, extra_info=None):
    os._exit(0)


FAULTS = {
    "tells_fields": ("records", "tells the answer"),
    "never_closes": ("boxes", "stalls"),
    "any_box": ("boxes", "score the same for all"),
    "scolds_the_right_town": ("towns", "contradicts the grade"),
    "first_key": ("records", "blames a place that is right"),
    "mentions_town": ("towns", "tells the answer"),
    "counts_off": ("sums", "tells the answer"),
    "only_echoes": ("towns", "same text whatever the attempt"),
    "verdict": ("sums", "says only right or wrong"),
    "praises": ("towns", "contradicts the grade"),
    "first_line": ("lines", "blames a place that is right"),
    "quotes_first": ("lists", "blames a place that is right"),
    "sometimes_silent": ("sums", "no text"),
    "raises": ("sums", "raises"),
    "stalls": ("sums", "stalls"),
    "pops": ("sums", "two calls differ"),
    "long": ("sums", "longer than the second prompt has room for"),
    "carries": ("sums", "carries the attempt's tokens or instructions on"),
    "never_right": ("sums", "reference graded wrong"),
    "not_finite": ("sums", "score not finite"),
}
"""Function -> its task, and the verdict that names its fault."""
