"""One changelog entry: the schema of what a person writes, and the frozen value behind it.

Unknown fields are refused. Types are the usual lenient ones of the file's other readers (`evals-only: "yes"` is true),
so that a file which passes elsewhere passes here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

FIXED, AGENTIC = "fixed-seq-len", "agentic-coding"
SCENARIOS = (FIXED, AGENTIC)


@dataclass(frozen=True, slots=True)
class Entry:
    """A valid entry. Lines (from 1) say where it stands and take no part in equality."""

    config_keys: tuple[str, ...]
    description: tuple[str, ...]
    pr_link: str
    evals_only: bool = False
    all_evals: bool = False
    append_only: bool = False
    eval_min_prefill_ep: int | None = None
    scenario_type: tuple[str, ...] | None = None
    line: int = field(default=0, compare=False)
    link_line: int = field(default=0, compare=False)
    key_lines: tuple[int, ...] = field(default=(), compare=False)

    @property
    def content(self) -> Entry:
        """The entry without its link: what makes two contributions the same one."""
        return replace(self, pr_link="")

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenario types it covers: the stated ones, else both."""
        return self.scenario_type or SCENARIOS

    def as_json(self) -> dict[str, Any]:
        """Kebab names in schema order, defaults written out, absent values left out."""
        written: dict[str, Any] = {
            "config-keys": list(self.config_keys),
            "description": list(self.description),
            "pr-link": self.pr_link,
            "evals-only": self.evals_only,
            "all-evals": self.all_evals,
            "append-only": self.append_only,
            "eval-min-prefill-ep": self.eval_min_prefill_ep,
            "scenario-type": None if self.scenario_type is None else list(self.scenario_type),
        }
        return {key: value for key, value in written.items() if value is not None}


class EntryProblem(ValueError):
    """What is wrong with one raw entry: (path inside the entry, message) for each fault."""

    def __init__(self, faults: list[tuple[tuple[str | int, ...], str]]) -> None:
        self.faults = faults
        super().__init__("; ".join(message for _, message in faults))


class _Written(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=lambda name: name.replace("_", "-"))

    config_keys: list[str] = Field(min_length=1)
    description: list[str] = Field(min_length=1)
    pr_link: str
    evals_only: bool = False
    all_evals: bool = False
    append_only: bool = False
    eval_min_prefill_ep: int | None = Field(default=None, ge=1)
    scenario_type: list[Literal["fixed-seq-len", "agentic-coding"]] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _added_points_are_not_evaluated(self) -> _Written:
        if self.append_only and (self.evals_only or self.all_evals or self.eval_min_prefill_ep is not None):
            raise ValueError("append-only excludes evals-only, all-evals and eval-min-prefill-ep: keep one of them")
        return self


def read_entry(raw: object) -> Entry:
    """The entry behind one item of the parsed list. Raises EntryProblem with every fault and its path."""
    if not isinstance(raw, dict):
        raise EntryProblem([((), "an entry is a mapping that starts with `config-keys:`")])
    try:
        written = _Written.model_validate(raw)
    except ValidationError as error:
        raise EntryProblem([_fault(dict(one)) for one in error.errors(include_url=False)]) from error
    return Entry(
        tuple(written.config_keys),
        tuple(written.description),
        written.pr_link,
        written.evals_only,
        written.all_evals,
        written.append_only,
        written.eval_min_prefill_ep,
        None if written.scenario_type is None else tuple(written.scenario_type),
    )


def _fault(error: dict[str, Any]) -> tuple[tuple[str | int, ...], str]:
    path = tuple(error["loc"])
    name = str(path[0]) if path else ""
    match error["type"]:
        case "extra_forbidden":
            return path, f"unknown field `{name}`: an entry has {', '.join(_names())}"
        case "missing":
            return path, f"`{name}` is required"
        case "too_short":
            return path, f"`{name}` needs at least one item"
        case "value_error":
            return path, str(error["ctx"]["error"])
        case _:
            where = "".join(f"[{part}]" if isinstance(part, int) else str(part) for part in path)
            return path, f"`{where}`: {error['msg'][0].lower()}{error['msg'][1:]}"


def _names() -> list[str]:
    return [name.replace("_", "-") for name in _Written.model_fields]
