"""The page's modules become one script: what each may import, and what is refused."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from rltf_verl.tools.report.view.build import ENTRY, STYLES
from rltf_verl.tools.report.view.bundle import bundle

PAGE = Path(str(files("rltf_verl.tools.report"))) / "page"
NAME = r"^modules\['([\w/]+)'\]"


def bundled(**sources: str) -> str:
    return bundle(sources.__getitem__, "main")


def test_a_module_comes_after_those_that_it_imports():
    script = bundled(
        main='import { b } from "./b.js";\nimport { a } from "./a.js";\na(b);',
        b='import { a } from "./a.js";\nexport const b = a(1);',
        a="const own = 1;\nexport function a(x) {\n  return x + own;\n}",
    )
    assert re.findall(NAME, script, re.M) == ["a", "b", "main"]
    assert "const { a } = modules['a'];\nconst b = a(1);\nreturn { b };" in script
    assert "const own = 1;\nfunction a(x) {\n  return x + own;\n}\nreturn { a };" in script
    assert not re.search(r"^(import|export)", script, re.M)


def test_an_import_over_several_lines():
    script = bundled(
        main='import {\n  one,\n  two,\n} from "./a.js";',
        a="export async function one() {}\nexport const two = 2;",
    )
    assert "const { one, two } = modules['a'];" in script


def test_modules_in_folders():
    sources = {
        "main": 'import { x } from "./list/list.js";',
        "list/list": 'import { y } from "./rows.js";\nexport const x = y;',
        "list/rows": 'import { z } from "../other/list.js";\nexport const y = z;',
        "other/list": "export const z = 1;",
    }
    script = bundle(sources.__getitem__, "main")
    assert re.findall(NAME, script, re.M) == [*reversed(sources)]
    assert "const { z } = modules['other/list'];" in script


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"main": 'import { x } from "./a.js";', "a": "const x = 1;"}, "a.js does not export x"),
        (
            {"main": 'import { x } from "./a.js";', "a": 'import { y } from "./main.js";'},
            "a.js does not export x",
        ),
        (
            {
                "main": 'import { x } from "./a.js";\nexport const y = 1;',
                "a": 'import { y } from "./main.js";\nexport const x = 1;',
            },
            "modules import each other: ",
        ),
        ({"main": 'import x from "./a.js";'}, "main.js: not supported: import x from"),
        ({"main": 'import * as x from "./a.js";'}, "main.js: not supported: import"),
        ({"main": 'import { x as y } from "./a.js";', "a": "export const x = 1;"}, "import … as …"),
        ({"main": 'import { x } from "https://a/b.js";'}, "main.js: not supported: import"),
        ({"main": "export let x = 1;"}, "main.js: not supported: export let x = 1;"),
        ({"main": "export default 1;"}, "main.js: not supported: export default 1;"),
        ({"main": "const x = 1;\nexport { x };"}, "main.js: not supported: export { x };"),
    ],
)
def test_what_is_refused(sources, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        bundled(**sources)


def test_the_page_uses_all_its_modules():
    script = bundle(lambda name: (PAGE / f"{name}.js").read_text("utf-8"), ENTRY)
    names = {path.relative_to(PAGE).with_suffix("").as_posix() for path in PAGE.rglob("*.js")}
    assert set(re.findall(NAME, script, re.M)) == names
    styles = {path.relative_to(PAGE).with_suffix("").as_posix() for path in PAGE.rglob("*.css")}
    assert set(STYLES) == styles


def test_what_changes_is_in_the_one_state():
    for asset in PAGE.rglob("*.js"):
        assert not re.search(r"^(let|var) ", asset.read_text("utf-8"), re.M), asset.name
