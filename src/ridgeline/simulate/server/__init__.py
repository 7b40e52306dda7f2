"""The emulated engine as an OpenAI-compatible server in real time.

The scheduler, cache and cost model are the simulator's; what is here gives them a clock (pump.py) and a wire
(connection.py, answers.py, bodies.py). Why not FastAPI: design/emulated-http.md.
"""
