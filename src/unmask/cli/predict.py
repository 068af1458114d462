"""`unmask predict`: the best labels of every row, by a model of `unmask train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.cli.inputs import features_of, read, with_judgements
from unmask.cli.output import progress_console
from unmask.cli.train import RANKED_BY

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._typing import Floats
    from unmask.data import Dataset
    from unmask.linear import LinearModel
    from unmask.tree import TreeModel

ModelFolder = Annotated[
    Path, typer.Argument(help="Folder that `unmask train` made.", callback=options.existing)
]
SEARCH = options.Defaults("unmask.tree.predict_top")


def predict(
    model: ModelFolder,
    source: options.Source,
    output: options.Output,
    columns: options.Texts,
    cluster: options.Cluster,
    running: options.Running,
    k: int = 5,
    judgements: options.Judgements = None,
    rank_by: str | None = None,
    propensity: Path | None = None,
    beam: int = SEARCH.beam,
) -> None:
    """Write the best k labels of every row to a file.

    Into .csv, .tsv, .jsonl and .parquet as a table id, label, score with names; into other files as
    label:score with numbers. Names are written as they are, so that they can be read back: a
    spreadsheet may take one for a formula.

    [dim]unmask predict model test.txt.gz -o predictions.txt --k 5[/]
    [dim]unmask predict model new.csv --id id --text text -o predictions.csv[/]

    Options
    -------
    k
        Labels per row.
    rank_by
        score, or probability/propensity; default: as the model was tuned, else score.
    propensity
        Propensity file, for probability/propensity.
    beam
        Leaf nodes of a tree that a row keeps.
    """
    from unmask import linear, predictions, tree
    from unmask import models as kinds
    from unmask import propensity as models
    from unmask.files import is_standard_output

    backend = cluster.backend
    loaded = kinds.load(model)
    grown = loaded if isinstance(loaded, tree.TreeModel) else None
    rows = with_judgements(read(source, columns), judgements)
    ignored = None if rows.judgements is None else rows.after_judgements.ignored
    most = 0 if ignored is None else int((ignored.indptr[1:] - ignored.indptr[:-1]).max(initial=0))
    features = features_for(loaded, rows, source)
    if rank_by is None:
        rank_by = "score" if grown is not None else str(loaded.parameters.get("rank_by", "score"))
    if rank_by != "score" and propensity is None and (model / RANKED_BY).exists():
        propensity = model / RANKED_BY
    p = None if propensity is None else models.read(propensity)
    with progress_console.status(f"predicting {features.shape[0]:,} rows"):
        places = min(k + most, loaded.n_labels)
        if grown is not None and backend is not None:
            raise ValueError("label trees predict on this machine; leave --scheduler out.")
        if grown is not None:
            top = tree.predict_top(
                grown, features, places, rank_by=rank_by, propensity=p, beam=beam
            )
        else:
            top = linear.predict_top(
                loaded if backend is None else model,  # workers that see the folder map it
                features, places, rank_by=rank_by, propensity=p, backend=backend,
            )  # fmt: skip
        if backend is not None and grown is None:
            _refuse_replaced(model, loaded.idf)
    if ignored is not None:
        top = top.without(ignored).first(k)
    top = top if rows.ids is None else top.named(ids=rows.ids)
    predictions.write(output, top)
    if is_standard_output(output):
        return
    facts = {"rows": len(top.labels), "labels per row": top.k, "written to": str(output)}
    if ignored is not None:
        facts["ignored pairs left out"] = ignored.nnz
    running.show("predicted", facts)


def features_for(model: LinearModel | TreeModel, rows: Dataset, source: Path) -> sp.csr_array:
    """Return the features that the model takes, of counts or texts."""
    from unmask import data, linear

    if model.vocabulary is not None:
        if rows.texts is None:
            raise ValueError(
                f"the model was trained on texts: name the column of texts in {source} with --text."
            )
        return linear.text_features(model, rows.texts)
    features = features_of(rows, source)
    return features if model.idf is None else data.tfidf(features, model.idf)


def _refuse_replaced(folder: Path, idf: Floats | None) -> None:
    """Raise if the folder has another model by now, with other word weights than were used."""
    import numpy as np

    from unmask import linear

    current = linear.load(folder, verify=False).idf
    if not np.array_equal(np.asarray(current), np.asarray(idf)):
        raise ValueError(f"the model in {folder} was replaced in the meantime; predict again.")
