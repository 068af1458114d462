"""An audit's folder holds one whole audit, whatever happens while it is written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.audits import universe
from unmask import audit
from unmask.audit import Answer, Answers

TOP, OBSERVED, _ = universe()


def failing(real: Callable[..., Any], fault: int, *, after: bool) -> Callable[..., Any]:
    """The function, whose call number `fault` ends as on a full disk, before or after its work."""
    calls = iter(range(1000))

    def call(*arguments: Any, **named: Any) -> Any:
        mine = next(calls) == fault
        if mine and not after:
            raise OSError(errno.ENOSPC, "No space left on device")
        result = real(*arguments, **named)
        if mine:
            raise OSError(errno.ENOSPC, "No space left on device")
        return result

    return call


def interrupted(calls: str, fault: int, after: bool, write: Callable[[], object]) -> bool:
    """Whether writing failed at this call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, calls, failing(getattr(os, calls), fault, after=after))
        try:
            write()
        except OSError:
            return True
    return False


def test_whatever_interrupts_writing_leaves_the_old_audit_or_the_new_one(tmp_path: Path) -> None:
    for name in ("labels.txt", "top.txt"):
        (tmp_path / name).write_text(name)
    files: Any = {"labels": tmp_path / "labels.txt", "predictions": [tmp_path / "top.txt"]}
    first = audit.plan(TOP, OBSERVED, budget=20, seed=0, expect=False)
    more = audit.extend(first, TOP, OBSERVED, budget=20, seed=1)
    said = {0: Answer("complete", (1,), ("not in the list",)), 1: Answer("unsure")}
    faults = dict.fromkeys(("mkdir", "open", "fsync", "replace"), 0)
    for calls in faults:
        for after in (False, True):
            for fault in range(30):
                folder = tmp_path / f"{calls}-{after}-{fault}"

                def write(plan: audit.AuditPlan, folder: Path = folder) -> audit.AuditFolder:
                    return audit.write_folder(folder, plan, audit.sheet(plan), **files)

                new = interrupted(calls, fault, after, partial(write, first))
                if (folder / "plan.json").exists():
                    assert len(audit.read_folder(folder).plan) == 20
                begun = write(first)
                answers = Answers(begun.sheet, {"ann": said})
                audit.add_answers(begun, answers)
                wave = interrupted(calls, fault, after, partial(write, more))
                read = audit.read_folder(folder)
                assert len(read.plan) == len(read.sheet.questions)
                assert len(read.plan) in (20, 40)
                assert dict(read.answers.by_annotator["ann"]) == said
                write(more)
                assert len(audit.read_folder(folder).plan) == 40
                faults[calls] += new + wave
                if not new and not wave:
                    break
    assert min(faults.values()) > 0, "every kind of call was made, and failed"


def test_a_wave_is_drawn_once(tmp_path: Path) -> None:
    first = audit.plan(TOP, OBSERVED, budget=20, seed=0, expect=False)
    more = audit.extend(first, TOP, OBSERVED, budget=20, seed=1)
    for plan, seed in ((first, 0), (more, 0), (more, 1)):
        with pytest.raises(ValueError, match=f"a wave of seed {seed} already, {len(plan)} rows"):
            audit.extend(plan, TOP, OBSERVED, budget=20, seed=seed)


def test_questions_and_plan_are_of_one_audit(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").touch()
    files: Any = {"labels": tmp_path / "labels.txt", "predictions": []}
    first = audit.plan(TOP, OBSERVED, budget=20, seed=0, expect=False)
    more = audit.extend(first, TOP, OBSERVED, budget=20, seed=1)
    other = audit.plan(TOP, OBSERVED, budget=20, seed=2, expect=False)
    for plan, sheet in ((first, more), (more, first), (first, other)):
        with pytest.raises(ValueError, match="questions of another plan"):
            audit.write_folder(tmp_path / "audit", plan, audit.sheet(sheet), **files)
    audit.write_folder(tmp_path / "audit", first, audit.sheet(first), **files)
    with pytest.raises(ValueError, match="holds another audit"):
        audit.write_folder(tmp_path / "audit", other, audit.sheet(other), **files)
