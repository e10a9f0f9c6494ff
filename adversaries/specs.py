"""The text of spec strings: ``name`` or ``name:key=value,key=value``.

A value that contains commas itself (the spec of another adversary, the path of a file) is put in square
brackets: ``two-phase:first=[linear-drift:start=0.2,end=0.8],second=threshold``.
"""

from __future__ import annotations

from collections.abc import Mapping


def split_spec(spec: str) -> tuple[str, dict[str, str]]:
    """The name and the raw settings of a spec; ValueError for anything that is not written like one."""
    if not isinstance(spec, str):
        raise ValueError(f"an adversary's spec must be a string, got {spec!r}")
    name, colon, rest = spec.partition(":")
    settings: dict[str, str] = {}
    for part in _split_at_commas(rest, spec) if colon else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ValueError(f"expected key=value after the colon in adversary {spec!r}, got {part!r}")
        if key in settings:
            raise ValueError(f"{key} is given twice in adversary {spec!r}")
        settings[key] = _unwrapped(value)
    return name.strip(), settings


def join_spec(name: str, settings: Mapping[str, float | int | str]) -> str:
    """The spec with this name and these settings, in their order; `split_spec` reads it back."""
    if not settings:
        return name
    return f"{name}:{','.join(f'{key}={_written(value)}' for key, value in settings.items())}"


def _written(value: float | int | str) -> str:
    if isinstance(value, str):
        return f"[{value}]" if "," in value or _unwrapped(value) != value else value
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _unwrapped(text: str) -> str:
    """Without its square brackets, if the first one is closed by the very last character."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth == 0:
            return text[1:-1].strip() if i > 0 and i == len(text) - 1 else text
    return text


def _split_at_commas(text: str, spec: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if depth != 0:
        raise ValueError(f"the square brackets in adversary {spec!r} do not match")
    return parts
