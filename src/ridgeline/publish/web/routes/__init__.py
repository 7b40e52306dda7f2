"""Routes, one module a page with the interface behind it."""

from ridgeline.publish.web.routes import frontier, points, runs, system

ROUTERS = (system.router, frontier.router, points.router, runs.router)
