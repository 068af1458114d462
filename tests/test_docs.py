"""What the documents say runs, leads somewhere, and is complete."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
import re
import shlex
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import unmask
from tests.helpers import tagged
from tests.helpers.audits import confirm, judge
from tests.helpers.command import run
from tests.helpers.docstrings import can_refuse
from tests.helpers.paths import ROOT
from tests.helpers.scripts import script
from unmask import TopK, data, predictions

DOCS = ROOT / "docs"
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")]
)


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)


# Everything that can be run


TUTORIALS = DOCS / "tutorials"
"""Pages of scripts, with tests of their own (`test_tutorials`)."""
TYPED = [document for document in DOCUMENTS if document.parent != TUTORIALS]


@pytest.mark.parametrize("document", [d for d in TYPED if blocks(d, "python")], ids=name)
def test_python_examples_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks of a page, one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    put_tables(tmp_path)
    namespace: dict[str, object] = {"__name__": "example"}
    for block in blocks(document, "python"):
        exec(compile(block, str(document), "exec"), namespace)  # noqa: S102


def put_tables(folder: Path) -> None:
    """The tables that the pages name: tagged texts, new texts, and their tags in another order."""
    new = tagged.rows(80, first=1000, seed=2)
    tagged.write_csv(folder / "tags.csv", tagged.rows(200, seed=1))
    tagged.write_csv(folder / "new.csv", new, "id", "text")
    tagged.write_csv(folder / "test.csv", tagged.shuffled(new))


SLOW = ("demo", "reproduce")
"""Commands with tests of their own."""


def commands(document: Path) -> list[list[str]]:
    """The quick `unmask` commands in the bash blocks of a page, in order."""
    lines = [
        shlex.split(line, comments=True)
        for block in blocks(document, "bash")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    return [
        line for line in lines
        if line[:1] == ["unmask"] and line[1] not in SLOW and "--scheduler" not in line
    ]  # fmt: skip


@pytest.mark.parametrize("document", [d for d in TYPED if commands(d)], ids=name)
def test_shell_examples_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder with the files that the pages name: train, test, predictions of two systems."""
    monkeypatch.chdir(tmp_path)
    put_tables(tmp_path)
    rows = data.synthetic.planted(500, n_features=100, n_labels=15, seed=0)
    data.write("train.txt.gz", rows.take(slice(0, 300)))
    data.write("test.txt.gz", rows.take(slice(300, 500)))
    for seed, path in enumerate(("predictions.txt", "theirs.txt", "ours.npz")):
        scores = np.random.default_rng(seed).random((200, 15))
        predictions.write(path, TopK.from_scores(scores, 5))
    for _, *arguments in commands(document):
        kept, _, target = " ".join(arguments).partition(" > ")
        if arguments[0] == "audit" and "--answers" in arguments:
            judge(arguments[2], rows.take(slice(300, 500)).labels, "answers.json")
        if arguments[0] == "complete" and "--answers" in arguments:
            confirm(arguments[2], "answers.json")
        result = run(*kept.split())
        assert result.returncode == 0, (arguments, result.stderr)
        if target:
            Path(target).write_text(result.stdout)


def test_ci_runs_the_readme_command() -> None:
    """CI must try what the README promises, to the letter."""
    (command,) = (b.strip() for b in blocks(ROOT / "README.md", "bash") if "pytest" in b)
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()


