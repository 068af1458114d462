"""An encoder with a random start, trained on what is left of the labels: what corrections give it.

`study` has the work, the rows and the drawing; `network` trains. Only `network` imports torch, and
only when a unit is measured.
"""

from unmask_studies.encoder.study import STUDY

__all__ = ["STUDY"]
