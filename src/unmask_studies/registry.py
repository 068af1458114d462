"""All studies by name."""

from unmask_studies import (
    audit,
    audit_plan,
    diagnosis_power,
    false_trust,
    interval_coverage,
    masks,
    propensity_recovery,
    recall_histograms,
    recall_simulation,
    recall_table,
    recall_toy,
    recall_truth,
    training,
    variance,
)
from unmask_studies.runs import Study

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
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
        interval_coverage,
        audit_plan,
        audit,
        training,
    )
}
