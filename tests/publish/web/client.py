"""Asks the application without a server: one event loop for each request, as plain functions."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from ridgeline.publish.web.app import create_app
from ridgeline.publish.web.context import Context, Given
from ridgeline.publish.web.data import Library, Shelf
from ridgeline.publish.web.safety import Access


class Client:
    """`get` and `post` against an application."""

    def __init__(self, app: Any, base: str = "http://127.0.0.1:8000") -> None:
        self.app = app
        self.base = base

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("POST", path, **more)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url=self.base) as client:
                return await client.request(method, path, **more)

        return asyncio.run(go())


def client(*shelves: Shelf, overlays: tuple[Shelf, ...] = (), access: Access | None = None, **given: Any) -> Client:
    """A client of a server that shows `shelves`."""
    context = Context(Library(shelves, overlays), access or Access(), given=Given(**given))
    return Client(create_app(context))
