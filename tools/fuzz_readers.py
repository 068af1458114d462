"""What `tools/fuzz.py` changes: small files of every format, and the functions that read them.

A seed is a set of files; `read` gives them to the reader and looks at what comes back; `pack` makes
the files valid around a change: a checksum, a zip, a gzip.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

Files = dict[str, bytes]


@dataclass(frozen=True)
class Reader:
    """What is read (`seeds`, made whole by `pack`) and how; `read` also looks at the result."""

    seeds: Callable[[], list[Files]]
    read: Callable[[Path], None]
    pack: Callable[[Files], Files] = lambda files: files


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
        names |= {"ids": ("1", "2", "3"), "texts": ("", "a\nb", "é")}
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
    for matrix in (found.features, found.labels, found.judgements):
        _sound(matrix)
    if found.labels is not None:
        data.describe(found)


def _read_folder(folder: Path) -> None:
    from unmask import data

    for part in data.parts(folder) or ("train",):
        found = data.read(folder, part=part)
        for matrix in (found.features, found.labels, found.judgements):
            _sound(matrix)


def _read_predictions(folder: Path) -> None:
    from unmask import predictions

    found = predictions.read(next(folder.iterdir()))
    if found.labels.size > 1 << 22:
        raise AssertionError(f"{found.labels.shape} from a small file")


TABLES: dict[str, bytes] = {
    "wide.csv": b'id,text,tags\nd1,"a, ""b""\nc",law; art\nd2,,tax\nd3,x,\n',
    "wide.tsv": "doc_id\tsubjects\n1\t生物|law\r\n2\tlaw\r\n".encode(),
    "lists.csv": b"id;tags\n1;['a', 'b']\n2;[]\n3;\n",
    "long.csv": b"id,label,value\nd1,law,1\nd1,art,0\nd2,,1\n",
    "marked.csv": "\ufeffid,tags\n1,a|b\n".encode(),
    "wide16.csv": "id,tags\n1,é;b\n".encode("utf-16"),
    "rows.jsonl": b'{"id": 1, "tags": ["a", "b"], "text": "x"}\n{"id": 2, "tags": null}\n',
    "corpus.tsv": b"a text\t<http://e.org/1> <http://e.org/2>\nanother\t<http://e.org/1>\n",
    "rows.json": b'[{"id": 1, "tags": "a;b"}, {"id": 2, "tags": ""}]',
    "studio.json": b'[{"id": 1, "data": {"text": "x"}, "annotations": [{"was_cancelled": false, '
    b'"result": [{"from_name": "topic", "value": {"choices": ["law", "art"]}}]}]}]',
    "short.json": b'[{"id": 1, "text": "x", "topic": {"choices": ["law"]}}]',
    "argilla.jsonl": b'{"id": "r1", "fields": {"text": "x"}, "responses": {"topics": [{"value": '
    b'["law"], "status": "submitted"}]}}\n',
    "annif.jsonl": b'{"text": "x", "subjects": [{"uri": "<http://e.org/1>", "label": "law"}]}\n',
}


def _tables() -> list[Files]:
    return [{name: contents} for name, contents in TABLES.items()]


def _read_table(folder: Path) -> None:
    from unmask import data

    path = next(folder.iterdir())
    choices: list[dict[str, str]] = [{}, {"nulls": "empty", "repeated": "merge"}]
    rows = data.read(path, **choices[path.stat().st_size % 2])
    _sound(rows.labels)
    for row in range(rows.n):
        rows.labels_of(row)
    again = folder.parent / f"{folder.name}-again.csv"
    data.write(again, replace(rows, texts=rows.ids or [""] * rows.n, features=None))
    if data.read(again).labels.nnz != rows.labels.nnz:
        raise AssertionError("what was written is not what is read")
    again.unlink()


def _corpora() -> list[Files]:
    texts = {"a.txt": "ün text".encode(), "b.txt": b"", "c.txt": b"not indexed"}
    uris = {"a.tsv": b"<http://e.org/1>\tlaw\n<http://e.org/2>\tart\n", "b.tsv": b""}
    return [texts | uris, texts | {"a.key": b"law\nart\n", "b.key": "生物\n".encode()}]


def _read_corpus(folder: Path) -> None:
    from unmask import data

    rows = data.read(folder)
    _sound(rows.labels)
    if rows.texts is None or len(rows.texts) != rows.n:
        raise AssertionError("a text for every row")


def _vocabularies() -> list[Files]:
    turtle = (
        b"@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n@prefix s: <http://e.org/> .\n"
        b"s:1 a skos:Concept ; skos:prefLabel \"law\"@en , 'laki'@fi ; skos:broader s:9 . # note\n"
        b'<http://e.org/2> skos:prefLabel """t\\u0061x"""@en ; skos:note [ skos:x ( 1 2 ) ] .\n'
    )
    table = (
        b'uri,notation,label_en,label_fi\nhttp://e.org/1,1,law,laki\n<http://e.org/2>,,"a ""b""",\n'
    )
    return [{"v.ttl": turtle}, {"v.csv": table}, {"v.tsv": b"<http://e.org/1>\tlaw\n"}]


