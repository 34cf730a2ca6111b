"""EXPORT: detection of solutions that are the same but for blanks, for names, or for a few lines.

Four levels, each containing the one before:

    raw          the same bytes
    normalised   the same tokens: comments, docstrings and blanks aside
    renamed      the same tokens after renaming the names the source binds; numbers and strings kept
    minhash      an estimated Jaccard similarity of 5-token shingles of at least a
                 threshold, within one family

String literals count at every level: the CUDA source of a `load_inline` kernel lives in one.

A signature is one-permutation MinHash (Li, Owen, Zhang, NeurIPS 2012): one hash per shingle, the
least of each of 64 bins.  Its estimate of a similarity of 0.8 has a standard error of 0.05.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import struct
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, repeat
from typing import NamedTuple

from app.domain.source import source_tokens

VERSION = 2
"""Changes with everything here and in `source_tokens` that changes a fingerprint."""

SHINGLE = 5
"""Tokens of a shingle."""
BINS = 64
"""Hashes of a signature: the least of each bin."""
BAND_BINS = 4
"""16 bands of 4 bins: two signatures of similarity 0.8 share a band with probability
0.9998, of 0.5 with 0.64.
"""
TWO_BANDS_FROM = 0.75
"""From this similarity on two bands are asked for: of pairs of 0.8 all but 0.3 % have them, of
those of 0.4, of which a family is full, 6 % instead of 34 %, and each that has them is compared.
"""
HASH_BITS = 30
"""The highest name the bin.  Python's integers of 30 bits are its fastest."""
_IN_BIN_BITS = HASH_BITS - BINS.bit_length() + 1
"""Bits of a hash below those that name its bin."""
_EMPTY = 0xFFFFFFFF
"""Value of a bin without a shingle, above every hash; it takes that of the next bin that has
one.
"""


class Similarity(StrEnum):
    """Comparison by which near-duplicates are found and dropped."""

    NONE = "none"
    RAW = "raw"
    NORMALISED = "normalised"
    RENAMED = "renamed"
    MINHASH = "minhash"


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Comparable form of a candidate's source."""

    normalised: str
    """128 bits, hexadecimal."""
    renamed: str
    signature: bytes
    """64 unsigned 32-bit integers, little-endian."""


def fingerprint(source: str) -> Fingerprint:
    """The fingerprint of a solution's source."""
    found = source_tokens.tokens(source)
    names = source_tokens.renamed(found)
    return Fingerprint(
        normalised=_digest(source_tokens.normalised(found)),
        renamed=_digest("\x1f".join(names)),
        signature=signature(names),
    )


class _Hashes(dict[str, tuple[int, ...]]):
    """Word → random numbers of `HASH_BITS` bits, one for each place in a shingle."""

    def __missing__(self, word: str) -> tuple[int, ...]:
        digest = hashlib.blake2b(
            word.encode("utf-8", "surrogatepass"), digest_size=4 * SHINGLE
        ).digest()
        found = tuple(number >> (32 - HASH_BITS) for number in _NUMBERS.unpack(digest))
        if len(word) <= source_tokens.SHORT:
            if len(self) >= source_tokens.KNOWN:
                self.clear()
            self[word] = found
        return found


_NUMBERS = struct.Struct(f"<{SHINGLE}I")
_hashes = _Hashes()


def signature(words: Sequence[str]) -> bytes:
    """One-permutation MinHash of the shingles of `words`; bins that nothing fell
    into borrow from their right.

    The hash of a shingle is simple tabulation (Pătraşcu, Thorup, JACM 2012), enough for MinHash by
    their Theorem 3: the exclusive or of one number a place.  It is the same in every Python.
    """
    if len(words) < SHINGLE:
        hashes = [0]
    else:
        places = tuple(zip(*map(_hashes.__getitem__, words), strict=True))
        shifted: list[Iterable[int]] = [numbers[place:] for place, numbers in enumerate(places)]
        hashes = sorted(
            functools.reduce(functools.partial(map, operator.xor), shifted), reverse=True
        )
    least = dict(
        zip(map(_IN_BIN_BITS.__rrshift__, hashes), hashes, strict=True)
    )  # the last of a bin is its least
    mins = [least.get(place, _EMPTY) for place in range(BINS)]
    for place in range(2 * BINS - 1, -1, -1):
        if mins[place % BINS] == _EMPTY:
            mins[place % BINS] = mins[(place + 1) % BINS]
    return struct.pack(f"<{BINS}I", *mins)


def similarity(one: bytes, other: bytes) -> float:
    """Estimated Jaccard similarity of two signatures."""
    return _alike(_number(one), _number(other))


