"""A propensity model as a value: its name, its parameters, and the propensities it states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike

from unmask import _validation
from unmask._typing import Floats
from unmask.propensity.source import Source


@dataclass(frozen=True, eq=False)
class PropensityModel:
    """Propensities with the name and the parameters of the model that states them.

    It can stand wherever propensities can, since numpy reads its values.

    Parameters
    ----------
    name : str
        For people, such as "a = 0.55, b = 1.5"; nothing is read from it.
    values : (L,) floats in (0, 1]
        One propensity per label.
    parameters : mapping of str to float, optional
        The numbers that tell models of one family apart, such as {"a": 0.55, "b": 1.5}.
    source : Source, optional
        Where the propensities come from; by default they are stated.

    Raises
    ------
    ValueError
        If a propensity lies outside (0, 1].

    Examples
    --------
    >>> model = PropensityModel("γ = 2", [0.25, 1.0], {"γ": 2.0})
    >>> np.asarray(model).tolist(), model.parameters["γ"]
    ([0.25, 1.0], 2.0)
    """

    name: str
    values: Floats
    parameters: Mapping[str, float] = field(default_factory=dict)
    source: Source = field(default_factory=Source)

    def __post_init__(self) -> None:
        """Check the propensities."""
        object.__setattr__(self, "values", _validation.propensity(self.values))
        object.__setattr__(self, "parameters", dict(self.parameters))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Floats:
        """The values, so that a model serves as propensities."""
        return np.array(self.values, dtype=dtype)

    def __len__(self) -> int:
        """The number of labels."""
        return int(self.values.size)

    def __repr__(self) -> str:
        """One line."""
        return f"PropensityModel({self.name!r}, {len(self)} labels)"