def _read_vocabulary(folder: Path) -> None:
    from unmask import data

    labels = data.subject_labels(next(folder.iterdir()))
    if not all(uri and label for uri, label in labels.items()):
        raise AssertionError("an empty URI or label")


def _judgements() -> list[Files]:
    named = b"id\tlabel\tjudgement\nd1\tlaw\tpositive\nd2\tart\tnegative\n"
    return [
        {"j.txt": b"0 1\n2 0\n"},
        {"j.csv": b"row,label,judgement\n0,1,1\n1,0,0\n1,1,ignore\n"},
        {"j.tsv": named},
    ]


def _read_judgements(folder: Path) -> None:
    from unmask import data

    path = next(folder.iterdir())
    names = {"ids": ("d1", "d2", "d3"), "label_names": ("law", "art", "tax")}
    _sound(data.read_judgements(path, (3, 3), **(names if path.suffix == ".tsv" else {})))


def _hierarchies() -> list[Files]:
    terms = b"format-version: 1.2\n\n[Term]\nid: GO:1\nname: a\n\n[Term]\nid: GO:2\nis_a: GO:1\n"
    skos = (
        b"@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
        b"<http://e.org/2> skos:broader <http://e.org/1> .\n"
    )
    return [{"h.obo": terms}, {"h.tsv": b"GO:2\tGO:1\n"}, {"h.ttl": skos}]


def _read_hierarchy(folder: Path) -> None:
    from unmask import data

    tree = data.read_hierarchy(next(folder.iterdir()))
    if len(tree.levels) != len(tree.names):
        raise AssertionError(f"{len(tree.levels)} levels of {len(tree.names)} labels")


def _long_predictions() -> list[Files]:
    texts = {
        "top.csv": b"id,label,score\nd1,law,0.9\nd1,art,1e-3\nd2,,\n",
        "top.tsv": b"row\tlabel\tscore\n0\tlaw\t0.123456789012345678\n1\tart\t-1\n",
        "top.jsonl": b'{"id": "d1", "label": "law", "score": 0.5}\n',
        "run.txt": b"q1 Q0 law 1 0.9 ours\nq2 Q0 art 1 0.5 ours\n",
        "cafa.tsv": b"T1\tGO:1\t0.9\nT1\tGO:2\t.5\n",
    }
    return [{name: text} for name, text in texts.items()]


def _arrays() -> list[Files]:
    return [{"top.npy": saved(MATRIX.toarray())}, {"top.npy": saved(np.eye(3))}]


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


def _models() -> list[Files]:
    from unmask import linear

    dense = np.float32([[1, 2, 0], [0, -1, 0.5], [3, 0, 0]])
    made = [(dense, None), (sp.csr_array(dense), np.array([0.5, 1 / 3, 0]))]
    return [
        _written(lambda f, w=weights, idf=idf: _save(linear, f, w, idf))  # type: ignore[misc]
        for weights, idf in made
    ]


def _save(linear: Any, folder: Path, weights: Any, idf: Any) -> None:
    from unmask.data import Vocabulary
    from unmask.models.linear import Shard

    shard = Shard(weights, np.float32([0.5, 0, 1]))
    names = ("a", "b\n", "<script>")
    words = None if idf is None else Vocabulary(("law", "tax", "tax law"))
    model = linear.LinearModel((shard,), "logistic", {"C": 1.0}, idf, names, words)
    linear.save(folder, model, shard_labels=2)


