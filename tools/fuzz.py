"""Fuzzing: files of every format, changed at random, given to the function that reads them.

    python tools/fuzz.py --seconds 60          all readers; `make fuzz`
    python tools/fuzz.py model data.npz --seed 7

A reader returns something sound or raises ValueError (OSError) with the path in the message.
Anything else is a defect: another exception, a warning, unsound arrays, more than `ROOM` bytes of
memory, more than `PATIENCE` seconds, a dead process. Every reader runs in a forked process of its
own, so that even those are noticed; the files that did it are kept under --findings.

A seed is a set of small files. A change works on what the format holds (bytes, numbers in text, a
JSON tree, arrays), and `pack` then makes the files valid around it: a checksum, a zip, a gzip.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
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
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

Files = dict[str, bytes]

ROOM = 2 << 30
PATIENCE = 20.0
TURN = 1.0  # seconds for one reader before the next has its turn


@dataclass(frozen=True)
class Reader:
    """What is read (`seeds`, made whole by `pack`) and how; `read` also looks at the result."""

    seeds: Callable[[], list[Files]]
    read: Callable[[Path], None]
    pack: Callable[[Files], Files] = lambda files: files


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
    end = time.monotonic() + TURN
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
    return _saved(_other_array(np.load(io.BytesIO(contents), allow_pickle=False), rng))


def _other_array(array: Any, rng: random.Random) -> Any:
    what = rng.randrange(7)
    if what == 0 or array.size == 0:
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


def _saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


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

# Seeds and readers.


def _written(write: Callable[[Path], None]) -> Files:
    """What a function leaves in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        found = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {path.name: path.read_bytes() for path in found}


TEXTS: dict[str, bytes] = {
    "xc.txt": b"3 4 5\n0,3 0:0.5 2:1\n 1:2\n4 3:-1e-3 0:7\n",
    "Y.txt": b"3 5\n0:1 3:1\n\n4:1\n",
    "Xf.txt": b"2 4\n0:0.5 3:1.25e-2\n1:-3\n",
    "rows.svm": b"0,2 1:1 3:0.5\n 2:1\n1 1:0.123456789012345678\n",
    "bare.svm": b"1,2 3 4\n0 1\n",
}
NAMES = b"one\ntwo\nthree\nfour\n<script>\n"


def _texts() -> list[Files]:
    return [{name: contents} for name, contents in TEXTS.items()]


def _folders() -> list[Files]:
    whole = {"b_data.txt": TEXTS["xc.txt"], "b_trSplit.txt": b"1 2\n3 1\n", "labels.txt": NAMES}
    pair = {"trn_X_Xf.txt": b"3 4\n0:1\n1:1\n2:1\n", "trn_X_Y.txt": TEXTS["Y.txt"]}
    pair |= {"filter_labels_train.txt": b"0 0\n2 4\n", "labels.txt": NAMES}
    return [whole, pair]


def _packed(files: Files) -> Files:
    """Text, compressed after it was changed."""
    import zstandard

    packed: Files = {}
    for at, (name, contents) in enumerate(files.items()):
        gz = (len(contents) + at) % 2
        packed[name + (".gz" if gz else ".zst")] = (
            gzip.compress(contents, mtime=0) if gz else zstandard.compress(contents)
        )
    return packed


def _compressed() -> list[Files]:
    return [_packed(files) for files in _texts()]


