"""The page of the study: what was done, what the paper says, what is new; numbers from rows."""

from __future__ import annotations

from pathlib import Path

from unmask import report
from unmask_studies.runs import Row, rows_file
from unmask_studies.training import figures, statements, tables
from unmask_studies.training.protocol import BATCH, METRICS, PAPER_STEPS, PROBLEMS, rate_for
from unmask_studies.training.results import Results, collect
from unmask_studies.training.study import SIZES, units

PLAIN = ("clean", "vanilla", "unbiased", "bound")
NORMALISED = ("vanilla", "unbiased", "pretrained", "empirical_bayes")


def draw(rows: list[Row]) -> list[report.Section]:
    """All sections for which there are rows."""
    results = collect(rows)
    sections: dict[str, list[report.Part | None]] = {
        "What training gets back": [figures.recovered(results)],
        "How claims are judged": _verdicts(results, rows),
        "Protocol": _protocol(results, rows),
        "Overfitting to the sample and to the noise pattern": [
            figures.gaps(results, "ova-bce", PLAIN),
            figures.gaps(results, "ova-n-bce", NORMALISED),
        ],
        "Loss over regularisation": [
            figures.loss_over_l2(results, "adam"),
            figures.loss_over_l2(results, "converged"),
        ],
        "Precision and recall over regularisation": _over_l2(results),
        "At the chosen regularisation": _chosen(results),
        "Normalised losses": _normalised(results),
        "Related work, and correction after training": [
            tables.related(results),
            tables.processed(results),
        ],
        "Which objectives have a minimum": [tables.endings(rows)],
    }
    kept = {
        title: [part for part in parts if part is not None and _has_rows(part)]
        for title, parts in sections.items()
    }
    return [report.Section(title, parts) for title, parts in kept.items() if parts]


def _has_rows(part: report.Part) -> bool:
    return not isinstance(part, report.Table) or bool(part.rows)


def _verdicts(results: Results, rows: list[Row]) -> list[report.Part | None]:
    claims = [
        *statements.papers(results),
        *statements.local_minima(results, rows),
        *statements.ours(results),
    ]
    tested = [claim for claim in claims if claim.level != "info"]
    untested = [claim for claim in claims if claim.level == "info"]
    return [
        report.Verdicts(tested) if tested else None,
        report.Text(
            "Better means beyond the spread: the mean of the differences, repetition by repetition "
            "with the same split and masks, exceeds their standard deviation. Effects are these "
            "means with 95 % intervals (Student's t over repetitions); a claim can hold although "
            "its interval touches 0. The first claims are the paper's, with its optimiser (Adam) "
            "and its rule (l2 by the unbiased loss); those about empirical Bayes, halved and "
            "ranked are ours, with the converged solver and l2 chosen by deconvolved R@5."
        ),
        tables.in_short(results),
        report.Table(
            ["claim", "what there is"], [[claim.words, claim.evidence] for claim in untested],
            title="Claims that these runs cannot test",
        ),
    ]  # fmt: skip


def _protocol(results: Results, rows: list[Row]) -> list[report.Part | None]:
    sized = next((row for row in rows if "n_train" in row), None)
    if sized is None:
        return []
    steps = -(-sized["n_train"] // BATCH)
    repetitions = len({row["repetition"] for row in rows})
    grid = PROBLEMS["ova-bce"].grid(SIZES[sized["size"]].steps)
    about = (
        f"Data: {sized['folder'] or 'planted rows'}, the 100 most frequent labels, 1/p linear from "
        "2 (most frequent) to 20; labels hidden in all three parts; "
        f"{repetitions} repetitions, each with its own split and masks. A linear model with a "
        "bias; the mean over rows of the loss (a sum over labels) plus (l2/2)‖W‖², the bias "
        f"outside; {len(grid)} values of l2 from {grid[0]:.0e} to {grid[-1]:.0e}, 25 times as "
        "large for squared hinge.\n\n"
        "Settings: a) vanilla on clean labels; b) vanilla, c) unbiased (exact normalised weights), "
        "d) bound, on observed labels; c') unbiased after ten epochs of vanilla training; e) "
        "empirical Bayes; f) tempered, τ = 1/2; g) halved: empirical-Bayes weights times √p in "
        "training, labels ranked by probability / √p.\n\n"
        "Adam: batches of 512, 15 epochs, then five at a tenth of the rate. The paper's rate of "
        f"1e-4 belongs to {PAPER_STEPS:,} steps an epoch; here an epoch has {steps}, so the rate "
        f"is {rate_for(sized['n_train']):.2g}, which keeps steps × rate, the distance that a "
        "weight can move. At 1e-4 the model stays untrained, as the table shows. Converged: the "
        "truncated Newton solver of `unmask.linear`, for the convex cases and l2 above 1e-6. All "
        f"rows: `rows/{rows_file(Path(), 'training', sized['size'])}`."
    )
    facts = {
        "training rows": sized["n_train"],
        "validation rows": sized["n_valid"],
        "test rows": sized["n_test"],
        "features": sized["n_features"],
        "runs": len(rows),
    }
    chosen = {row["problem"] for row in rows}
    planned = [u for u in units(sized["size"], 0, None) if u["problem"] in chosen]
    return [
        report.Text(about),
        report.Facts(facts),
        tables.coverage(rows, planned),
        tables.literal_rate(results, rows),
    ]


def _over_l2(results: Results) -> list[report.Part | None]:
    precision = ("P@1", "P@3", "P@5")
    return [
        figures.metric_over_l2(results, "adam", "ova-bce", precision),
        figures.metric_over_l2(results, "adam", "ova-n-bce", precision),
        figures.recall_over_l2(results, "adam"),
        figures.recall_over_l2(results, "converged"),
    ]


def _chosen(results: Results) -> list[report.Part | None]:
    return [
        *(
            figures.at_chosen(results, optimizer, rule, metrics)
            for optimizer, rule in (("adam", "loss"), ("converged", "recall"))
            for metrics in (METRICS[:3], METRICS[3:])
        ),
        tables.at_chosen(results, "adam", "loss"),
        tables.at_chosen(results, "adam", "recall"),
        tables.at_chosen(results, "converged", "loss"),
        tables.at_chosen(results, "converged", "recall"),
    ]


def _normalised(results: Results) -> list[report.Part | None]:
    pairs = [
        ((optimizer, problem, better), (optimizer, problem, other))
        for optimizer in ("converged", "adam")
        for problem in ("pal-n-cce", "ova-n-bce")
        for better, others in (
            ("empirical_bayes", ("vanilla", "unbiased", "bound", "tempered")),
            ("halved", ("vanilla", "bound", "empirical_bayes")),
        )
        for other in others
    ]
    return [
        tables.gains(results, pairs, "recall", "Differences in true test recall, l2 by recall"),
        tables.ablations_table(results),
        tables.minima(results),
    ]
