"""Scripts of the pages: what a module imports, the other one exports. Joined into one script they would not notice."""

from __future__ import annotations

import re

import pytest

from ridgeline.publish.charts import bundle
from ridgeline.publish.web import static

_IMPORTS = re.compile(r"^import \{([^}]*)\} from '\./([\w-]+\.js)';", re.MULTILINE)
_EXPORTS = re.compile(r"^export (?:async )?(?:const|function|class|let) (\w+)", re.MULTILINE)


@pytest.mark.parametrize("entry", [*static.SCRIPTS, "report.js"])
def test_every_imported_name_is_exported(entry: str) -> None:
    for name in bundle.modules(entry):
        for words, module in _IMPORTS.findall(bundle.asset(name)):
            wanted = {word.strip() for word in words.split(",")}
            assert wanted <= set(_EXPORTS.findall(bundle.asset(module))), f"{name} imports from {module}"