def _zipped(files: Files) -> Files:
    """The members of an archive, put together after one was changed."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, contents in files.items():
            file.writestr(name, contents)
    return {"a.npz": archive.getvalue()}


def _members(contents: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(contents)) as file:
        return {name: file.read(name) for name in file.namelist()}


MATRIX = sp.csr_array(np.array([[0.5, 0, 2, 0], [0, 0, 0, 0], [1, 3, 0, -1]], dtype=np.float32))
LABELS = sp.csr_array(np.array([[1, 0], [1, 1], [0, 0]], dtype=np.float32))


def _archives() -> list[Files]:
    from unmask import data

    def whole(folder: Path) -> None:
        names = {"feature_names": tuple("abcd"), "label_names": ("x", "y")}
        data.write(folder / "a.npz", data.Dataset(MATRIX, LABELS, **names))

    kinds = (sp.csr_array, sp.csc_array, sp.coo_matrix)
    return [_written(whole), *(_one_matrix(kind(LABELS)) for kind in kinds)]


def _one_matrix(matrix: Any) -> Files:
    return _written(lambda folder: sp.save_npz(folder / "a.npz", matrix))


def _archive_members() -> list[Files]:
    return [_members(files["a.npz"]) for files in _archives()]


def _sound(matrix: Any) -> None:
    if matrix is not None:
        matrix.check_format(full_check=True)
        if not np.isfinite(matrix.data).all():
            raise AssertionError("not finite")


def _read_data(folder: Path) -> None:
    from unmask import data

    found = data.read(next(folder.iterdir()))
    for matrix in (found.features, found.labels, found.filtered):
        _sound(matrix)
    if found.labels is not None:
        data.describe(found)


def _read_folder(folder: Path) -> None:
    from unmask import data

    for part in data.parts(folder) or ("train",):
        found = data.read(folder, part=part)
        for matrix in (found.features, found.labels, found.filtered):
            _sound(matrix)


def _read_predictions(folder: Path) -> None:
    from unmask import predictions

    found = predictions.read(next(folder.iterdir()))
    if found.labels.size > 1 << 22:
        raise AssertionError(f"{found.labels.shape} from a small file")


def _score_members() -> list[Files]:
    return [_members(_one_matrix(MATRIX)["a.npz"]), *_archive_members()[1:]]


def _prediction_texts() -> list[Files]:
    texts = (b"2 3\n7:0.9 2:0.85 0:0.1\n4:1.5\n", b"2 100\n99:1e-5\n\n", b"1 1\n0:0\n")
    return [{"top.txt": text} for text in texts]


def _propensity_texts() -> list[Files]:
    return [{"p.txt": b"0.5\n1\n0.25\n"}, {"p.txt": b"2\n1.0\n4e0\n"}]


def _estimates() -> list[Files]:
    from unmask import data, propensity

    truth = data.synthetic.independent(60, 4, seed=0)
    seen = data.hide(truth, propensity.constant(4, 0.5), seed=1)
    again = data.hide(truth, propensity.constant(4, 0.5), seed=2)
    made = [
        propensity.audit(seen, truth, curve="free"),
        propensity.recapture(seen, again),
        propensity.from_marginals(seen, np.full(4, 0.9)),
    ]
    files = [_written(lambda f, e=each: propensity.write(f / "p.json", e)) for each in made]  # type: ignore[misc]
    return [_few_draws(found) for found in files]


def _few_draws(files: Files) -> Files:
    """Two of the draws of each curve, so that changes meet the rest as well."""

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: short(v)[:2] if k == "draws" else short(v) for k, v in value.items()}
        return value

    return {name: json.dumps(short(json.loads(text))).encode() for name, text in files.items()}


def _read_propensity(folder: Path) -> None:
    from unmask import propensity

    p = propensity.read(next(folder.iterdir()))
    values = np.asarray(p)
    if values.dtype != np.float64 or values.ndim != 1 or not ((values > 0) & (values <= 1)).all():
        raise AssertionError(f"propensities {values}")
    if isinstance(p, propensity.PropensityEstimate):
        drawn = p.draw(seed=0, size=2)
        if drawn.shape != (2, len(values)) or not np.isfinite(drawn).all():
            raise AssertionError(f"draws {drawn} for {values}")
        str(p), p.low < p.high, p.confidence < 1, p.evidence + 1, [*p.notes]


def _weight_files() -> list[Files]:
    from unmask import weights

    made = [weights.unbiased(LABELS, [0.5, 0.3]), weights.bound(LABELS, [0.5, 0.3])]
    return [_written(lambda f, w=each: weights.write(f / "a.npz", w)) for each in made]  # type: ignore[misc]


def _weight_members() -> list[Files]:
    return [_members(files["a.npz"]) for files in _weight_files()]


def _read_weights(folder: Path) -> None:
    from unmask import weights

    found = weights.read(next(folder.iterdir()))
    for matrix in (found.pos, found.cut):
        _sound(matrix)
        if matrix.data.dtype != np.float64 or matrix.shape != found.pos.shape:
            raise AssertionError(f"{matrix.data.dtype} {matrix.shape}")


def _models() -> list[Files]:
    from unmask import linear

    dense = np.float32([[1, 2, 0], [0, -1, 0.5], [3, 0, 0]])
    made = [dense, sp.csr_array(dense)]
    return [
        _written(lambda f, w=each: _save(linear, f, w))  # type: ignore[misc]
        for each in made
    ]


def _save(linear: Any, folder: Path, weights: Any) -> None:
    shard = linear.Shard(weights, np.float32([0.5, 0, 1]))
    linear.save(folder, linear.LinearModel((shard,), "logistic", {"C": 1.0}), shard_labels=2)


def _signed(files: Files) -> Files:
    """A manifest that agrees with its shards again, as somebody with intent would make it."""
    signed = dict(files)
    try:
        head = json.loads(files["manifest.json"])
        for entry in head["shards"]:
            shard = files[entry["file"]]
            entry |= {"bytes": len(shard), "sha256": hashlib.sha256(shard).hexdigest()}
        signed["manifest.json"] = json.dumps(head).encode()
    except (ValueError, KeyError, TypeError):
        pass
    return signed


def _read_model(folder: Path) -> None:
    from unmask import linear

    model = linear.load(folder)
    rows = sp.csr_array(np.ones((2, model.n_features), dtype=np.float32))
    top = linear.top(model, rows, 2)
    if top.labels.max() >= model.n_labels or not np.isfinite(linear.scores(model, rows)).all():
        raise AssertionError("unsound model")
    linear.probabilities(model, rows)


def _dismec() -> list[Files]:
    head = b"solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 0\nnr_feature 2\nbias 1\nw\n"
    return [{"1.model": head + b"0.5 0 \n0 2 \n-1 -3 \n"}]


def _read_dismec(folder: Path) -> None:
    from unmask import linear

    _use(linear.read_dismec(folder / "1.model"))


def _dismecpp() -> list[Files]:
    def files(kind: str, contents: bytes, name: str) -> Files:
        part = {"first": 0, "count": 2, "file": name, "weight-format": kind}
        meta = {"num-features": 3, "num-labels": 2, "date": "", "files": [part]}
        return {"m.json": json.dumps(meta).encode(), name: contents}

    dense = np.float32([[1, 0, 2], [0, 3, -1]])
    return [
        files("SparseTXT", b"0:0.5 2:-1 \n1:2 \n", "w.txt"),
        files("DenseTXT", b"1 0 2\n0 3 -1\n", "w.txt"),
        files("DenseNPY", _saved(dense), "w.npy"),
    ]


def _read_dismecpp(folder: Path) -> None:
    from unmask import linear

    for bias in (True, False):
        _use(linear.read_dismecpp(folder / "m.json", bias=bias))


def _use(model: Any) -> None:
    from unmask import linear

    rows = sp.csr_array(np.ones((1, model.n_features), dtype=np.float32))
    linear.top(model, rows, 1)
    for part in model.shards:
        if sp.issparse(part.weights):
            _sound(part.weights)


def _printed(*arguments: object) -> bytes:
    """What a command prints."""
    from contextlib import redirect_stdout

    from unmask.cli import app

    with io.StringIO() as text, redirect_stdout(text):
        app([str(each) for each in arguments], standalone_mode=False)
        return text.getvalue().encode()


def _stored() -> list[Files]:
    from unmask import data, predictions

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = data.synthetic.planted(60, n_features=8, n_labels=5, seed=0)
        data.write(folder / "d.txt", rows)
        scores = np.random.default_rng(0).random((60, 5))
        for system, k in (("a", 2), ("b", 2)):
            top = predictions.TopK.from_scores(scores if system == "a" else 1 - scores, k)
            predictions.write(folder / f"{system}.txt", top)
        both = ("--labels", folder / "d.txt", "--predictions", folder / "a.txt", "--metrics", "R@2")
        common = ("--propensity", "constant:0.5", "--estimators", "vanilla,unbiased", "--json")
        more = ("--compare", folder / "b.txt", "--sensitivity", "powers")
        evaluation = _printed("evaluate", *both, *common)
        compared = _printed("evaluate", *both, *more, *common)
        diagnosis = _printed("diagnose", folder / "d.txt", "--json")
    return [{"r.json": text} for text in (evaluation, compared, diagnosis)]


def _read_stored(folder: Path) -> None:
    from unmask.cli import pages

    _no_markup(pages, folder / "r.json")


def _no_markup(pages: Any, stored: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pages.write(pages.read(stored), Path(folder) / "page.html")
        if "<script>alert" in (Path(folder) / "page.html").read_text(encoding="utf-8"):
            raise AssertionError("a name came through as markup")


def _rows() -> list[Files]:
    from unmask import experiments

    def ran(folder: Path) -> None:
        experiments.run(experiments.STUDIES["recall-toy"], folder, size="tiny")

    files = _written(ran)
    return [{"1.json": contents} for contents in list(files.values())[:2]]


def _read_rows(folder: Path) -> None:
    from unmask.cli import pages

    _no_markup(pages, folder)


def _known_rows() -> list[Files]:
    from unmask.experiments import runs

    return [_written(lambda folder: runs.run(STUDY, folder) and None)]


def _study() -> Any:
    from unmask.experiments import runs

    return runs.Study(
        "fuzzed", "", lambda size, seed, data: [{"at": 1}], lambda at: [{"value": 0.5}],
        lambda rows: [],
    )  # fmt: skip


def _read_known_rows(folder: Path) -> None:
    from unmask.experiments import runs

    inside = folder / "fuzzed" / "small"
    shutil.rmtree(folder / "fuzzed", ignore_errors=True)
    inside.mkdir(parents=True)
    for path in folder.glob("*.json"):
        shutil.copy(path, inside / path.name)
    try:
        rows = runs.run(STUDY, folder)
    finally:
        shutil.rmtree(folder / "fuzzed")
    if [type(row) for row in rows] != [dict] * len(rows):
        raise AssertionError(f"rows {rows}")


STUDY = _study()

READERS: dict[str, Reader] = {
    "data": Reader(_texts, _read_data),
    "data.packed": Reader(_texts, _read_data, _packed),
    "data.compressed": Reader(_compressed, _read_data),
    "data.folder": Reader(_folders, _read_folder),
    "data.npz": Reader(_archives, _read_data),
    "data.npz.members": Reader(_archive_members, _read_data, _zipped),
    "predictions": Reader(_prediction_texts, _read_predictions),
    "predictions.npz": Reader(_score_members, _read_predictions, _zipped),
    "propensity": Reader(_propensity_texts, _read_propensity),
    "propensity.json": Reader(_estimates, _read_propensity),
    "weights": Reader(_weight_files, _read_weights),
    "weights.members": Reader(_weight_members, _read_weights, _zipped),
    "model": Reader(_models, _read_model),
    "model.signed": Reader(_models, _read_model, _signed),
    "dismec": Reader(_dismec, _read_dismec),
    "dismecpp": Reader(_dismecpp, _read_dismecpp),
    "report": Reader(_stored, _read_stored),
    "report.rows": Reader(_rows, _read_rows),
    "study": Reader(_known_rows, _read_known_rows),
}
"""Every function of the package that reads a file, by the kind of file."""

if __name__ == "__main__":
    sys.exit(main())
