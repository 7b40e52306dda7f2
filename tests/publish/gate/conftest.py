from __future__ import annotations

from tests.publish.changelog.conftest import diverged, repo, templates

__all__ = ["diverged", "repo", "templates"]
