"""The tutorials: every cell runs, and the pages hold what the scripts print."""

from __future__ import annotations

import doctest
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import unmask
from tests.helpers.paths import ROOT
from tests.helpers.versions import PINNED
from unmask import pages

FOLDER = ROOT / "docs" / "tutorials"
SCRIPTS = sorted(FOLDER.glob("*.py"))
READERS = {
    "cleaning_tags",
    "extreme_classification",
    "gene_functions",
    "medical_codes",
    "subject_indexing",
    "torch_shortlists",
    "user_items",
}

TRAINING = {"torch_shortlists"}
"""Two minutes of processor time each: a network is trained several times over."""


def _pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "tutorial_pages", FOLDER.parent / "tutorial_pages.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


PAGES = _pages()


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(each, marks=pytest.mark.slow) if each.stem in TRAINING else each
        for each in SCRIPTS
    ],
    ids=lambda path: path.stem,
)
def test_a_page_holds_what_its_script_prints(script: Path) -> None:
    made = PAGES.page(script)
    if not PINNED:
        pytest.skip("it runs; the numbers of its page are those of the versions in constraints.txt")
    assert made.text == script.with_suffix(".md").read_text(encoding="utf-8"), (
        f"run `python docs/generate.py --tutorials {script.stem}`"
    )
    assert made.drawings
    pictures = {str(path.relative_to(FOLDER)) for path in (FOLDER / script.stem).glob("*.svg")}
    assert pictures == made.drawings.keys()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_tutorial_says_for_whom_it_is_and_how_to_use_it(script: Path) -> None:
    cells = PAGES.cells(script.read_text(encoding="utf-8"))
    assert cells[0].kind == PAGES.PROSE
    assert cells[0].text.startswith("# ")
    assert "**For** " in cells[0].text
    assert "**At" in cells[0].text
    assert any(cell.kind == PAGES.DATA for cell in cells)
    assert cells[-1].text.startswith("## With your own data\n")
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"tutorials/{script.stem}.md" in menu


def test_every_reader_has_a_tutorial() -> None:
    assert {script.stem for script in SCRIPTS} == READERS
    assert {page.stem for page in FOLDER.glob("*.md")} == READERS


def test_examples_of_the_renderer_hold() -> None:
    result = doctest.testmod(PAGES)
    assert result.attempted > 0
    assert result.failed == 0


def test_what_cells_print_and_draw_stands_below_them(tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text(
        "# %% [markdown]\n# # Small\n\n"
        '# %% tags=["data"]\nfrom unmask import pages\n\nx = 2\n\n'
        '# %%\nprint(x + 1)\npages.Chart("dots", [pages.Series("a", ["b"], [1.0])])\n\n'
        '# %% language="bash"\n# unmask --version\n'
    )
    made = PAGES.page(script)
    assert made.text.startswith('# Small\n\n<details markdown="1"><summary>')
    assert made.drawings.keys() == {"small/1.svg"}
    assert isinstance(made.drawings["small/1.svg"], pages.Chart)
    assert "\n```text\n3\n```\n\n![Dot plot" in made.text
    assert "](small/1.svg)\n\n```bash\nunmask --version\n```\n\n```text\n" in made.text
    assert f"{unmask.__version__}\n```\n\n*The whole script" in made.text
    assert not list(tmp_path.glob("*.md"))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1\n", "begins with a cell"),
        ("# %% [raw]\n# x\n", "a cell is one of"),
        ('# %% language="bash"\n# rm -r x\n', "a command is"),
        ('# %% language="bash"\n# unmask info no-such-file.txt\n', "ended with the code 2"),
    ],
)
def test_what_is_no_tutorial_is_refused(source: str, words: str, tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(source)
    with pytest.raises(ValueError, match=words):
        PAGES.page(script)


def test_a_cell_that_fails_fails_the_page(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text("# %%\nassert 1 > 2\n")
    before = Path.cwd()
    with pytest.raises(AssertionError):
        PAGES.page(script)
    assert Path.cwd() == before
