"""What the documents say runs."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    "document",
    [d for d in DOCUMENTS if blocks(d, "python")],
    ids=lambda d: str(d.relative_to(ROOT)),
)
def test_python_examples_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks of a page, one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "example"}
    for block in blocks(document, "python"):
        exec(compile(block, str(document), "exec"), namespace)  # noqa: S102


def test_ci_runs_the_readme_command() -> None:
    """CI must try what the README promises, to the letter."""
    (command,) = (b.strip() for b in blocks(ROOT / "README.md", "bash") if "pytest" in b)
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_function_named_in_the_maths_exists() -> None:
    page = (ROOT / "docs" / "maths.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(unmask(?:\.\w+)+)`", page))
    assert len(named) > 10
    for name in named:
        pkgutil.resolve_name(name)
