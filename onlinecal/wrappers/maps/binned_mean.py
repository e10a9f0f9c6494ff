"""The running mean of the outcomes in each bin of the model's probability."""

from __future__ import annotations

from river import base

from onlinecal.steering.three_maps import N_BINS, bin_mean, bin_of
from onlinecal.validation import check_count
from onlinecal.wrappers.maps.probability_map import MappedClassifier


class BinnedMean(MappedClassifier):
    """Calibeating: answers with what followed so far when the model spoke as it does now.

    Good where the model's ranking is right and its scale is not, in any way that stays put; slow after
    a change. Wrap it in CalibratedClassifier to have a guarantee.

    Parameters
    ----------
    classifier
        The model whose probabilities are mapped.
    n_bins
        Number of equal-width bins. A bin's centre counts as one outcome, so empty bins leave p about as
        it is.

    Examples
    --------
    >>> from river import datasets, evaluate, naive_bayes, metrics
    >>> from onlinecal import BinnedMean
    >>> model = BinnedMean(naive_bayes.GaussianNB(), n_bins=10)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 87.67%

    References
    ----------
    Foster and Hart (2023), "Calibeating": beating forecasters at their own game.
    """

    def __init__(self, classifier: base.Classifier, n_bins: int = N_BINS) -> None:
        check_count(n_bins, "n_bins")
        super().__init__(classifier)
        self.n_bins = n_bins

    def _new_map(self) -> BinMap:
        return BinMap(self.n_bins)


class BinMap:
    """Sums and counts of one label's bins."""

    def __init__(self, n_bins: int) -> None:
        self.totals = [0.0] * n_bins
        self.counts = [0.0] * n_bins

    def apply(self, p: float) -> float:
        """The mean outcome of p's bin so far."""
        b = bin_of(p, len(self.counts))
        return bin_mean(self.totals[b], self.counts[b], b, len(self.counts))

    def learn(self, p: float, outcome: int) -> None:
        """Count one outcome in p's bin."""
        b = bin_of(p, len(self.counts))
        self.totals[b] += outcome
        self.counts[b] += 1.0
