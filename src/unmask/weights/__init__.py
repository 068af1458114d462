"""Label weights: the whole statistical correction, as two numbers per observed label.

Labels go missing independently, Y = M ⊙ Y*, with propensities p_j = P(M_j = 1). Every training
loss of the package, corrected or not, is linear in two weights per *observed* label j ∈ I, which
depend on labels and propensities but never on the scores s:

    one-vs-all       Σ_j ℓ₋(s_j) + Σ_{j∈I} ( pos_j ℓ₊(s_j) − cut_j ℓ₋(s_j) )
    pick-all-labels  Σ_{j∈I} pos_j g(j, s)
    pairwise         Σ_{i∈I} pos_i ( Σ_{j≠i} φ(s_i − s_j) − Σ_{j∈I, j≠i} cut_j φ(s_i − s_j) )

With m = |I| and a = 1/p:

| correction      | plain: pos, cut                              | normalised: pos = cut          |
|-----------------|----------------------------------------------|--------------------------------|
| vanilla         | 1, 1                                         | 1/m                            |
| unbiased        | a, a                                         | a_j ∫₀¹ Π_{k≠j} (1 − u a_k) du |
| bound           | 2a − 1, 1 (ova); a, a (pal); a, 1 (pairwise) | a_j / (1 + Σ_{k≠j} a_k)        |
| empirical_bayes | –                                            | a_j E[1/N* given m]            |
| tempered        | as unbiased, with 1 + τ(a − 1) for a         | likewise                       |

So weights are computed once per data set; losses and trainers see nothing else. A row without
observed labels has no weights: its normalised loss is that of an empty label set.

Read on in `formulas` (the table above, for numpy and torch; how many labels rows truly have) and
`corrections` (a function for each, and other people's trainers).
"""

from unmask.weights.corrections import (
    CORRECTIONS,
    Weights,
    bound,
    empirical_bayes,
    tempered,
    to_pos_weight,
    to_relevance,
    to_samples,
    to_soft_targets,
    unbiased,
    vanilla,
)
from unmask.weights.formulas import count_distribution, normalized_weights

__all__ = [
    "CORRECTIONS",
    "Weights",
    "bound",
    "count_distribution",
    "empirical_bayes",
    "normalized_weights",
    "tempered",
    "to_pos_weight",
    "to_relevance",
    "to_samples",
    "to_soft_targets",
    "unbiased",
    "vanilla",
]
