"""Files from strangers reach nothing but themselves; names from data are text wherever they go."""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.command import run
from tests.helpers.paths import ROOT
from unmask import data, linear, predictions
from unmask.files import streams
from unmask.metrics import compare
from unmask.models.linear import Shard
from unmask.predictions import TopK

SOURCE = ROOT / "src" / "unmask"
SCRIPT = "<script>alert(1)</script>"

# What no line of the package may call, whatever it is imported as.
FORBIDDEN = {
    "eval", "exec", "compile", "__import__", "pickle.load", "pickle.loads", "pickle.Unpickler",
    "marshal.load", "marshal.loads", "shelve.open", "dill.load", "dill.loads", "cloudpickle.load",
    "cloudpickle.loads", "joblib.load", "numpy.fromregex", "yaml.load", "yaml.unsafe_load",
    "os.system", "os.popen", "os.execv", "os.spawnv", "subprocess.run", "subprocess.call",
    "subprocess.Popen", "subprocess.check_call", "subprocess.check_output", "subprocess.getoutput",
    "pandas.read_pickle", "tempfile.mktemp", "code.interact",
}  # fmt: skip
KEYWORDS = {
    "numpy.load": ("allow_pickle", False),
    "torch.load": ("weights_only", True),
    "scipy.sparse.load_npz": ("", None),  # `files.archive` reads these itself
}
ALLOWED = {
    # Tasks on their way between the processes of one computation, never from a file that is given.
    ("parallel.py", "pickle.loads"),
}


