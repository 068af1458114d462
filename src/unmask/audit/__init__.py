"""Audits: what to judge, what the answers say, and when there are enough of them.

    plan = audit.plan(top, labels, budget=200, unit="rows", seed=0)
    judged = audit.from_rows(plan, true_labels_of_the_planned_rows)
    table = evaluate(top, labels, metrics=["P@5", "R@5"], audit=judged)

An audit is a mask that we know: inclusion probabilities are ours, so its estimates are *measured*
and assume nothing of what hid the labels. Read on in `planning` (plans), `designs` (strata, and how
samples are drawn), `expectation` (how precise it will be), `sheets` (what a person is shown),
`answers` (what comes back, several people joined, how far they agree), `folders` (an audit on disk)
and `stopping` (when it is enough); the estimates are those of `unmask.metrics.measured`.
"""

from unmask.audit.answers import Answer, Answers, from_pairs, from_rows, read
from unmask.audit.designs import data_fingerprint
from unmask.audit.folders import AuditFolder, add_answers, read_folder, write_folder
from unmask.audit.planning import AuditPlan, extend, plan
from unmask.audit.sheets import FORMATS, Question, Sheet, sheet, write_sheet
from unmask.audit.stopping import elusion, reached, sequence
from unmask.data.judgements import Design, Judgements, Sample, Stratum
from unmask.metrics.measured import label_estimates, spurious

__all__ = [
    "FORMATS",
    "Answer",
    "Answers",
    "AuditFolder",
    "AuditPlan",
    "Design",
    "Judgements",
    "Question",
    "Sample",
    "Sheet",
    "Stratum",
    "add_answers",
    "data_fingerprint",
    "elusion",
    "extend",
    "from_pairs",
    "from_rows",
    "label_estimates",
    "plan",
    "reached",
    "read",
    "read_folder",
    "sequence",
    "sheet",
    "spurious",
    "write_folder",
    "write_sheet",
]
