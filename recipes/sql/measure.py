"""How many wrong answers become right after feedback: by level of feedback, by prompt, by
temperature. No server, no trainer: the model is in this process.

    python recipes/sql/measure.py MODEL DATA.parquet --out answers.jsonl
        --levels verdict location hint --prompts fresh:note append:plain_append --temperature 1.0

`--env mine.py:Mine KEY=VALUE` measures another task. The level `other:hint` is the hint on the next
wrong answer, which is to another question.

A line of `answers.jsonl` is a first answer, or a second one with the prompt that led to it. All
second answers of a temperature revise the same wrong first ones. What the file has already is not
sampled again; `--show N` prints so many of each kind.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from rltf_verl.data.questions import QuestionRow, read_questions
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.episode.seeds import place_of, sampling_seed
from rltf_verl.jsonl import append_lines, read_lines
from rltf_verl.prompts import render, template_of
from rltf_verl.tools.cli.common import parse_options

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "pretrained"))

from sampling import Sampler  # noqa: E402  (in the folder above)

Line = dict[str, Any]
MAX_TOKENS = 160
"""Of an answer."""


def key_of(line: Line) -> tuple[Any, ...]:
    """Key of a line. It has the question, since data that are built again may have another one at
    the same index.
    """
    return (line["question"], line["temperature"], line.get("level"), line.get("prompt"))


def asked(row: QuestionRow) -> str:
    """The question: of a database, its trade and its words alone."""
    if "trade" in row.problem.data:
        return "{trade}: {question}".format(**row.problem.data)
    return row.messages[-1]["content"]


def second_chat(question: str, first: str, feedback: str, prompt: str) -> list[dict[str, str]]:
    """The conversation that leads to a second answer; `prompt` is `context:template`."""
    context, _, template = prompt.partition(":")
    fields = {"question": question, "attempt": first, "feedback": feedback}
    asked = {"role": "user", "content": render(template_of("revise", template), **fields)}
    if context == "fresh":
        return [asked]
    said = [{"role": "user", "content": question}, {"role": "assistant", "content": first}]
    return [*said, asked]


def play(
    sampler: Sampler, env: Env, rows: Sequence[QuestionRow], out: Path, todo: list[Line]
) -> None:
    """Sample what is to do, and write it line by line."""
    seeds = [
        sampling_seed(
            0, validate=True, step=0, source="sql", session_id=0, index=line["index"],
            place=place_of(1 if "level" in line else 0),
        )
        for line in todo
    ]  # fmt: skip
    for at, text in sampler.answers([line["chat"] for line in todo], seeds, todo[0]["temperature"]):
        line = {name: value for name, value in todo[at].items() if name != "chat"}
        grade = env.grade(rows[line["index"]].problem, text)
        append_lines(out, [line | {"answer": text, "right": grade.correct}])
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def lines_of(path: Path) -> dict[tuple[Any, ...], Line]:
    """What a file has, by `key_of`."""
    return {key_of(line): line for line in (read_lines(path) if path.exists() else [])}


def measure(args: argparse.Namespace) -> None:
    """Sample first answers, then second ones for each level and prompt."""
    name, *options = args.env
    env = make_env(name, **parse_options(options))
    rows = read_questions(args.data, args.problems, env)
    sampler, temperature = Sampler(args.model, MAX_TOKENS), args.temperature
    prompts = [row.messages[-1]["content"] for row in rows]
    firsts = [
        {"index": i, "question": asked(row), "temperature": temperature, "chat": row.messages}
        for i, row in enumerate(rows)
    ]
    there = lines_of(args.out)
    todo: list[Line] = [line for line in firsts if key_of(line) not in there]
    if todo:
        play(sampler, env, rows, args.out, todo)
    there = lines_of(args.out)
    first_of = [there[key_of(line)] for line in firsts]
    wrong = [line for line in first_of if not line["right"]][: args.wrong]
    for prompt in args.prompts:
        for level in args.levels:
            todo = []
            for one, after in zip(wrong, (*wrong[1:], *wrong[:1]), strict=True):
                other, _, kind = level.rpartition(":")
                said = feedback_on(env, rows, after if other else one, kind)
                first = one["answer"]
                chat = second_chat(prompts[one["index"]], first, said, prompt)
                line = {name: one[name] for name in ("index", "question", "temperature")}
                line |= {"level": level, "prompt": prompt, "first": first}
                todo.append(line | {"feedback": said, "chat": chat})
            todo = [line for line in todo if key_of(line) not in there]
            if todo:
                play(sampler, env, rows, args.out, todo)
            print(table(lines_of(args.out).values()).splitlines()[-1], flush=True)


def feedback_on(env: Env, rows: Sequence[QuestionRow], line: Line, level: Any) -> str:
    """Feedback on a first answer."""
    problem, answer = rows[line["index"]].problem, line["answer"]
    return str(env.explain(problem, answer, env.grade(problem, answer), level))


def table(lines: Sequence[Line] | Any) -> str:
    """Shares of right answers, a row for each temperature, prompt and level."""
    kinds: dict[tuple[Any, ...], list[bool]] = {}
    for line in lines:
        key = (line["temperature"], line.get("prompt", "first answers"), line.get("level", ""))
        kinds.setdefault(key, []).append(line["right"])
    said = ["| temperature | prompt | level | right | of |", "| --- | --- | --- | ---: | ---: |"]
    for (temperature, prompt, level), right in kinds.items():
        share = sum(right) / len(right)
        said.append(f"| {temperature} | {prompt} | {level} | {share:.2f} | {len(right)} |")
    return "\n".join(said)


def show(args: argparse.Namespace) -> None:
    """Print the first lines of each kind, to be read."""
    rows = read_questions(args.data)
    for number, line in zip(count(1), lines_of(args.out).values()):
        if "level" in line and number % 7 == 0 and args.show > 0:
            args.show -= 1
            problem = rows[line["index"]].problem
            print(f"=== {line['index']} {line['level']} {line['prompt']} right: {line['right']}")
            print(line["question"], "\n", problem.reference, "\n--- first", line["first"])
            print("--- feedback", line["feedback"], "\n--- second", line["answer"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--env", nargs="+", default=[f"{HERE / 'text_to_sql.py'}:TextToSql"])
    parser.add_argument("--problems", type=int, default=64)
    parser.add_argument("--wrong", type=int, default=64, help="first answers to revise, at most")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--levels", nargs="*", default=["verdict", "location", "hint"])
    parser.add_argument("--prompts", nargs="*", default=["fresh:note", "append:plain_append"])
    parser.add_argument("--show", type=int, default=0)
    args = parser.parse_args()
    if args.show:
        show(args)
    else:
        measure(args)
        print(table(lines_of(args.out).values()))


if __name__ == "__main__":
    main()
