"""Write the generated parts of docs and YAML: `python tools/refresh.py` in the root.

With `--demo outputs/demo` the numbers and the picture of that demo become those of the pages.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import demo_table
from address import PAGES, with_address
from base_yaml import BASE, with_block
from methods_table import PAGE as METHODS
from methods_table import load_presets, with_methods
from reference import configuration
from troubleshooting import PAGE, with_tables

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--demo", type=Path, metavar="FOLDER", help="of a finished `make demo`")
    args = parser.parse_args()
    if args.demo is not None:
        demo_table.take(args.demo)
    for page in PAGES:
        page.write_text(with_address(page.read_text("utf-8")), "utf-8")
    for page in demo_table.PAGES:
        page.write_text(demo_table.with_demo(page.read_text("utf-8")), "utf-8")
    BASE.write_text(with_block(BASE.read_text("utf-8")), "utf-8")  # first: presets compose with it
    Path("docs/configuration.md").write_text(configuration(), "utf-8")
    METHODS.write_text(with_methods(METHODS.read_text("utf-8"), load_presets()), "utf-8")
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
