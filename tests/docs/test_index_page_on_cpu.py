"""The page of a package index, as `setup.py` makes it of README.md."""

import re
from distutils.core import run_setup  # setuptools brings it
from pathlib import Path
from typing import Any

import setuptools  # noqa: F401

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_every_link_of_the_description_leads_into_this_version_of_the_tree() -> None:
    """And pictures are served as files; links to other sites stay."""
    metadata: Any = run_setup(str(ROOT / "setup.py"), stop_after="init").metadata
    ours = rf"{re.escape(metadata.url)}/(raw|blob)/v{re.escape(metadata.version)}/([^)#]+)"
    links = re.findall(r"\]\(([^)\s]+)\)", metadata.long_description)
    assert len(links) == len(re.findall(r"\]\(([^)\s]+)\)", README)) > 40
    assert all(link.startswith("https://") for link in links)
    found = [match for link in links if (match := re.match(ours, link))]
    assert len(found) == len(re.findall(r"\]\((?!https?:)[^)\s]+\)", README))
    for match in found:
        assert (ROOT / match[2]).exists(), match[0]
        assert (match[1] == "raw") == match[2].endswith(".png"), match[0]
