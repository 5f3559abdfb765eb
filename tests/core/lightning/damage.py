"""Files that are damaged in one place, as disks, networks and killed copies damage them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Damage = Callable[[bytes, Random], bytes]


def cut(content: bytes, draw: Random) -> bytes:
    return content[: draw.randrange(len(content))]


def flip(content: bytes, draw: Random) -> bytes:
    place = draw.randrange(len(content))
    return _with(content, place, bytes([content[place] ^ 1 << draw.randrange(8)]))


def swap(content: bytes, draw: Random) -> bytes:
    first, second = sorted(draw.sample(range(len(content)), 2))
    swapped = _with(content, first, content[second : second + 1])
    return _with(swapped, second, content[first : first + 1])


def clear(content: bytes, draw: Random) -> bytes:
    return _with(content, draw.randrange(len(content)), bytes(draw.randrange(1, 64)))


def scramble(content: bytes, draw: Random) -> bytes:
    return _with(content, draw.randrange(len(content)), draw.randbytes(draw.randrange(1, 64)))


def lose(content: bytes, draw: Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + content[place + draw.randrange(1, 64) :]


def double(content: bytes, draw: Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + content[max(0, place - 64) :]


def _with(content: bytes, place: int, part: bytes) -> bytes:
    return (content[:place] + part + content[place + len(part) :])[: len(content)]


DAMAGES: tuple[Damage, ...] = (cut, flip, swap, clear, scramble, lose, double)


def damaged(content: bytes, draw: Random) -> bytes:
    """Return ``content`` with one damage that changes it."""
    while (found := draw.choice(DAMAGES)(content, draw)) == content:
        pass
    return found
