"""Small changes to files: of bytes, of text, of JSON and of what is inside an archive."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

Change = Callable[[bytes, Random], bytes]

_EDGES = (0, 1, 0x7F, 0x80, 0xFF)
_WORDS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
_TOKENS = (
    "-1", "0", "1e999", "-1e999", "1e308", "5e-324", "NaN", "Infinity", "-inf", "nan", "null",
    "true", "[]", "{}", '""', '"x"', "1" * 400, "9" * 5000, "0.1.2", "1,000", "\x00",
    "\ufeff", "é", "\U0001f600", "'", '"', "\n", "\r", "\t", ",", ";", "[" * 2000, "\x1b]0;t\x07",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**53, 2**63, 10**400, 0.5, -0.5, 1e308, 5e-324, "", "x", "NaN",
    [], {}, [0], [[0]], {"a": 1}, "\x1b]0;t\x07", [0.25] * 4, [1, 0, 0, 0], "logits",
)  # fmt: skip


def _place(data: bytes, rng: Random) -> int:
    """Choose a place; both ends, where formats keep what they say of themselves, more often."""
    where = rng.random()
    if where < 0.25:
        return rng.randrange(min(len(data), 128))
    if where < 0.5:
        return len(data) - 1 - rng.randrange(min(len(data), 256))
    return rng.randrange(len(data))


def _flip(data: bytes, rng: Random) -> bytes:
    i = _place(data, rng)
    return data[:i] + bytes([data[i] ^ (1 << rng.randrange(8))]) + data[i + 1 :]


def _byte(data: bytes, rng: Random) -> bytes:
    i = _place(data, rng)
    value = rng.choice(_EDGES) if rng.random() < 0.5 else rng.randrange(256)
    return data[:i] + bytes([value]) + data[i + 1 :]


def _word(data: bytes, rng: Random) -> bytes:
    width = rng.choice((2, 4, 8))
    i = _place(data, rng)
    value = (rng.choice(_WORDS) & (1 << 8 * width) - 1).to_bytes(
        width, rng.choice(("little", "big"))
    )
    return data[:i] + value + data[i + width :]


def _cut(data: bytes, rng: Random) -> bytes:
    i = _place(data, rng)
    return data[:i] + data[i + rng.choice((1, 2, 7, 64, len(data))) :]


def _repeat(data: bytes, rng: Random) -> bytes:
    i, n = _place(data, rng), rng.choice((1, 4, 32, 256))
    return data[:i] + data[i : i + n] * rng.choice((2, 3, 40)) + data[i + n :]


def _insert(data: bytes, rng: Random) -> bytes:
    i = _place(data, rng)
    return data[:i] + rng.randbytes(rng.choice((1, 2, 8, 40))) + data[i:]


def _swap(data: bytes, rng: Random) -> bytes:
    i, j, n = _place(data, rng), _place(data, rng), rng.choice((1, 4, 16))
    i, j = sorted((i, j))
    j = max(j, i + n)
    return data[:i] + data[j : j + n] + data[i + n : j] + data[i : i + n] + data[j + n :]


BYTES: tuple[Change, ...] = (_flip, _flip, _byte, _byte, _word, _cut, _repeat, _insert, _swap)


def _token(data: bytes, rng: Random) -> bytes:
    """Replace a number or a word, or put something beside it."""
    words = list(re.finditer(rb"[-+.\w]+", data))
    token = rng.choice(_TOKENS).encode()
    if not words:
        return data + token
    word = rng.choice(words)
    start = word.start() if rng.random() < 0.7 else word.end()
    return data[:start] + token + data[word.end() :]


def _line(data: bytes, rng: Random) -> bytes:
    """Drop, repeat or move a line."""
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, lines[i])
        case _:
            lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def _document(data: bytes, rng: Random) -> bytes:
    """Change one value of a JSON document, drop or rename a key, or write a key twice."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _token(data, rng)
    places: list[tuple[Any, Any]] = []
    if isinstance(document, dict | list):
        _collect(document, places)
    if not places:
        return _token(data, rng)
    container, key = rng.choice(places)
    match rng.randrange(5):
        case 0:
            del container[key]
        case 1 if isinstance(container, dict):
            container[f"{key}{rng.choice(('', '_', 'x', ' '))}"] = container.pop(key)
        case 2 if isinstance(container, dict):
            text = json.dumps(document)
            mark = json.dumps(key) + ": "
            return text.replace(
                mark, f"{mark}{json.dumps(rng.choice(_VALUES))}, {mark}", 1
            ).encode()
        case 3 if isinstance(container[key], int | float):
            container[key] = container[key] * rng.choice((-1, 2, 1e-9, 1e9, 1 + 1e-9, 0))
        case _:
            container[key] = rng.choice(_VALUES)
    return json.dumps(document).encode()


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        places.append((value, key))
        if isinstance(inner, dict | list):
            _collect(inner, places)


TEXT: tuple[Change, ...] = (_token, _token, _line, _document, _document, *BYTES)


def _member(data: bytes, rng: Random) -> bytes:
    """Change what is inside an archive, with right checksums; what is said then is new content."""
    members: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:  # an archive that an earlier change has damaged
        return _flip(data, rng)
    if not members:
        return _flip(data, rng)
    name = rng.choice(sorted(members))
    match rng.randrange(6):
        case 0:
            del members[name]
        case 1:
            members[rng.choice(sorted(members))] = members[name]
        case 2:
            members[name[1:]] = members.pop(name)
        case 3:
            content = members[name]
            start = content.find(b"\n") + 1  # behind the header of the array
            body = _document(content[start:], rng) if content[start : start + 1] == b"{" else b""
            members[name] = content[:start] + (
                body or rng.choice(BYTES)(content[start:] or b"x", rng)
            )
        case _:
            members[name] = rng.choice(BYTES)(members[name] or b"x", rng)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", rng.choice((0, 8))) as archive:
        for each, content in members.items():
            archive.writestr(zipfile.ZipInfo(each), content)
    return file.getvalue()


ARCHIVE: tuple[Change, ...] = (_member,)
