"""Routes, one module a page with the interface behind it."""

from ridgeline.publish.web.routes import compare, data, frontier, gates, plan, points, runs, system, traces, value

ROUTERS = (
    system.router,
    frontier.router,
    points.router,
    runs.router,
    data.router,
    compare.router,
    plan.router,
    gates.router,
    traces.router,
    value.router,
)
