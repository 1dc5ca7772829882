"""Write the generated parts of docs and YAML: `python tools/refresh.py` in the root."""

from __future__ import annotations

from pathlib import Path

from base_yaml import BASE, with_block
from methods_table import PAGE as METHODS
from methods_table import load_presets, with_methods
from reference import configuration
from troubleshooting import PAGE, with_tables

if __name__ == "__main__":
    Path("docs/configuration.md").write_text(configuration(), "utf-8")
    METHODS.write_text(with_methods(METHODS.read_text("utf-8"), load_presets()), "utf-8")
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
    BASE.write_text(with_block(BASE.read_text("utf-8")), "utf-8")