def calls(source: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call by its full dotted name, however the name was imported."""
    tree = ast.parse(source)
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                known[name.asname or name.name.partition(".")[0]] = (
                    name.name if name.asname else name.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            known |= {n.asname or n.name: f"{node.module}.{n.name}" for n in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, dot, rest = ast.unparse(node.func).partition(".")
            yield known.get(first, first) + dot + rest, node


def offences(source: str) -> list[str]:
    found = []
    for name, node in calls(source):
        given = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
        if name in FORBIDDEN or given.get("shell") is True:
            found.append(name)
        elif name in KEYWORDS:
            keyword, value = KEYWORDS[name]
            if keyword not in given or given[keyword] is not value:
                found.append(name)
    return found


def test_nothing_is_unpickled_evaluated_or_given_to_a_shell() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 100
    found = [
        (str(path.relative_to(SOURCE)), name)
        for path in files
        for name in offences(path.read_text(encoding="utf-8"))
    ]
    assert set(found) == ALLOWED


@pytest.mark.parametrize(
    "source",
    [
        "eval('1')",
        "import pickle as p\np.loads(b'')",
        "from pickle import load\nload(f)",
        "import numpy as np\nnp.load(f)",
        "import numpy as np\nnp.load(f, allow_pickle=True)",
        "import torch\ntorch.load(f)",
        "import os\nos.system('ls')",
        "import subprocess\nsubprocess.run(['ls'])",
        "run('ls', shell=True)",
        "import yaml\nyaml.load(f)",
        "import scipy.sparse as sp\nsp.load_npz(f)",
    ],
)
def test_an_offence_is_seen(source: str) -> None:
    assert offences(source)


def test_what_is_allowed_is_not_taken_for_an_offence() -> None:
    assert not offences("import numpy as np\nnp.load(f, allow_pickle=False)\nmodel.eval()")


# Model folders.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    weights = np.float32([[1, 2], [3, 4], [5, 6], [7, 8]])
    shard = Shard(sp.csr_array(weights), np.zeros(4, np.float32))
    linear.save(tmp_path / "m", linear.LinearModel((shard,), "logistic"), shard_labels=2)
    return tmp_path / "m"


def edit(folder: Path, change: Callable[[list[Any]], Any]) -> None:
    path = folder / "manifest.json"
    head = json.loads(path.read_text())
    change(head["shards"])
    path.write_text(json.dumps(head))


def shard_of(folder: Path) -> Path:
    """The first of its shards."""
    return next(folder.glob("shard-00000000-*"))


def signed(folder: Path, contents: bytes, name: str) -> None:
    """Put a shard into the folder with everything that the manifest says of it made true."""
    (folder / name).write_bytes(contents)

    def agree(shards: list[Any]) -> None:
        for entry in shards:
            if entry["file"] == name:
                entry["bytes"] = len(contents)
                entry["sha256"] = hashlib.sha256(contents).hexdigest()

    edit(folder, agree)


ELSEWHERE = [
    "../x.safetensors", "..", ".", "", "a/../../x.safetensors", "..\\x.safetensors",
    "C:\\x.safetensors", "sub\\x", "x\0.safetensors", "x\n",
]  # fmt: skip


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_shard_outside_the_folder_is_refused(folder: Path, name: str) -> None:
    outside = folder.parent / "x.safetensors"
    shutil.copy(next(folder.glob("shard-*")), outside)
    edit(folder, lambda shards: shards[0].update(file=name))
    with pytest.raises(ValueError, match="describes a shard as"):
        linear.load(folder)


def test_an_absolute_shard_is_refused(folder: Path) -> None:
    outside = folder.parent / "x.safetensors"
    shutil.copy(shard_of(folder), outside)
    edit(folder, lambda shards: shards[0].update(file=str(outside)))
    with pytest.raises(ValueError, match="describes a shard as"):
        linear.load(folder)


def test_a_link_is_refused_wherever_it_leads(folder: Path) -> None:
    shard = shard_of(folder)
    inside, outside = folder / "other.safetensors", folder.parent / "x.safetensors"
    shutil.copy(shard, outside)
    shard.rename(inside)
    for place in (inside, outside):
        shard.symlink_to(place)
        with pytest.raises(ValueError, match=f"{shard.name} is a link"):
            linear.load(folder)
        shard.unlink()
    inside.rename(shard)
    assert linear.load(folder).n_labels == 4


def test_a_folder_behind_a_link_is_fine(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder, target_is_directory=True)
    assert linear.load(link).n_labels == 4


def test_a_shard_named_twice_is_refused(folder: Path) -> None:
    edit(folder, lambda shards: shards[1].update(shards[0] | {"start": 2, "stop": 4}))
    with pytest.raises(ValueError, match="names a file twice"):
        linear.load(folder)


def test_a_shard_that_the_manifest_does_not_name_is_not_looked_at(folder: Path) -> None:
    (folder / "shard-00000004.safetensors").write_bytes(b"nonsense")
    assert linear.load(folder).n_labels == 4


@pytest.mark.parametrize("change", [-1, 1])
def test_another_size_than_the_manifest_says_is_refused(folder: Path, change: int) -> None:
    edit(folder, lambda shards: shards[0].update(bytes=shards[0]["bytes"] + change))
    with pytest.raises(ValueError, match=r"has \d+ bytes instead of"):
        linear.load(folder)


def test_another_checksum_is_refused(folder: Path) -> None:
    edit(folder, lambda shards: shards[0].update(sha256="0" * 64))
    with pytest.raises(ValueError, match="does not match its checksum"):
        linear.load(folder)


def test_indices_that_point_elsewhere_are_refused_even_where_all_checksums_are_right(
    folder: Path,
) -> None:
    """Kernels follow indices without looking: such a model would read other memory."""
    from safetensors.numpy import load, save

    name = shard_of(folder).name
    arrays = load((folder / name).read_bytes())
    for part, value in (("indices", 2), ("indices", -1), ("indptr", 99), ("data", np.nan)):
        wrong = {key: array.copy() for key, array in arrays.items()}
        wrong[part][1] = value
        signed(folder, save(wrong), name)
        with pytest.raises(ValueError, match=f"{name} does not hold 2 × 2 weights"):
            linear.load(folder)
    signed(folder, save(arrays), name)
    assert linear.load(folder).n_labels == 4


def test_shapes_whose_product_wraps_around_are_refused(folder: Path) -> None:
    name = shard_of(folder).name
    tensor = {"dtype": "F32", "shape": [2**32, 2**32], "data_offsets": [0, 0]}
    header = json.dumps({"weights": tensor, "bias": tensor}).encode()
    signed(folder, len(header).to_bytes(8, "little") + header, name)
    with pytest.raises(ValueError, match="is no safetensors file"):
        linear.load(folder)


def test_arrays_of_a_shard_lie_one_after_the_other_and_nothing_else_does(folder: Path) -> None:
    """Overlaps, gaps, bytes before, between and after, and a key that stands twice."""
    from safetensors.numpy import load, save

    name = shard_of(folder).name
    contents = save(load((folder / name).read_bytes()))
    length = int.from_bytes(contents[:8], "little")
    head, body = json.loads(contents[8 : 8 + length]), contents[8 + length :]

    def packed(header: bytes, body: bytes) -> bytes:
        return len(header).to_bytes(8, "little") + header + body

    def moved(by: dict[str, int]) -> bytes:
        said = {
            key: about | {"data_offsets": [at + by.get(key, 0) for at in about["data_offsets"]]}
            for key, about in head.items()
        }
        return json.dumps(said).encode()

    everything = dict.fromkeys(head, 8)
    last = max(head, key=lambda key: head[key]["data_offsets"])
    twice = (
        json.dumps(head).encode().removesuffix(b"}")
        + b', "bias": '
        + (json.dumps(head["bias"]).encode() + b"}")
    )
    signed(folder, packed(moved({}), body), name)
    assert linear.load(folder).n_labels == 4
    for wrong, words in (
        (packed(moved({last: -4}), body), "overlap"),
        (packed(moved({last: 8}), body + bytes(8)), "leave bytes out"),
        (packed(moved(everything), bytes(8) + body), "leave bytes out"),
        (packed(moved({}), body + b"hidden"), "leave bytes out"),
        (packed(twice, body), "stands twice"),
    ):
        signed(folder, wrong, name)
        with pytest.raises(ValueError, match=f"{name} is no.*{words}"):
            linear.load(folder)


@pytest.mark.parametrize("depth", [100_000])
def test_json_nested_beyond_reason_is_refused(folder: Path, depth: int) -> None:
    (folder / "manifest.json").write_text("[" * depth)
    with pytest.raises(ValueError, match="nested too deep"):
        linear.load(folder)
    refused = run("report", folder / "manifest.json", "-o", folder / "page.html")
    assert refused.returncode == 2
    assert "nested too deep" in refused.stderr


# Names that come from data.


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data whose labels and files are called what no reader expects."""
    folder = tmp_path_factory.mktemp("named")
    rows = data.synthetic.planted(60, n_features=8, n_labels=5, seed=0)
    data.write(folder / "rows.txt", rows)
    (folder / "labels.txt").write_text(f"{SCRIPT}\n=cmd()\n'\"&\n</style>\n<img src=x>\n")
    scores = np.random.default_rng(0).random((60, 5))
    predictions.write(folder / "<img src=x onerror=alert(1)>.txt", TopK.from_scores(scores, 3))
    predictions.write(folder / "=cmd()|x.txt", TopK.from_scores(1 - scores, 3))
    return folder


def harmless(page: Path) -> bool:
    text = page.read_text(encoding="utf-8")
    return SCRIPT not in text and "<img src=x" not in text and len(re.findall("<script", text)) <= 2


def test_names_are_text_on_every_page(
    named: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data.read(named / "rows.txt").label_names is not None
    monkeypatch.chdir(named)
    evaluated = run(
        "evaluate", "--labels", "rows.txt", "--predictions", "<img src=x onerror=alert(1)>.txt",
        "--compare", "=cmd()|x.txt", "--propensity", "constant:0.5", "--sensitivity", "powers",
        "--metrics", "P@1,R@3", "--html", tmp_path / "e.html", "--json",
    )  # fmt: skip
    diagnosed = run("diagnose", "rows.txt", "--html", tmp_path / "d.html", "--json")
    assert (evaluated.returncode, diagnosed.returncode) == (0, 0), evaluated.stderr
    assert harmless(tmp_path / "e.html")
    assert harmless(tmp_path / "d.html")
    assert "&lt;img src=x" in (tmp_path / "e.html").read_text(encoding="utf-8")
    for name, result in (("e", evaluated), ("d", diagnosed)):
        (tmp_path / f"{name}.json").write_text(result.stdout)
    stored = run("report", tmp_path / "e.json", tmp_path / "d.json", "--title", SCRIPT,
                 "-o", tmp_path / "r.html")  # fmt: skip
    assert stored.returncode == 0, stored.stderr
    assert harmless(tmp_path / "r.html")


def poisoned(record: Any) -> Any:
    """The record with a script after every text in it."""
    if isinstance(record, dict):
        kept = ("kind", "metric", "estimator", "severity", "level", "reason", "advice")
        return {k: v if k in kept else poisoned(v) for k, v in record.items()}
    if isinstance(record, list):
        return [poisoned(each) for each in record]
    return f"{record}{SCRIPT}" if isinstance(record, str) else record


def test_texts_in_stored_results_are_text(named: Path, tmp_path: Path) -> None:
    for command in (
        ["diagnose", named / "rows.txt", "--json"],
        ["evaluate", "--labels", named / "rows.txt", "--predictions", named / "=cmd()|x.txt",
         "--propensity", "constant:0.5", "--metrics", "P@1", "--json"],
    ):  # fmt: skip
        record = json.loads(run(*command).stdout)
        (tmp_path / "r.json").write_text(json.dumps(poisoned(record)))
        result = run("report", tmp_path / "r.json", "-o", tmp_path / "r.html")
        assert result.returncode == 0, result.stderr
        assert harmless(tmp_path / "r.html")
        assert "&lt;script&gt;alert(1)" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_csv_of_the_command_holds_no_formula(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(named)
    printed = run(
        "evaluate", "--labels", "rows.txt", "--predictions", "<img src=x onerror=alert(1)>.txt",
        "--compare", "=cmd()|x.txt", "--propensity", "constant:0.5", "--metrics", "P@1", "--csv",
    )  # fmt: skip
    assert printed.returncode == 0, printed.stderr
    cells = [cell for row in csv.reader(io.StringIO(printed.stdout)) for cell in row]
    assert "'=cmd()|x.txt" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]
    assert not [cell for cell in cells if cell.startswith("-") and not _is_number(cell)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", ["=cmd()", "@SUM(A1)", "+1+1", "-1+1", "\t=1", "\r=1"])
def test_csv_of_tables_holds_no_formula(name: str) -> None:
    labels = np.eye(4)
    systems = {"ours": TopK.from_scores(labels, 1), name: TopK.from_scores(1 - labels, 1)}
    table = compare(systems, labels, np.ones(4), metrics=["P@1"], replicates=20)
    rows = list(csv.DictReader(io.StringIO(table.to("csv"))))
    assert all(row["system"].startswith("'") for row in rows if row["system"] != "ours")
    assert all(_is_number(row["value"]) for row in rows)


def test_a_name_that_comes_to_mean_a_pipe_is_refused_once_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look and opening, somebody puts a pipe in the place of the file."""
    plain, pipe = tmp_path / "plain", tmp_path / "pipe"
    plain.write_text("1 2\n")
    os.mkfifo(pipe)
    regular = os.stat(plain)
    monkeypatch.setattr(streams.os, "stat", lambda path, **options: regular)
    held = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="is a pipe"):
        streams.open_readable(pipe)
    assert len(os.listdir("/proc/self/fd")) == held
