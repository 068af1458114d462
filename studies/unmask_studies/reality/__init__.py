"""Reality: every promise put to labels that people really left out.

For each pair of incomplete and complete labels, models are trained on the observed labels and
evaluated on the observed test labels, in every way that the library offers; the truth stands beside
each number. Read on in `pairs` (the data), `systems` (the models), `estimates` (numbers and their
levels), `training` and `findings` (what corrections and the search for missing labels are worth),
and `drawing` (what it comes to).
"""

from unmask_studies.reality.drawing import draw
from unmask_studies.reality.study import measure, units
from unmask_studies.runs import Study

STUDY = Study("reality", "labels that people really left out", units, measure, draw)
