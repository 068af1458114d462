"""`unmask demo`: what missing labels do, on data whose truth is known."""

from __future__ import annotations

from dataclasses import asdict

from unmask.cli import options
from unmask.cli.output import results, say, show_json, show_rows


def demo(seed: options.Seed = 0, as_json: options.Json = False) -> None:
    """Make data with known truth, hide labels, and show what is lost. Needs no download.

    [dim]unmask demo[/]
    """
    from unmask.experiments import demo as study

    found = study.run(seed=seed)
    if as_json:
        show_json(asdict(found))
        return
    show_rows(
        f"{say(found.n)} rows, {say(found.n_labels)} labels, hidden with Jain propensities",
        ["labels by frequency", "labels", "mean p", "true entries", "observed", "lost"],
        (
            (b.name, b.labels, b.propensity, b.true, b.observed, f"{b.lost:.0%}")
            for b in (*found.bands, found.total)
        ),
    )
    frequent, rare = found.bands[0], found.bands[-1]
    results.print(
        f"A label of the {frequent.name} is seen in {1 - frequent.lost:.0%} of its rows, "
        f"one of the {rare.name} in {1 - rare.lost:.0%}.\n"
        f"{say(found.empty_rows)} of {say(found.n)} rows lost all their labels.\n"
        "Nothing in the observed data marks the gaps:\n"
        "a model trained on them learns that rare labels do not apply."
    )
