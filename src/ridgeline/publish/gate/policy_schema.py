"""The fields of a gate policy file, as tables: what `policy` checks a file against."""

from __future__ import annotations

from ridgeline.spec import schema
from ridgeline.spec.schema import AMOUNT, FLAG, NAME, POSITIVE, Field, Table
from ridgeline.spec.settings import DATE

_NAMES = schema.list_of(NAME, "a list of names")
_PATTERNS = schema.list_of(NAME, "a list of patterns")

PATHS = Table(
    "the paths",
    (
        Field("changelog", NAME, "the benchmark changelog", required=True),
        Field("configs", _NAMES, "master configs, in merge order", required=True),
        Field("runners", NAME, "the runners file", required=True),
        Field("scripts", _PATTERNS, "launch scripts; `*` crosses folders", required=True),
        Field("patches", _PATTERNS, "files that patch an engine", nullable=True),
        Field("generator", _NAMES, "files whose length is reported", nullable=True),
        Field("owners", _NAMES, "where a CODEOWNERS file may lie, first one wins", nullable=True),
        Field("waiver", NAME, "a waiver's file, with {pr} for the number", required=True),
    ),
)
SWEEP = Table(
    "a sweep label",
    (
        Field("matrix", schema.one_of("full", "trimmed"), "all points, or the lowest concurrency", required=True),
        Field("canary", FLAG, "one job goes first", required=True),
        Field("fail-fast", FLAG, "a failure cancels its family", required=True),
        Field("reusable", FLAG, "results may be reused at merge", required=True),
    ),
)
MODIFIER = Table(
    "a modifier label",
    (
        Field(
            "effect", schema.one_of("all-evals", "evals-only", "fast", "skip-queue"), "what it changes", required=True
        ),
        Field("reusable", FLAG, "results stay reusable", required=True),
    ),
)
LABELS = Table(
    "the labels",
    (
        Field("sweeps", schema.map_of(schema.mapping(SWEEP), "a mapping of labels"), "start a sweep", required=True),
        Field("modifiers", schema.map_of(schema.mapping(MODIFIER), "a mapping of labels"), "change one", nullable=True),
        Field("priority", _NAMES, "only change the order of work", nullable=True),
        Field("recommended", NAME, "the sweep label to suggest", required=True),
    ),
)
EVENTS = Table(
    "the events",
    (
        Field("actions", _NAMES, "pull-request actions that are looked at", required=True),
        Field("skip-marker", NAME, "text in a commit message that starts no sweep", required=True),
    ),
)
CANARY = Table("the canary", (Field("buckets", _NAMES, "searched in this order", required=True),))
FAST = Table(
    "the fast mode",
    (
        Field("duration-s", POSITIVE, "seconds of the measured window", required=True),
        Field("warmup-requests-per-lane", POSITIVE, "requests before it", required=True),
    ),
)
NORMAL = Table(
    "the normal mode", (Field("warmup-requests-per-lane", POSITIVE, "requests before the window", required=True),)
)
COMMANDS = Table(
    "the commands",
    (
        Field("reuse", NAME, "asks to reuse a sweep at merge", required=True),
        Field("stage", NAME, "asks to stage results", required=True),
        Field("associations", _NAMES, "author associations that may ask for reuse", required=True),
        Field("permissions", _NAMES, "permissions that may stage", required=True),
    ),
)
RUNS = Table(
    "the runs",
    (
        Field("workflow", NAME, "path of the sweep's workflow", required=True),
        Field("results", _PATTERNS, "artifacts that hold results", required=True),
        Field("metadata", NAME, "artifact that holds the selection", required=True),
    ),
)
JOBS = Table(
    "the jobs",
    (
        Field("throughput", _PATTERNS, "names of jobs that measure, in lower case", required=True),
        Field("evals", _PATTERNS, "names of jobs that evaluate", required=True),
        Field("aggregators", _PATTERNS, "names of jobs that only gather", nullable=True),
    ),
)
SIGN_OFF = Table(
    "the sign-off",
    (
        Field("phrase", NAME, "what a signer writes", required=True),
        Field("status", NAME, "commit status", required=True),
        Field("template", _NAMES, "a word of each item to be ticked", required=True),
        Field("eval-bar", schema.map_of(AMOUNT, "a mapping of tasks to scores"), "least accuracy", nullable=True),
        Field(
            "upstream-images",
            schema.map_of(_NAMES, "a mapping of engines to repositories"),
            "images of an engine's own project",
            nullable=True,
        ),
        Field("first-engines", _NAMES, "engines that must exist before others", nullable=True),
        Field("jobs", schema.mapping(JOBS), "what counts as really executed", required=True),
        Field("recipe-links", _PATTERNS, "addresses where recipes are published", nullable=True),
    ),
)
TWINS = Table(
    "the twins",
    (
        Field("pages", _PATTERNS, "pages that need a twin", required=True),
        Field("suffix", NAME, "before the file's extension", required=True),
        Field("exempt", _PATTERNS, "pages that need none", nullable=True),
    ),
)
LANGUAGE = Table(
    "the languages",
    (
        Field("second", schema.one_of("zh-Hans"), "beside English", required=True),
        Field("title", FLAG, "asked of titles", required=True),
        Field("body", FLAG, "asked of descriptions", required=True),
        Field("exempt-authors", _PATTERNS, "authors that are not asked", nullable=True),
        Field("twins", schema.mapping(TWINS), "pages in both languages", nullable=True),
    ),
)
IMAGES = Table(
    "the images",
    (
        Field("private-registries", _PATTERNS, "hosts nobody outside can pull from", required=True),
        Field("floating-tags", _NAMES, "tags that move", required=True),
    ),
)
DEPRECATED = Table(
    "a deprecation",
    (
        Field("model-prefix", NAME, "exact", required=True),
        Field("scenario", schema.one_of("fixed-seq-len", "agentic-coding"), "left out: both", nullable=True),
        Field("since", DATE, "no new work from this day", required=True),
        Field("reason", NAME, "for people", required=True),
    ),
)
POLICY = Table(
    "a gate policy",
    (
        Field("version", schema.one_of(1), "format of this file", required=True),
        Field("repository", NAME, "ORGANISATION/NAME", required=True),
        Field("paths", schema.mapping(PATHS), "where things lie", required=True),
        Field("labels", schema.mapping(LABELS), "what labels do", required=True),
        Field("events", schema.mapping(EVENTS), "what is looked at", required=True),
        Field("canary", schema.mapping(CANARY), "the job that goes first", required=True),
        Field("fast-mode", schema.mapping(FAST), "the short profile", required=True),
        Field("normal-mode", schema.mapping(NORMAL), "the normal profile", required=True),
        Field("commands", schema.mapping(COMMANDS), "comments that command", required=True),
        Field("runs", schema.mapping(RUNS), "workflow runs and artifacts", required=True),
        Field("sign-off", schema.mapping(SIGN_OFF), "the reviewer's sign-off", required=True),
        Field("language", schema.mapping(LANGUAGE), "two languages", required=True),
        Field("images", schema.mapping(IMAGES), "images", required=True),
        Field(
            "deprecated",
            schema.list_of(schema.mapping(DEPRECATED), "a list of deprecations"),
            "what takes no new work",
            nullable=True,
        ),
    ),
)