def _signed(files: Files) -> Files:
    """A manifest that agrees with its shards again, as somebody with intent would make it."""
    signed = dict(files)
    try:
        head = json.loads(files["manifest.json"])
        beside = [head[part] for part in ("idf", "names", "vocabulary") if head[part]]
        for entry in [*head["shards"], *beside]:
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
    top = linear.predict_top(model, rows, 2)
    if top.labels.max() >= model.n_labels or not np.isfinite(linear.scores(model, rows)).all():
        raise AssertionError("unsound model")
    linear.probabilities(model, rows)
    if model.vocabulary is not None and model.idf is not None:
        linear.text_features(model, ["Tax law", ""])


def _use(model: Any) -> None:
    from unmask import linear

    filled = np.arange(min(model.n_features, 1000))
    entries = np.ones(filled.size, dtype=np.float32), filled, [0, filled.size]
    rows = sp.csr_array(entries, shape=(1, model.n_features))
    linear.predict_top(model, rows, 1)
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
    _no_markup(folder / "r.json")


def _no_markup(stored: Path) -> None:
    import unmask_studies
    from unmask import pages

    kinds = unmask_studies.KINDS
    with tempfile.TemporaryDirectory() as folder:
        pages.write_records(
            pages.read(stored, kinds=kinds), Path(folder) / "page.html", kinds=kinds
        )
        if "<script>alert" in (Path(folder) / "page.html").read_text(encoding="utf-8"):
            raise AssertionError("a name came through as markup")


def _rows() -> list[Files]:
    import unmask_studies

    study = unmask_studies.STUDIES["recall-toy"]
    return [_lines(lambda folder: unmask_studies.run(study, folder, size="tiny") and None)]


def _lines(write: Callable[[Path], None]) -> Files:
    """Rows that a study packed, as the lines of a journal."""
    import zstandard

    packed = _written(write)
    return {
        name.removesuffix(".zst"): zstandard.decompress(contents)
        for name, contents in packed.items()
    }


def _zstd(files: Files) -> Files:
    import zstandard

    return {f"{name}.zst": zstandard.compress(contents) for name, contents in files.items()}


def _read_rows(folder: Path) -> None:
    _no_markup(folder)


def _known_rows() -> list[Files]:
    from unmask_studies import run

    return [_lines(lambda folder: run(STUDY, folder) and None)]


def _packed_rows() -> list[Files]:
    return [_zstd(files) for files in _known_rows()]


def _study() -> Any:
    from unmask_studies.study import Drawn, Study

    return Study(
        "fuzzed", "", "", lambda size, seed, data: [{"at": 1}], lambda at: [{"value": 0.5}],
        lambda rows: Drawn([], [], []), lambda rows: "",
    )  # fmt: skip


def _read_known_rows(folder: Path) -> None:
    from unmask_studies import run

    with tempfile.TemporaryDirectory(dir=folder) as copied:  # as a run adds what is missing
        for path in folder.glob("*.jsonl*"):
            shutil.copy(path, copied)
        rows = run(STUDY, Path(copied))
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
    "data.tables": Reader(_tables, _read_table),
    "data.tables.packed": Reader(_tables, _read_table, _packed),
    "data.judgements": Reader(_judgements, _read_judgements),
    "data.hierarchy": Reader(_hierarchies, _read_hierarchy),
    "data.corpus": Reader(_corpora, _read_corpus),
    "data.subject_labels": Reader(_vocabularies, _read_vocabulary),
    "predictions.long": Reader(_long_predictions, _read_predictions),
    "predictions.npy": Reader(_arrays, _read_predictions),
    "predictions.npz": Reader(_score_members, _read_predictions, _zipped),
    "propensity": Reader(_propensity_texts, _read_propensity),
    "propensity.json": Reader(_estimates, _read_propensity),
    "model": Reader(_models, _read_model),
    "model.signed": Reader(_models, _read_model, _signed),
    "report": Reader(_stored, _read_stored),
    "report.rows": Reader(_rows, _read_rows, _zstd),
    "study": Reader(_known_rows, _read_known_rows, _zstd),
    "study.journal": Reader(_known_rows, _read_known_rows),
    "study.packed": Reader(_packed_rows, _read_known_rows),
}
"""Every function of the package that reads a file, by the kind of file."""


def saved(array: Any) -> bytes:
    """An array as a .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
