"""Fuzzing: files of every format, changed at random, given to the function that reads them.

    python tools/fuzz.py --seconds 60          all readers; `make fuzz`
    python tools/fuzz.py model data.npz --seed 7

A reader returns something sound or raises ValueError (OSError) with the path in the message.
Anything else is a defect: another exception, a warning, unsound arrays, more than `ROOM` bytes of
memory, more than `PATIENCE` seconds, a dead process. Every reader runs in a forked process of its
own, so that even those are noticed; the files that did it are kept under --findings.

The files come from `fuzz_readers`. A change works on what a format holds: bytes, numbers in text,
a JSON tree, arrays.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import itertools
import json
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import tokenize
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_readers import READERS, Files, saved

ROOM = 2 << 30
PATIENCE = 20.0
TURN = 1.0  # seconds for one reader before the next has its turn


@dataclass
class Tally:
    """What came of the executions of one reader."""

    run: int = 0
    taken: int = 0
    defects: int = 0


def main() -> int:
    """Fuzz the readers in turn until the time is over."""
    options = _options()
    names = options.readers or list(READERS)
    os.environ["UNMASK_THREADS"] = "1"
    tallies = {name: Tally() for name in names}
    rng = random.Random(options.seed)  # noqa: S311 (no secrets here)
    prepare(names)
    start = time.monotonic()
    for name in itertools.cycle(names):
        if time.monotonic() > start + options.seconds and all(t.run for t in tallies.values()):
            break
        _turn(name, rng.getrandbits(64), tallies[name], options.findings)
    spent = time.monotonic() - start
    for name, tally in tallies.items():
        print(f"{name:24} {tally.run:7,} run {tally.taken:7,} read {tally.defects:4} defects")
    total = sum(tally.run for tally in tallies.values())
    defects = sum(tally.defects for tally in tallies.values())
    print(f"{total:,} executions in {spent:.0f} s, {defects} defects")
    return min(defects, 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("readers", nargs="*", help=f"some of: {', '.join(READERS)}")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    options = parser.parse_args()
    if unknown := set(options.readers) - READERS.keys():
        parser.error(f"unknown reader {', '.join(unknown)}; use some of: {', '.join(READERS)}")
    return options


def _turn(name: str, seed: int, tally: Tally, findings: Path) -> None:
    """Executions in a process of their own; its words come back through a pipe."""
    work = Path(tempfile.mkdtemp(prefix="fuzz-"))
    inward, outward = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(inward)
        with os.fdopen(outward, "wb", buffering=0) as words:
            _child(name, seed, work, words)
        os._exit(0)
    os.close(outward)
    try:
        _listen(name, inward, child, work, tally, findings)
    finally:
        shutil.rmtree(work)


def _child(name: str, seed: int, work: Path, words: Any) -> None:
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    sys.stderr = io.StringIO()
    end = time.monotonic() + TURN * (5 if name == "report" else 1)  # whose pages take long to draw
    while time.monotonic() < end:
        seed += 1
        try:
            verdict = execute(name, seed, work)
        except Exception:
            verdict = f"of the fuzzer itself:\n{traceback.format_exc()}"
        words.write(verdict.encode() + b"\0")
        if verdict not in ("read", "refused"):
            return


def _listen(name: str, inward: int, child: int, work: Path, tally: Tally, findings: Path) -> None:
    """Count what the child says; keep the files of the execution that it did not survive."""
    import select

    said, complaint = b"", ""
    while not complaint:
        if not select.select([inward], [], [], PATIENCE)[0]:
            os.kill(child, 9)
            complaint = f"no answer within {PATIENCE:g} s"
        elif piece := os.read(inward, 1 << 16):
            *whole, said = (said + piece).split(b"\0")
            for verdict in map(bytes.decode, whole):
                tally.run += 1
                tally.taken += verdict == "read"
                complaint = complaint or ("" if verdict in ("read", "refused") else verdict)
        else:
            break
    os.close(inward)
    status = os.waitpid(child, 0)[1]
    if status and not complaint:
        complaint = f"the process died ({status})"
        tally.run += 1
    if complaint:
        tally.defects += 1
        _keep(name, work, complaint, findings)


def _keep(name: str, work: Path, complaint: str, findings: Path) -> None:
    digest = hashlib.sha256(complaint.encode()).hexdigest()[:8]
    kept = findings / f"{name}-{digest}"
    shutil.copytree(work, kept, dirs_exist_ok=True)
    (kept / "complaint.txt").write_text(complaint, encoding="utf-8")
    print(f"{name}: {complaint.splitlines()[-1][:200]} (kept in {kept})", flush=True)


def execute(name: str, seed: int, work: Path) -> str:
    """One changed set of files, read: "read", "refused", or what is wrong."""
    rng = random.Random(seed)  # noqa: S311
    reader = READERS[name]
    files = dict(rng.choice(SEEDS[name]))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        victim = rng.choice(sorted(files))
        files[victim] = changed(victim, files[victim], rng)
    return attempt(name, reader.pack(files), work)


def attempt(name: str, files: Files, work: Path) -> str:
    """These files, read: "read", "refused", or what is wrong."""
    for old in work.iterdir():
        old.unlink()
    for file, contents in files.items():
        (work / file).write_bytes(contents)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            READERS[name].read(work)
    except (ValueError, OSError) as error:
        if type(error) in (ValueError, UnicodeDecodeError) or isinstance(error, OSError):
            return "refused" if str(work) in str(error) else f"no path in: {error!r}"
        return traceback.format_exc()
    except Exception:
        return traceback.format_exc()
    return "read"


SEEDS: dict[str, list[Files]] = {}


def prepare(names: Iterable[str]) -> None:
    """Make the seeds, and see that every one is read as it is; this also compiles the kernels."""
    with tempfile.TemporaryDirectory() as work:
        for name in names:
            SEEDS[name] = READERS[name].seeds()
            for files in SEEDS[name]:
                verdict = attempt(name, READERS[name].pack(files), Path(work))
                if verdict != "read":
                    raise AssertionError(f"{name}: the seed {sorted(files)} is {verdict}")


# Changes.

BROKEN = (ValueError, SyntaxError, EOFError, tokenize.TokenError, OverflowError)
"""What a file that an earlier change has broken raises."""


def changed(name: str, contents: bytes, rng: random.Random) -> bytes:
    """The contents of a file with one change that suits it."""
    suffix = Path(name).suffix
    if suffix in INSIDE and rng.random() < 0.8:
        with contextlib.suppress(*BROKEN):
            return INSIDE[suffix](contents, rng)
    textual = suffix not in (".gz", ".zst", ".npy", ".npz")
    return rng.choice(CHANGES if textual else CHANGES[:5])(contents, rng)


def _flip(contents: bytes, rng: random.Random) -> bytes:
    if not contents:
        return bytes([rng.randrange(256)])
    at = rng.randrange(len(contents))
    return contents[:at] + bytes([rng.randrange(256)]) + contents[at + 1 :]


def _span(contents: bytes, rng: random.Random) -> tuple[int, int]:
    at = rng.randrange(len(contents) + 1)
    return at, min(len(contents), at + rng.choice((1, 2, 5, 30)))


def _cut(contents: bytes, rng: random.Random) -> bytes:
    return contents[: rng.randrange(len(contents) + 1)]


def _without(contents: bytes, rng: random.Random) -> bytes:
    start, stop = _span(contents, rng)
    return contents[:start] + contents[stop:]


def _repeated(contents: bytes, rng: random.Random) -> bytes:
    start, stop = _span(contents, rng)
    return contents[:start] + contents[start:stop] * rng.choice((2, 3, 40)) + contents[stop:]


def _inserted(contents: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(contents) + 1)
    return contents[:at] + rng.choice(PIECES) + contents[at:]


def _other_number(contents: bytes, rng: random.Random) -> bytes:
    found = list(re.finditer(rb"[-+.\d]+(e[-+]?\d+)?", contents))
    if not found:
        return _inserted(contents, rng)
    place = rng.choice(found)
    return contents[: place.start()] + rng.choice(NUMBERS) + contents[place.end() :]


CHANGES = (_flip, _cut, _without, _repeated, _inserted, _other_number, _other_number)
NUMBERS = (
    b"0", b"1", b"-1", b"2147483646", b"2147483647", b"2147483648", b"4294967296",
    b"9223372036854775807", b"9223372036854775808", b"99999999", b"1" + b"0" * 30, b"9" * 5000,
    b"1e999", b"1e-999", b"1e308", b"3.5e38", b"nan", b"inf", b"-inf", b"-0.0", b"0x10", b"1_0",
    b"1e", b".", b"5e-324", b"\xd9\xa3",
)  # fmt: skip
PIECES = (
    b"\n", b"\r", b"\0", b" ", b"\t", b",", b":", b"\n\n", b"\xff\xfe", b"\xef\xbb\xbf", b"1:1",
    b"PK\x03\x04", b"\x1f\x8b", b"{", b"[", b'"', b"#", b"0:0 " * 300, b"\xc2\xa0", b"<script>",
)  # fmt: skip


def _changed_json(contents: bytes, rng: random.Random) -> bytes:
    tree = json.loads(contents)
    places = list(_places(tree))
    if not places or rng.random() < 0.05:
        return json.dumps(rng.choice(VALUES)).encode()
    inside, key = rng.choice(places)
    what = rng.random()
    if what < 0.2:
        del inside[key]
    elif what < 0.3:
        source, other = rng.choice(places)
        if isinstance(inside[key], int | float | str | None.__class__):
            inside[key] = source[other]
    elif what < 0.4 and isinstance(inside, list):
        inside.append(inside[key])
    else:
        inside[key] = rng.choice(VALUES)
    try:
        return json.dumps(tree).encode()
    except (ValueError, RecursionError):  # it now holds itself
        return contents


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a tree of JSON."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _deep(depth: int) -> Any:
    nest: Any = []
    for _ in range(depth):
        nest = [nest]
    return nest


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 1.5, -0.5, 1e308, float("nan"), float("inf"), 10**12, 2**63,
    10**400, "", "x", "..", "../x", "nan", "<script>alert(1)</script>", [], {}, [[]], [None], ["x"],
    [1, "x"], [[1, 2], [3]], {"kind": "x"}, {"kind": []}, _deep(50), "\ud800", "\0", [1e308] * 3,
)  # fmt: skip


def _changed_array(contents: bytes, rng: random.Random) -> bytes:
    return saved(_other_array(np.load(io.BytesIO(contents), allow_pickle=False), rng))


def _other_array(array: Any, rng: random.Random) -> Any:
    what = rng.randrange(7)
    if what == 0 or array.size == 0:
        with np.errstate(all="ignore"):
            return array.astype(rng.choice("?bBhiIqQefdFSU"))
    if what == 1:
        return array.reshape(rng.choice([(-1, 1), (1, -1), (-1,), (1, 1, -1)]))
    if what == 2:
        return array.ravel()[: rng.randrange(array.size + 1)]
    if what == 3:
        return np.concatenate([array.ravel()] * 2)
    if what == 4:
        return array.ravel()[0]
    copied = array.copy()
    extremes = [0, 1, -1, 2**31 - 1, 2**31, 2**62, -(2**31), np.nan, np.inf, 1e300, 0.5]
    with np.errstate(all="ignore"):
        copied.reshape(-1)[rng.randrange(array.size)] = np.array(rng.choice(extremes)).astype(
            array.dtype
        )
    return copied


def _changed_tensors(contents: bytes, rng: random.Random) -> bytes:
    """Another header (a JSON tree) before the same bytes, or other bytes after the same header."""
    length = int.from_bytes(contents[:8], "little")
    header, body = contents[8 : 8 + length], contents[8 + length :]
    if rng.random() < 0.5:
        header = _changed_json(header, rng)
    else:
        words = np.frombuffer(body[: len(body) // 4 * 4], np.int32).copy()
        if words.size:
            words[rng.randrange(words.size)] = rng.choice([-1, 2**31 - 1, 0, 1 << 23, 2139095040])
        body = words.tobytes() + body[len(body) // 4 * 4 :]
    return len(header).to_bytes(8, "little") + header + body


INSIDE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": _changed_json,
    ".npy": _changed_array,
    ".safetensors": _changed_tensors,
}
"""Changes of what a file holds, by the end of its name."""

if __name__ == "__main__":
    sys.exit(main())
