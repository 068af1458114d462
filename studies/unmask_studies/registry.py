"""All studies by name."""

from unmask_studies import (
    audit,
    audit_plan,
    diagnosis_power,
    encoder,
    false_trust,
    interval_coverage,
    masks,
    missing_labels,
    pair_coverage,
    propensity_recovery,
    reality,
    recall_histograms,
    recall_simulation,
    recall_table,
    recall_toy,
    recall_truth,
    sets,
    training,
    tree,
    tuning,
    variance,
)
from unmask_studies.runs import Study

_ALL = (
    module.STUDY
    for module in (
        recall_toy,
        recall_simulation,
        recall_table,
        recall_histograms,
        recall_truth,
        variance,
        propensity_recovery,
        diagnosis_power,
        false_trust,
        masks,
        missing_labels,
        interval_coverage,
        audit_plan,
        audit,
        pair_coverage,
        reality,
        sets,
        training,
        tuning,
        tree,
        encoder,
    )
)
STUDIES: dict[str, Study] = {study.name: study for study in (*_ALL, training.ON_NEWS)}
