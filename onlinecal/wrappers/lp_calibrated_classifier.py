"""Any river classifier, recalibrated under the l_p error while the stream runs."""

from __future__ import annotations

from typing import Any

from river import base

from onlinecal.recalibration.lp.online import PANES, OnlineLp
from onlinecal.recalibration.lp.recalibrator import LpRecalibrator, Within
from onlinecal.recalibration.lp.statistics import Estimation
from onlinecal.validation import check_count, check_open_unit
from onlinecal.wrappers.labels import Label, plain
from onlinecal.wrappers.refitted import Answer, Refitted


class LpCalibratedClassifier(Refitted[LpRecalibrator]):
    """Wrap a river classifier: what it promises is sorted into level sets, and corrected where it is wrong.

    The wrapper keeps counts of the level sets that carry mass, not the stream, and runs Algorithm 2 on them
    at doubling times. Between two runs the map is fixed. The model's answer is read before it learns the
    label.

    Parameters
    ----------
    classifier
        The model to wrap.
    p, epsilon, delta, n_levels, tolerance, estimation, seed, within
        As for `LpRecalibrator`. With "pools" rounds are dealt to the pools at random as they come.
    first_fit
        Rounds before the first run; until then the model's answers are passed on.
    window
        None, or how many rounds are remembered: they are forgotten an eighth of it at a time.
    fading
        None, or the factor in (0, 1) by which what was counted loses weight with each round.

    Attributes
    ----------
    n_rounds
        Rounds learnt from.
    n_fits
        Runs of Algorithm 2.
    recalibrator
        The `LpRecalibrator` of the last run, None before the first: its history, groups and sample sizes.

    Notes
    -----
    At most 24/beta level sets are kept at a time (per eighth of a window), and k numbers for each and each
    pool. A level set's count then misses at most beta/24 of all rounds, so that none with mass 5 beta/24
    or more is overlooked. With a window or fading, runs are at most an eighth of the window or 1/(1 - fading)
    rounds apart.

    The model itself changes as it learns; what is counted is what it said then, not what it would say now.

    Examples
    --------
    >>> from river import datasets, metrics, naive_bayes
    >>> from onlinecal import LpCalibratedClassifier
    >>> model = LpCalibratedClassifier(naive_bayes.GaussianNB(), n_levels=5, within="shift")
    >>> for x, y in datasets.ImageSegments():
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.n_rounds, model.n_fits
    (2310, 5)

    References
    ----------
    Bairaktari & Nguyen, "Sample-efficient Multiclass Calibration under Probability-weighted l_p Error"
    (2025); Misra & Gries,
    "Finding repeated elements" (1982).
    """

    def __init__(
        self,
        classifier: base.Classifier,
        p: float = 2.0,
        epsilon: float = 0.1,
        delta: float = 0.05,
        n_levels: int | None = None,
        tolerance: float | None = None,
        estimation: Estimation = "plug-in",
        seed: int = 0,
        within: Within = "constant",
        first_fit: int = 100,
        window: int | None = None,
        fading: float | None = None,
    ) -> None:
        super().__init__(classifier, first_fit)
        check_count(first_fit, "first_fit")
        if window is not None:
            check_count(window, "window", least=PANES)
        if fading is not None:
            check_open_unit(fading, "fading")
        if fading is not None and window is not None:
            raise ValueError(f"window and fading exclude each other, got {window!r} and {fading!r}")
        self.p = p
        self.epsilon = epsilon
        self.delta = delta
        self.n_levels = n_levels
        self.tolerance = tolerance
        self.estimation = estimation
        self.seed = seed
        self.within = within
        self.window = window
        self.fading = fading
        self._online = OnlineLp(self._settings(), window, fading)

    def _settings(self) -> LpRecalibrator:
        """Of each run: nothing but Algorithm 2, which is all that counts allow."""
        return LpRecalibrator.as_in_paper(
            self.p, self.epsilon, delta=self.delta, n_levels=self.n_levels, tolerance=self.tolerance,
            estimation=self.estimation, seed=self.seed, within=self.within,
        )  # fmt: skip

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Recalibrated probabilities of the labels known so far; they sum to 1.

        Empty while neither the model nor the stream has named a label.
        """
        answer = {plain(label): u for label, u in self.classifier.predict_proba_one(x, **kwargs).items()}
        self._meet(answer)
        vector = self._online.answer(self._vector(answer))
        return dict(zip(self._columns, vector.tolist(), strict=True))

    def _keep(self, answer: Answer, label: Label) -> None:
        self._meet((label, *answer))
        self._online.keep(self._vector(answer), self._columns[label])

    def recalibrate(self) -> None:
        """Run Algorithm 2 on what is counted, now; nothing happens while fewer than two labels are known."""
        recalibrator = self._online.fit(list(self._columns))
        if recalibrator is not None:
            self.recalibrator = recalibrator
            self.n_fits += 1

    def _most_between_fits(self) -> int:
        return self._online.rounds_to_next()
