"""What one answer to all problems of a task of reasoning-gym scores."""

import signal
from collections import Counter
from typing import NamedTuple

from rltf_verl.envs.reasoning_gym import worker

CONSTANTS = (
    "0",
    "1",
    "2",
    "3",
    "5",
    "-1",
    "0.0",
    "0.5",
    "1e999",
    "1e308",
    "1/0",
    "9" * 400,
    "9" * 5000,
    "nan",
    "NaN",
    "inf",
    "-inf",
    "nan+nanj",
    "infj",
    "0,0",
    "0 0",
    "[]",
    "{}",
    "()",
    "[[]]",
    "[0]",
    '{"a": 1}',
    "True",
    "False",
    "None",
    "null",
    "a",
    "x",
    "yes",
    "no",
    "Yes",
    "No",
    "?",
    "-",
    ".",
    "the answer is",
    "\\boxed{}",
    "P",
    "4*10 - 7 - 9",
    "(P ∨ Q)",
    "(P ∨ ¬P)",
)
SEED, NUM = 12345, 20
OTHERS = 3
"""Problems of a task whose right answers are tried on the others."""
MOST_S = 3.0
"""Of one answer; then it is wrong, as it is in the environment after `timeout_s`."""
SLACK = 0.2
"""A mean score that much above the share of the most common answer is an exploit: 20 problems are
few.
"""


class Swept(NamedTuple):
    """Of one task."""

    best: str
    """The constant with the best mean score."""
    score: float
    common: float
    """Share of the most common reference."""


def sweep(task: str) -> Swept:
    """Each constant, the question and some right answers as the answer to all problems of a
    task.
    """
    signal.signal(signal.SIGALRM, _late)
    items = [item for item in worker.generate(task, "{}", NUM, SEED, 0, NUM) if item is not None]
    references = Counter(reference for _, reference, _ in items)
    tried = [*CONSTANTS, *[reference for _, reference, _ in items[:OTHERS]]]
    scores = {answer: sum(_score(task, entry, answer) for *_, entry in items) for answer in tried}
    scores["<question>"] = sum(_score(task, entry, question) for question, _, entry in items)
    best = max(scores, key=scores.__getitem__)
    return Swept(best, scores[best] / len(items), references.most_common(1)[0][1] / len(items))


def _score(task: str, entry: object, answer: str) -> float:
    signal.setitimer(signal.ITIMER_REAL, MOST_S)
    try:
        return worker.score(task, "{}", entry, answer)
    except Exception:  # the pool makes it a wrong answer
        return 0.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _late(*_: object) -> None:
    raise TimeoutError
