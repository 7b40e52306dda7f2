"""Launch scripts people have today: linted, and what they would start made a deployment.

In: bytes of a script; or what a dry run recorded. Out: findings; deployments. It runs nothing: `launch/dryrun.py` does.
"""

from ridgeline.plan.shell.lint import RULES, lint

__all__ = ["RULES", "lint"]
