"""Coverage-guided fuzzing of the decoder with atheris, as a program of its own: atheris ends the process that runs it.

    python tests/replay/fuzz_decoder.py CORPUS_FOLDER -max_total_time=SECONDS

The first bytes of an input choose ending, status and splits; the rest is the body. The corpus folder gets the fixtures
of tests/wire as seeds. Exit 0: no promise was broken.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "wire"), str(HERE.parent.parent / "src")]

with atheris.instrument_imports(include=["ridgeline.replay"]):
    from decoder_promises import check

    from ridgeline.replay.openai_stream import Ending

ENDINGS, STATUSES = list(Ending), (200, 200, 200, 500)


def one_input(data: bytes) -> None:
    head, body = data[:4], data[4:]
    if len(head) < 4:
        return
    cuts = [place * len(body) // 256 for place in head[2:]]
    check(body, cuts, ENDINGS[head[0] % len(ENDINGS)], STATUSES[head[1] % len(STATUSES)])


def main() -> None:
    folder = Path(sys.argv[1])
    from wire_cases import CASES

    for number, case in enumerate(CASES):
        (folder / f"case{number:03d}").write_bytes(bytes((0, 0, 85, 170)) + b"".join(case.reads))
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
