"""Training on incomplete labels: every loss, reduction and correction, by two optimisers."""
