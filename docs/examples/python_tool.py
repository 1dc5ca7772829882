"""Word problems with a Python interpreter as tool: an environment whose attempt takes several steps.

    rltf env check docs/examples/python_tool.py:PythonTool
    rltf/env=own rltf.env.name=docs/examples/python_tool.py:PythonTool
"""

import random

from rltf_verl.envs.base import CORRECT, INCORRECT, Env, Limits, Splits
from rltf_verl.envs.sandbox import make_sandbox
from rltf_verl.envs.sandbox.base import Program, Resources
from rltf_verl.envs.text.boxed import last_box
from rltf_verl.types import Action, Grade, Note, Problem, Step

QUESTION = """\
{name} packs {boxes} boxes a day with {pens} pens each; every {nth}th box of a day has one pen less. \
How many pens are packed in {days} days? Use the tool, then write the number in \\boxed{{}}."""

PYTHON = {
    "type": "function",
    "function": {
        "name": "python",
        "description": "Run a Python program; it returns what the program prints.",
        "parameters": {
            "type": "object",
            "properties": {"source": {"type": "string"}},
            "required": ["source"],
        },
    },
}


class PythonTool(Env):
    name = "python_tool"
    tools = (PYTHON,)
    limits = Limits(steps=6, step_s=10, attempt_s=30, observation_tokens=64)

    def __init__(self, sandbox: str = "bubblewrap"):
        self.sandbox = make_sandbox(sandbox, Resources(time_s=2, total_s=8, memory_mb=256))

    def trouble(self):
        return self.sandbox.trouble()

    def build(self, seed, num_train, num_test):
        rng = random.Random(seed)
        made = [self._problem(rng, i) for i in range(num_train + num_test)]
        return Splits(tuple(made[:num_train]), tuple(made[num_train:]))

    def prompt(self, problem):
        return QUESTION.format(**problem.data)

    def open(self, problem, seed):
        return []  # the programs of this attempt

    def step(self, state, action):
        source = action.arguments.get("source")
        if action.tool != "python" or not isinstance(source, str):
            return Step("python needs source, a text.", kind="error")
        state.append(source)
        with self.sandbox.start(Program(source)) as run:
            outcome = run.call("")
        if outcome.ending == "ok":
            return Step(outcome.output.strip()[:500] or "The program printed nothing.")
        return Step(f"{outcome.ending}: {outcome.message}"[:500], kind="error")

    def grade(self, problem, trajectory):
        answer = last_box(trajectory.answer)
        return Grade(answer == problem.reference, answer is not None, answer)

    def explain(self, problem, trajectory, grade, level):
        notes = [Note(CORRECT if grade.correct else INCORRECT)]
        if not grade.correct and level != "verdict":
            notes += [
                Note(f"This program failed. {result.observation if level != 'location' else ''}", k)
                for k, step in enumerate(trajectory.steps)
                for result in step.results
                if result.kind == "error"
            ]
        if not grade.correct and level == "full":
            notes.append(Note(f"The answer is {problem.reference}."))
        return notes

    def _problem(self, rng, index):
        boxes, pens, nth, days = (rng.randint(*ends) for ends in ((20, 99), (5, 40), (4, 9), (3, 30)))
        data = {"name": rng.choice(("Mia", "Omar", "Lena")), "boxes": boxes, "pens": pens}
        answer = days * (boxes * pens - boxes // nth)
        return Problem(self.name, index, {**data, "nth": nth, "days": days}, str(answer))
