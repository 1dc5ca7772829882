"""The page's modules become one script: their order, and imports that are refused."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from rltf_verl.tools.report.view.build import ENTRY, STYLES
from rltf_verl.tools.report.view.bundle import bundle

PAGE = Path(str(files("rltf_verl.tools.report"))) / "page"
NAME = r"^modules\['([\w/]+)'\]"


def test_a_module_comes_after_its_imports():
    sources = {
        "main": 'import {\n  x,\n  y,\n} from "./list/list.js";\nx(y);',
        "list/list": 'import { z } from "../other/list.js";\nexport const y = z;\n'
        "export async function x() {}",
        "other/list": "const a = 1;\nexport const z = a;",
    }
    script = bundle(sources.__getitem__, "main")
    assert re.findall(NAME, script, re.M) == [*reversed(sources)]
    assert "const { x, y } = modules['list/list'];\nx(y);\n" in script
    assert "const { z } = modules['other/list'];\nconst y = z;" in script
    assert "const a = 1;\nconst z = a;\nreturn { z };" in script
    assert not re.search(r"^(import|export)", script, re.M)


@pytest.mark.parametrize(
    ("main", "a", "message"),
    [
        ('import { x } from "./a.js";', "const x = 1;", "a.js does not export x"),
        ('import { x as y } from "./a.js";', "export const x = 1;", "a.js does not export x as y"),
        (
            'import { x } from "./a.js";\nexport const y = 1;',
            'import { y } from "./main.js";\nexport const x = 1;',
            "modules import each other",
        ),
        (
            'import { x } from "./a.js";\nimport { y } from "./a.js";',
            "export const x = 1;\nexport const y = 1;",
            "imports a.js twice",
        ),
        ('import x from "./a.js";', "", "not supported: import x from"),
        ('import { x } from "https://a/b.js";', "", "not supported: import"),
        ("export let x = 1;", "", "not supported: export let"),
        ("const x = 1;\nexport { x };", "", "not supported: export {"),
    ],
)
def test_another_form_of_import_or_export_is_refused(main, a, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        bundle({"main": main, "a": a}.__getitem__, "main")


def test_the_page_uses_all_its_modules_and_styles():
    script = bundle(lambda name: (PAGE / f"{name}.js").read_text("utf-8"), ENTRY)
    for used, suffix in ((re.findall(NAME, script, re.M), "js"), (STYLES, "css")):
        paths = PAGE.rglob(f"*.{suffix}")
        assert set(used) == {p.relative_to(PAGE).with_suffix("").as_posix() for p in paths}


def test_variables_are_in_the_one_state():
    for asset in PAGE.rglob("*.js"):
        assert not re.search(r"^(let|var) ", asset.read_text("utf-8"), re.M), asset.name
