"""Makes the hand-made parts importable: scripted_server and hand_load beside this file, wire_cases in tests/wire."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "wire")]
