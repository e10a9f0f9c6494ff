"""A set probability stays the largest whenever it can; the others keep their proportions otherwise."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onlinecal.recalibration import TopLabelIsotonic
from onlinecal.recalibration.flooring import spread_rest

MASSES = st.lists(
    st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-300, 0.3, 0.3])), min_size=1, max_size=12
)


@given(MASSES, st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])))
@example([0.5, 0.5], 1 / 3)
@example([0.0] * 48, 1 / 49)
@example([1.0, 1e-17, 1e-17], 0.4)
def test_what_stays_for_every_mass_and_probability(masses, p):
    shares = spread_rest(masses, p)
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert math.fsum(shares) == pytest.approx(1.0 - p, abs=1e-11)
    # who has more mass never gets less
    ranked = [share for _, share in sorted(zip(masses, shares, strict=True))]
    assert all(small <= large + 1e-15 for small, large in pairwise(ranked))
    if p * (len(masses) + 1) >= 1.0 - 1e-12:
        assert max(shares) < p or p == 0.0
        free = [(m, s) for m, s in zip(masses, shares, strict=True) if s < math.nextafter(p, 0.0)]
        assert all(a * t == pytest.approx(b * s, abs=1e-9) for a, s in free for b, t in free)
    else:
        # no distribution has p on top: some other share exceeds it whatever the rule
        assert max(shares) > p


def test_water_that_overflows_goes_to_the_others_in_their_proportions():
    assert spread_rest([6.0, 2.0, 1.0], 0.4) == pytest.approx([0.4, 0.2 * 2 / 3, 0.2 / 3])
    assert spread_rest([6.0, 0.0, 0.0], 0.4) == pytest.approx([0.4, 0.1, 0.1])
    assert spread_rest([6.0, 2.0], 0.8) == pytest.approx([0.15, 0.05])
    assert spread_rest([6.0, 2.0], 0.2) == pytest.approx([0.6, 0.2])


def test_top_label_isotonic_keeps_the_class_on_top():
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.full(20, 0.15), 2000)
    top = table.argmax(axis=1)
    # right three times in ten, whatever the confidence: far less than it says
    labels = np.where(rng.random(2000) < 0.3, top, rng.integers(20, size=2000))
    mapped = TopLabelIsotonic().fit(table, labels).predict_proba(table)
    assert np.mean(table.max(axis=1)) > 0.35
    able = mapped[np.arange(2000), top] >= 1 / 20
    assert able.mean() > 0.99
    assert np.array_equal(mapped.argmax(axis=1)[able], top[able])
    assert np.allclose(mapped.sum(axis=1), 1.0)
