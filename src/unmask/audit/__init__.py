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

from unmask.audit.answers import (
    Agreement,
    Answer,
    Answers,
    Contradiction,
    PairAgreement,
    from_pairs,
    from_rows,
    read,
)
from unmask.audit.designs import data_fingerprint
from unmask.audit.expectation import Expected
from unmask.audit.folders import AuditFolder, add_answers, read_folder, write_folder
from unmask.audit.planning import (
    AuditPlan,
    Wave,
    extend,
    plan,
    read_plan,
    write_plan,
)
from unmask.audit.sheets import (
    FORMATS,
    Question,
    Sheet,
    label_studio_config,
    plan_key,
    sheet,
    write_sheet,
)
from unmask.audit.stopping import ConfidenceSequence, Elusion, Reached, elusion, reached, sequence
from unmask.data.judgements import Design, Judgements, Sample, Stratum
from unmask.metrics.measured import LabelEstimates, SpuriousRate, label_estimates, spurious

__all__ = [
    "FORMATS",
    "Agreement",
    "Answer",
    "Answers",
    "AuditFolder",
    "AuditPlan",
    "ConfidenceSequence",
    "Contradiction",
    "Design",
    "Elusion",
    "Expected",
    "Judgements",
    "LabelEstimates",
    "PairAgreement",
    "Question",
    "Reached",
    "Sample",
    "Sheet",
    "SpuriousRate",
    "Stratum",
    "Wave",
    "add_answers",
    "data_fingerprint",
    "elusion",
    "extend",
    "from_pairs",
    "from_rows",
    "label_estimates",
    "label_studio_config",
    "plan",
    "plan_key",
    "reached",
    "read",
    "read_folder",
    "read_plan",
    "sequence",
    "sheet",
    "spurious",
    "write_folder",
    "write_plan",
    "write_sheet",
]
