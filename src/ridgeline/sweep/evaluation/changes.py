"""How the deployment that is scored differs from the one that was timed: option by option, for people."""

from __future__ import annotations

from ridgeline.core.deployment import Deployment, Service


def changes(speed: Deployment, accuracy: Deployment) -> list[str]:
    """One line an option: `engine: --flag OLD -> NEW`; none where the same engine serves both."""
    found = []
    names = dict.fromkeys(service.name for deployment in (speed, accuracy) for service in deployment.services)
    for name in names:
        old, new = _service(speed, name), _service(accuracy, name)
        if old is None or new is None:
            found.append(f"{name}: {'only timed' if new is None else 'only scored'}")
            continue
        before, after = options(old), options(new)
        for key in dict.fromkeys((*before, *after)):
            if before.get(key) != after.get(key):
                found.append(f"{name}: {key} {_shown(before.get(key))} -> {_shown(after.get(key))}")
    return found


def options(service: Service) -> dict[str, tuple[str, ...]]:
    """Flags with their values, positional words under their place, variables under their name."""
    found: dict[str, tuple[str, ...]] = {}
    key = ""
    for place, item in enumerate(service.argv):
        flag, glued, value = item.text.partition("=")
        if item.text.startswith("-") and not _number(item.text):
            key = flag
            found[key] = found.get(key, ()) + ((value,) if glued else ())
        elif key:
            found[key] = (*found[key], item.text)
        else:
            found[f"word {place}"] = (item.text,)
    return found | {f"${name}": (value.text,) for name, value in service.env}


def _service(deployment: Deployment, name: str) -> Service | None:
    return next((service for service in deployment.services if service.name == name), None)


def _shown(values: tuple[str, ...] | None) -> str:
    return "not given" if values is None else " ".join(values) or "given"


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
