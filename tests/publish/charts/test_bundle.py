from __future__ import annotations

import re
from importlib import resources

import pytest

from ridgeline.publish.charts import bundle

FILES = sorted(
    path.name
    for path in resources.files("ridgeline.publish.charts").joinpath("assets").iterdir()
    if path.name.endswith(".js")
)


def test_every_module_is_in_the_script_once_and_before_its_users() -> None:
    script = bundle.script()
    for name in FILES:
        for exported in re.findall(
            r"^export (?:const|function|async function) (\w+)", bundle.asset(name), re.MULTILINE
        ):
            found = [
                m.start()
                for m in re.finditer(rf"^(?:const|function|async function) {exported}\b", script, re.MULTILINE)
            ]
            assert len(found) == 1, f"{exported} of {name}"
    assert script.index("function plot(") < script.index("function render(")


def test_nothing_of_the_module_syntax_is_left() -> None:
    assert not re.search(r"^(import|export) ", bundle.script(), re.MULTILINE)


def test_modules_share_no_top_level_name() -> None:
    names = re.findall(r"^(?:const|let|function|async function|class) (\w+)", bundle.script(), re.MULTILINE)
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("name", FILES)
def test_scripts_never_build_markup_from_text(name: str) -> None:
    text = bundle.asset(name).replace("removeAttribute('style')", "")
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "'style'"):
        assert way not in text, way


@pytest.mark.parametrize("name", FILES)
def test_imports_have_one_of_the_two_forms(name: str) -> None:
    text = bundle.asset(name)
    lines = re.findall(r"^import .*", text, re.MULTILINE)
    assert len(lines) == len(bundle._IMPORT.findall(text)) + len(bundle._JSON.findall(text))
    assert not any(" as " in line for line in lines)


def test_the_script_cannot_end_its_element() -> None:
    assert not re.search(r"</script|<!--", bundle.script(), re.IGNORECASE)
    assert "</style" not in bundle.style_sheet()


def test_a_circle_of_imports_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"a.js": "import { b } from './b.js';\n", "b.js": "import { a } from './a.js';\n"}
    monkeypatch.setattr(bundle, "asset", texts.__getitem__)
    with pytest.raises(ValueError, match=r"a\.js > b\.js > a\.js"):
        bundle.script.__wrapped__("a.js")
