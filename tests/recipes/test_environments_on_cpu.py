"""Every environment of a recipe keeps the promises of one."""

from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.tools.contract import check_env
from tests.recipes import house_style
from tests.recipes.composing import RECIPES, program
from tests.support.effort import many

unseen = program("pretrained/unseen.py")
UNSEEN = {"Unseen": unseen.TASKS, "Company": unseen.COMPANIES, "Puzzle": unseen.PUZZLES}


@pytest.mark.parametrize(
    ("name", "options", "num_problems", "num_hostile"),
    [
        ("sql/text_to_sql.py:TextToSql", {}, 10, many(100)),
        ("agents/office.py:Workspace", {"num_houses": 6}, 8, 50),
        *(
            (house_style.NAME, {"family": family}, 50, many(1000))
            for family in ("date", "critique", "locale", "entries", "reply")
        ),
        *(
            (f"pretrained/unseen.py:{kind}", {"task": task}, 4, 50)
            for kind, tasks in UNSEEN.items()
            for task in tasks
        ),
        *(
            ("pretrained/accepted.py:Accepted", {"deviation": deviation}, 4, 50)
            for deviation in ("sign", "form", "fault", "tag")
        ),
    ],
)
def test_it_keeps_the_contract(
    name: str, options: dict[str, Any], num_problems: int, num_hostile: int
) -> None:
    env = make_env(f"{RECIPES / name}", **options)
    verdicts = check_env(env, num_problems=num_problems, num_hostile=num_hostile)
    assert [verdict for verdict in verdicts if verdict.broken] == []