def test_scripts_that_the_readme_names_exist() -> None:
    named = re.findall(r"`python ([\w/]+\.py)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(named) > 3
    assert all((ROOT / path).is_file() for path in named)


@pytest.mark.parametrize(
    "document", ["CONTRIBUTING.md", "SECURITY.md", ".github/PULL_REQUEST_TEMPLATE.md"]
)
def test_files_targets_and_names_that_are_named_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    quoted = re.findall(r"`([^`\n]+)`", text)
    folders = ("src/", "tests/", "docs/", "tools/", "benchmarks/", "examples/", ".github/")
    files = [each for each in quoted if each.startswith(folders) or each.endswith((".md", ".toml"))]
    for each in files:
        assert (ROOT / each).exists(), each
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([\w-]+)`", text):
        assert f"\n{target}:" in makefile, target
    for each in quoted:
        if re.fullmatch(r"unmask(\.\w+)+", each):
            pkgutil.resolve_name(each)
    assert len(files) > (8 if document == "CONTRIBUTING.md" else 0)


# Links


def anchors(document: Path) -> set[str]:
    """Anchors of the headings of a page, as mkdocs makes them."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def slug(heading: str) -> str:
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, _, anchor in re.findall(r"\]\(([^)#:\s]*)(#([^)]*))?\)", text):
        file = document.parent / target if target else document
        assert file.exists(), f"{document.name} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{document.name} links to {target}#{anchor}"


def test_an_anchor_that_is_not_there_is_noticed() -> None:
    assert "my-loss-is-negative" in anchors(DOCS / "failures.md")
    assert "my-loss-is-positive" not in anchors(DOCS / "failures.md")


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    folders = script(DOCS / "hooks.py").FOLDERS.values()
    for page in DOCS.rglob("*.md"):
        place = page.relative_to(DOCS)
        assert str(place) in menu or place.parts[0] in folders, place


PROSE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "src", "studies", "tools",
         "benchmarks", "examples")  # fmt: skip
"""Where words are ours and meant to be right."""


def misspelt(*places: str) -> str:
    codespell = pytest.importorskip("codespell_lib").__name__
    done = subprocess.run(
        [sys.executable, "-m", codespell, "--toml", "pyproject.toml", *places],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 65), done.stderr
    return done.stdout


def test_words_are_spelt_as_they_should_be() -> None:
    assert misspelt(*PROSE) == ""


def test_a_misspelt_word_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("The labels that are mis" + "isng.\n")
    assert "missing" in misspelt(str(tmp_path))


def test_the_linter_looks_for_the_same_words() -> None:
    assert f"codespell {' '.join(PROSE)}" in (ROOT / "Makefile").read_text(encoding="utf-8")


# Tables and the reference


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if "<!-- table" in d.read_text(encoding="utf-8")], ids=name
)
def test_tables_are_those_of_the_registries(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert script(DOCS / "generate.py").filled(text) == text, "run `make tables`"


def test_every_table_is_asked_for() -> None:
    asked = {
        table
        for document in DOCUMENTS
        for table in re.findall(r"<!-- table: ([\w-]+) -->", document.read_text(encoding="utf-8"))
    }
    assert asked == script(DOCS / "generate.py").TABLES.keys()


def test_speed_in_the_readme_is_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = script(DOCS / "generate.py")
    table = generate.RESULTS.read_text(encoding="utf-8")
    (tmp_path / "results.csv").write_text(re.sub(r"(pyxclib / ours\"),[^,]*", r"\1,43.21", table))
    monkeypatch.setattr(generate, "RESULTS", tmp_path / "results.csv")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "43 × faster than pyxclib" not in text
    assert "43 × faster than pyxclib" in generate.filled(text)


def test_messages_that_are_explained_are_those_of_the_source() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", sources)  # texts that go on in the next line
    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert len(messages) > 5
    for message in messages:
        assert all(part in source for part in re.findall(r"`(.*?)`", message)), message


@pytest.mark.parametrize("name", ["generate", "doctests", "command_pages", "hooks"])
def test_examples_in_the_scripts_of_the_documents_hold(name: str) -> None:
    pytest.importorskip("griffe") if name == "doctests" else None
    result = doctest.testmod(script(DOCS / f"{name}.py"))
    assert result.attempted > 0
    assert result.failed == 0


def test_advice_on_estimators_names_estimators_that_can_do_it() -> None:
    """Every line of the decision table: each estimator named estimates each metric named."""
    from unmask.metrics import ESTIMATORS, METRICS, supported

    page = (DOCS / "estimators.md").read_text(encoding="utf-8")
    lines = [line.split("|")[1:3] for line in page.splitlines() if line.count("|") == 4]
    checked = 0
    for situation, use in lines:
        metrics = [m for m in re.findall(r"([\w-]+)@k", situation) if m in METRICS]
        for estimator in re.findall(r"`(\w+)`", use):
            if estimator in ESTIMATORS:
                assert all(estimator in supported(metric) for metric in metrics), situation
                checked += len(metrics)
    assert checked > 8


def public() -> Iterator[tuple[str, Any]]:
    """Every name that the package and its modules export, with what it names."""
    for module_name in unmask.__all__:
        module = getattr(unmask, module_name)
        if isinstance(module, ModuleType):
            own = [
                n
                for n, v in vars(module).items()
                if getattr(v, "__module__", "") == module.__name__
            ]
            for each in getattr(module, "__all__", [n for n in own if not n.startswith("_")]):
                yield f"{module.__name__}.{each}", getattr(module, each)


def test_every_public_function_and_class_is_documented() -> None:
    found = dict(public())
    assert len(found) > 150
    for full_name, value in found.items():
        if inspect.isfunction(value) or inspect.isclass(value):
            words = (value.__doc__ or "").strip()
            generated = words.startswith(f"{value.__name__}(")  # what dataclass writes
            assert words, full_name
            assert not generated, full_name


def test_every_public_module_is_in_the_reference() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    for full_name, value in public():
        module, _, each = full_name.rpartition(".")
        assert f"::: {module}\n" in page, module
        if each in {
            m.name for m in pkgutil.iter_modules(getattr(import_module(module), "__path__", []))
        }:
            place = full_name if isinstance(value, ModuleType) else f"{full_name}.{each}"
            assert f"::: {place}\n" in page, f"{place}: a module hides the name"


def in_reference() -> dict[str, Callable[..., object]]:
    """The functions and classes that docs/api.md shows, by full name."""
    named = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    shown: dict[str, object] = {}
    for each in named:
        value = pkgutil.resolve_name(each)
        if isinstance(value, ModuleType):
            own = [n for n, v in vars(value).items() if getattr(v, "__module__", "") == each]
            names = getattr(value, "__all__", [n for n in own if not n.startswith("_")])
            shown |= {f"{each}.{n}": getattr(value, n) for n in names}
        else:
            shown[each] = value
    return {n: v for n, v in shown.items() if inspect.isfunction(v) or inspect.isclass(v)}


def missing_in_docstring(value: Callable[..., object]) -> list[str]:
    """Parameters that a docstring does not name, and sections that it lacks.

    Everything has an example, and what can refuse its arguments says when. Fields of a named tuple
    are attributes: the reference knows no parameters of it. What a function returns may describe
    its fields as attributes too.
    """
    parts = re.split(r"^([A-Z]\w+)\n-+\n", inspect.getdoc(value) or "", flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    lacking = [] if ">>> " in sections.get("Examples", "") else ["Examples"]
    if inspect.isfunction(value) and "Raises" not in sections and can_refuse(value):
        lacking.append("Raises")
    if inspect.isclass(value) and (
        issubclass(value, Enum | Exception | Warning | np.ndarray)
        or getattr(value, "_is_protocol", False)
    ):
        return lacking
    described = sections.get("Parameters", "") * (not hasattr(value, "_fields"))
    described += sections.get("Attributes", "") * inspect.isclass(value)  # of what is only returned
    lines = re.findall(r"^([*\w][*\w, ]*?)(?: :.*)?$", described, re.MULTILINE)
    named = {each.strip(" *") for line in lines for each in line.split(",")}
    signature = inspect.signature(value)
    missing = [each for each in signature.parameters if each not in named]
    returns = inspect.isfunction(value) and signature.return_annotation not in ("None", None)
    if returns and not sections.keys() & {"Returns", "Yields"}:
        missing.append("Returns")
    return missing + lacking


@pytest.mark.parametrize("name", in_reference())
def test_docstrings_name_every_parameter_and_what_is_returned(name: str) -> None:
    assert missing_in_docstring(in_reference()[name]) == []


def test_incomplete_docstrings_are_noticed() -> None:
    def add(left: int, right: int, **options: int) -> int:
        """Add.

        Parameters
        ----------
        left : int
            More about it: right.
        **options
        """
        return left + right

    assert missing_in_docstring(add) == ["right", "Returns", "Examples"]
    assert len(in_reference()) > 150


def test_what_can_refuse_its_arguments_is_recognised() -> None:
    assert can_refuse(unmask.propensity.jain_curve)  # raises itself
    assert can_refuse(unmask.metrics.jain_grid)  # through `arrays.checks`
    assert can_refuse(unmask.weights.Weights)  # when it is made
    assert not can_refuse(unmask.propensity.source_of)
    assert not can_refuse(unmask.metrics.reference.recall)


def test_every_function_named_in_the_maths_exists() -> None:
    page = (DOCS / "maths.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(unmask(?:\.\w+)+)`", page))
    assert len(named) > 10
    for each in named:
        pkgutil.resolve_name(each)


def test_the_link_check_of_the_site_can_fail(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">1</a> <a href="b.html#gone">2</a>')
    (tmp_path / "b.html").write_text('<p id="here"><a href="c.html">3</a> <a href="#here">4</a>')
    found = sorted(script(DOCS / "check.py").broken_links(tmp_path))
    assert found == [
        "a.html: b.html#gone has no such anchor",
        "b.html: c.html does not exist",
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_pictures_are_described_in_at_most_two_sentences(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for words in re.findall(r"!\[((?:\\.|[^\]\\])*)\]\(", text):
        assert 1 <= len(re.split(r"(?<=[.!?])\s+", words)) <= 2, words


def test_the_tracked_tree_stays_small() -> None:
    """Rows are packed: generated files are under 2.1 MB in 130, all under 9.5 MB in 975."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    files = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    sizes = [file.lstat().st_size for file in files if file.exists()]
    assert len(sizes) < 975
    assert sum(sizes) < 9_500_000
    generated = [file.lstat().st_size for file in files if DOCS / "results" in file.parents]
    assert len(generated) < 130
    assert sum(generated) < 2_100_000


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    build = ["-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml")]
    for arguments in ([*build, "-d", str(tmp_path)], [str(DOCS / "check.py"), str(tmp_path)]):
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
