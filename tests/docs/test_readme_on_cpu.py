"""README.md and docs: commands exist, trainings pass the checks before a run, links lead somewhere,
and generated pages are those of the code.
"""

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import yaml
from typer.main import get_command

from rltf_verl.adapters.startup.checks import checked_parts
from rltf_verl.adapters.startup.files import resolve_files
from rltf_verl.registry import load
from rltf_verl.tools.cli.app import app
from tests.support import configs
from tests.support.commands import ran, refused
from tools import methods_table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))  # programs, not a package

import address  # noqa: E402
import demo_table  # noqa: E402
import troubleshooting  # noqa: E402
from base_yaml import BASE, with_block  # noqa: E402
from reference import configuration  # noqa: E402

README = (ROOT / "README.md").read_text("utf-8")
SITE = (ROOT / "mkdocs.yml").read_text("utf-8")
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
EUROS = ROOT / "docs" / "examples" / "euros.py"


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


def test_its_reward_function_grades_and_speaks() -> None:
    """That of the example whose file the block loads."""
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert code in EUROS.read_text("utf-8")
    grade = load("README.md", f"{EUROS}:compute_score")
    assert grade("euros", " 12 ", "12") == {"score": 1.0, "feedback": ""}
    told = {grade("euros", text, "12")["feedback"] for text in ("13", "twelve")}
    assert len(told - {""}) == 2


def test_it_has_at_most_a_thousand_words() -> None:
    assert len(README.split()) <= 1000


@pytest.mark.parametrize(
    "words", [words[1:] for words in COMMANDS if words[:1] == ["rltf"]], ids=" ".join
)
def test_a_command_of_ours_has_these_options(words: list[str]) -> None:
    command = get_command(app)
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_parser(click.Context(command)).parse_args(list(words))


def test_the_sites_navigation_has_every_page_and_recipe() -> None:
    named = set(re.findall(r": (\S+\.md)$|- (\S+\.md)$", SITE, re.M))
    pages = {*(ROOT / "docs").glob("*.md"), *(ROOT / "recipes").glob("*/README.md")}
    assert {str(page.relative_to(ROOT)) for page in pages} <= {a or b for a, b in named}
    assert all((ROOT / (a or b)).is_file() for a, b in named)


def test_make_has_its_targets() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    asked = {words[1] for words in COMMANDS if words[:1] == ["make"]}
    assert asked
    assert asked <= set(targets)


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_is_there(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    scripts = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    named = re.findall(r"(?:\./)?((?:tests|recipes|tools|\.ci)/[\w./]+)", scripts)
    targets = re.findall(r"\bmake ([a-z-]+)", scripts)
    assert named or targets or path.stem == "release"
    assert all((ROOT / name).exists() for name in named)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)


SCALE = "".join(
    (ROOT / "docs" / page).read_text("utf-8") for page in ("scale.md", "coming_from.md")
)
RUNS = [
    " ".join(command.replace("\\\n", " ").split())
    for command in re.findall(r"```bash\n(.*?)```", SCALE, re.DOTALL)
    if "--config-name=" in command
]


@pytest.mark.parametrize("command", RUNS)
def test_a_command_of_the_page(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", SCALE, re.DOTALL)
    Path("reward.py").write_text(code[0], "utf-8")
    words = [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)]
    assert words[:3] == ["python", "-m", "verl.trainer.main_ppo"]
    found = configs.composed(words[3].removeprefix("--config-name="), *words[4:])
    resolve_files(found)
    config = checked_parts(found).config
    assert config.distill.enabled or config.teaches


@pytest.mark.parametrize(
    ("file", "refreshed"),
    [
        (ROOT / "docs" / "configuration.md", lambda _: configuration()),
        (BASE, with_block),
        (troubleshooting.PAGE, troubleshooting.with_tables),
        (methods_table.PAGE, lambda text: methods_table.with_methods(text, configs.presets())),
        *((page, demo_table.with_demo) for page in demo_table.PAGES),
        *((page, address.with_address) for page in address.PAGES),
    ],
)
def test_what_is_made_of_the_code_is_current(file: Path, refreshed: Callable[[str], str]) -> None:
    written = file.read_text("utf-8")
    assert written == refreshed(written), "write it again: python tools/refresh.py"


def test_a_wrong_answer_has_to_be_wrong() -> None:
    right = "0 1 2 3\n1 2 3 4\n2 3 4 5\n3 4 5 6"
    assert "--wrong" in refused("env", "show", "binary_matrix", "--wrong", right)
    ran("env", "show", "binary_matrix", "--wrong", "\\boxed{1}")


def test_an_environment_that_asks_for_no_box(tmp_path: Path) -> None:
    """The one of the docs: its own words are wrong answers, and its second prompt asks for none."""
    page = (ROOT / "docs" / "environments.md").read_text("utf-8")
    (tmp_path / "mine.py").write_text(re.findall(r"```python\n(# mine.*?)```", page, re.S)[0])
    shown = ran("env", "show", f"{tmp_path}/mine.py:Mine").output
    assert "\n~~~text\n1\n~~~" in shown
    assert "boxed" not in shown
    ran("env", "check", f"{tmp_path}/mine.py:Mine")
