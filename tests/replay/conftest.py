"""Makes the hand-made parts beside this file importable: scripted_server, load, wire."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