class Member(NamedTuple):
    """A solution among those of its family.  A tuple, because there are millions."""

    key: Hashable
    """Key chosen by the caller."""
    problem: str
    raw: str
    normalised: str
    renamed: str
    signature: bytes
    dialogue: Hashable = None
    """Solutions of one dialogue are steps of one another: they are compared by the
    exact rules alone.
    """


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """Reason for dropping a solution."""

    of: Hashable
    """The better one that stays."""
    rule: str
    """`raw`, `normalised`, `renamed` or `minhash 0.86`."""


class Search:
    """The solutions of one family that stay: give the best first.

    `raw` asks within one problem, the others within the whole family.  A solution is
    only ever compared with those that stay, so that a chain of small changes does not
    swallow solutions far from its start.
    """

    def __init__(self, *, level: Similarity, jaccard: float = 0.8) -> None:
        self._level = level
        self._jaccard = jaccard
        self._seen: dict[Hashable, Hashable] = {}
        self._signed: list[tuple[Hashable, Hashable, int]] = []
        """Key, dialogue, signature."""
        self._bands_alike = 2 if jaccard >= TWO_BANDS_FROM else 1
        self._bands: list[dict[bytes, int | list[int]]] = [{} for _ in range(BINS // BAND_BINS)]
        """For each band: its bytes → index in `_signed`, or indices where several
        share the band.
        """

    def add(self, member: Member) -> Duplicate | None:
        """Reason for dropping this one; None if it stays."""
        keys = self._keys(member)
        for rule, key in keys:
            if (rule, key) in self._seen:
                return Duplicate(of=self._seen[rule, key], rule=rule)
        if self._level is Similarity.MINHASH and member.signature:
            duplicate = self._add_signature(member)
            if duplicate is not None:
                return duplicate
        for own in keys:
            self._seen[own] = member.key
        return None

    def _keys(self, member: Member) -> list[tuple[str, Hashable]]:
        """Rule and key for every exact level up to the one that is asked for."""
        keys: list[tuple[str, Hashable]] = [("raw", (member.problem, member.raw))]
        if self._level in (Similarity.NONE, Similarity.RAW):
            return keys if self._level is Similarity.RAW else []
        keys.append(("normalised", member.normalised))
        return (
            keys if self._level is Similarity.NORMALISED else [*keys, ("renamed", member.renamed)]
        )

    def _add_signature(self, member: Member) -> Duplicate | None:
        """Nearly every band is of one solution alone: all are looked up and taken in one call."""
        bands, place = _BANDS.unpack(member.signature), len(self._signed)
        found = list(map(dict.setdefault, self._bands, bands, repeat(place)))
        number = _number(member.signature)
        if found.count(place) < len(found):
            duplicate = self._near(number, member.dialogue, [one for one in found if one != place])
            for known, band, one in zip(self._bands, bands, found, strict=True):
                if duplicate is not None:
                    if one == place:
                        del known[band]
                elif isinstance(one, list):
                    one.append(place)
                elif one != place:
                    known[band] = [one, place]
            if duplicate is not None:
                return duplicate
        self._signed.append((member.key, member.dialogue, number))
        return None

    def _near(
        self, number: int, dialogue: Hashable, known: list[int | list[int]]
    ) -> Duplicate | None:
        """The near-duplicate among the solutions that share a band; `known`: their
        indices, for each shared band.
        """
        if len(known) < self._bands_alike:
            return None
        indices = chain.from_iterable(one if isinstance(one, list) else (one,) for one in known)
        for place, bands in Counter(indices).items():
            if bands < self._bands_alike:
                continue
            key, of, other = self._signed[place]
            if dialogue is not None and of == dialogue:
                continue
            estimate = _alike(number, other)
            if estimate >= self._jaccard:
                return Duplicate(of=key, rule=f"minhash {estimate:.2f}")
        return None


_BANDS = struct.Struct(f"{4 * BAND_BINS}s" * (BINS // BAND_BINS))
_HIGH = int.from_bytes(struct.pack("<I", 0x80000000) * BINS, "little")
_LOW = int.from_bytes(struct.pack("<I", 0x7FFFFFFF) * BINS, "little")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _alike(one: int, other: int) -> float:
    """Share of equal bins.  All 64 at once: in a bin that differs, the sum or the bin itself sets
    the highest bit, and no sum reaches the next bin.
    """
    apart = one ^ other
    return 1 - ((((apart & _LOW) + _LOW) | apart) & _HIGH).bit_count() / BINS


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
