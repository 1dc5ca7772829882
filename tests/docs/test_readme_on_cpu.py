"""README.md: its commands exist, its trainings pass the checks. All pages: links lead somewhere."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command

from rltf_verl.adapters.startup.checks import checked_parts
from rltf_verl.adapters.startup.files import resolve_files
from rltf_verl.tools.cli.app import app
from tests.support import configs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
FOLDERS = ("docs", "recipes", "benchmarks", "skills", "upstream")
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md")),
        *(ROOT / "docs").glob("*.ipynb"),
    ]
)
BLOCKS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    shlex.split(line, comments=True)
    for block in BLOCKS
    for line in block.replace("\\\n", " ").splitlines()
]
TRAININGS = [
    words[3:] for words in COMMANDS if words[:3] == ["python", "-m", "verl.trainer.main_ppo"]
]


def headings(page: Path) -> set[str]:
    """Anchors of a page, as GitHub makes them."""
    text = page.read_text("utf-8")
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return made | set(re.findall(r'<a id="(.+?)"', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_to_a_page_and_its_section(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text("utf-8")):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in headings(target), link


@pytest.mark.parametrize("words", TRAININGS, ids=["its reward function", "puzzles"])
def test_a_training_passes_the_checks(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    Path("reward.py").write_text(code, "utf-8")
    name, *overrides = words
    found = configs.composed(name.removeprefix("--config-name="), *overrides)
    resolve_files(found)
    assert checked_parts(found).config.distill.enabled


def test_its_reward_function_grades_and_speaks() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102
    grade = names["compute_score"]
    assert grade("prices", " 12 ", "12") == {"score": 1.0, "feedback": ""}
    assert grade("prices", "twelve", "12")["feedback"]


@pytest.mark.parametrize(
    "words", [words[1:] for words in COMMANDS if words[:1] == ["rltf"]], ids=" ".join
)
def test_a_command_of_ours_has_these_options(words: list[str]) -> None:
    command = get_command(app)
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_parser(click.Context(command)).parse_args(list(words))


def test_make_has_its_targets() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    asked = {words[1] for words in COMMANDS if words[:1] == ["make"]}
    assert asked
    assert asked <= set(targets)
