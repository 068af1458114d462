"""Small audits: plans of both units with names and texts, and judges who answer from the truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import audit, data, missing
from unmask.predictions import TopK

N, L = 120, 9
NAMES = tuple(f"label {j}" for j in range(L))
IDS = tuple(f"doc-{i}" for i in range(N))


def universe() -> tuple[TopK, sp.csr_array, sp.csr_array]:
    """Predictions, observed labels, true labels."""
    truth = data.synthetic.planted(N, n_features=30, n_labels=L, seed=0).labels
    observed = data.hide(truth, np.full(L, 0.6), seed=1)
    noise = np.random.default_rng(2).random((N, L))
    return TopK.from_scores(truth.toarray() + noise, 5), observed, truth


def asked(unit: str, *, budget: int = 20) -> tuple[audit.AuditPlan, audit.Sheet, sp.csr_array]:
    """A plan, its sheet with names and texts, and the truth."""
    top, observed, truth = universe()
    plan = audit.plan(top, observed, budget=budget, unit=unit, seed=3)
    texts = [f"Text of {name}.\nSecond line." for name in IDS]
    return plan, audit.sheet(plan, ids=IDS, label_names=NAMES, texts=texts), truth


def true_words(sheet: audit.Sheet, truth: sp.csr_array) -> list[str]:
    """What is right for every pair of a sheet."""
    dense = truth.toarray()
    return ["yes" if dense[q.row, q.label] else "no" for q in sheet.questions]


def true_numbers(sheet: audit.Sheet, truth: sp.csr_array) -> list[list[int]]:
    """The labels of every row of a sheet."""
    return [truth.indices[truth.indptr[q.row] : truth.indptr[q.row + 1]].tolist()
            for q in sheet.questions]  # fmt: skip


def csv_of(sheet: audit.Sheet, words: list[str], path: Path) -> Path:
    """A filled-in sheet of pairs, without names."""
    lines = [f"{q.id},{word}" for q, word in zip(sheet.questions, words, strict=True)]
    path.write_text("\n".join(["question,answer", *lines, ""]))
    return path


def judge(folder: str, truth: sp.csr_array, path: str) -> None:
    """Answer all rows of an audit's folder from the truth, as the page saves it."""
    sheet = audit.read_folder(folder).sheet
    answers = [
        {"question": question.id, "labels": own, "complete": True}
        for question, own in zip(sheet.questions, true_numbers(sheet, truth), strict=True)
    ]
    record = {"kind": "answers", "key": sheet.key, "annotator": "ann", "answers": answers}
    Path(path).write_text(json.dumps(record))


def confirm(review: str, path: str) -> None:
    """Say yes to everything that `unmask missing` found, as the page saves it."""
    sheet = missing.read_review(review).sheet
    answers = [{"question": question.id, "answer": "yes"} for question in sheet.questions]
    record = {"kind": "answers", "key": sheet.key, "annotator": "ann", "answers": answers}
    Path(path).write_text(json.dumps(record))
