"""Round-multicalibrate and multigroup calibrate as written down: masks over all rows, one patch at a time."""

import numpy as np
from hypothesis import strategies as st


def grid(p, m):
    return np.asarray(p, dtype=float) if m is None else np.floor(np.asarray(p) * m + 0.5) / m


def value_patches(p, y, members, alpha, m=None):
    """Forecasts after the patches, on a grid or not; per patch the level, the group, violation and fall."""
    f, story = grid(p, m), []
    while True:
        cells = [
            (cell.mean() * (v - y[cell].mean()) ** 2, v, g, cell)
            for v in np.unique(f)
            for g in range(members.shape[1])
            if (cell := (f == v) & members[:, g]).any()
        ]
        violations = np.zeros(members.shape[1])
        for part, _, g, _ in cells:
            violations[g] += part
        if violations.max() <= alpha:
            return f, story
        worst, v, g, cell = max(cells, key=lambda item: item[0])
        before = np.mean((f - y) ** 2)
        f = np.where(cell, grid(y[cell].mean(), m), f)
        story.append((v, g, worst, before - np.mean((f - y) ** 2)))


@st.composite
def tables(draw, most_rows=60, most_groups=4):
    """Forecasts, outcomes and overlapping groups."""
    n = draw(st.integers(1, most_rows))
    n_groups = draw(st.integers(1, most_groups))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    p = draw(st.sampled_from([rng.random(n), rng.integers(0, 4, n) / 3, np.full(n, rng.random())]))
    members = rng.random((n, n_groups)) < rng.random(n_groups)
    if draw(st.booleans()):
        members[:, 0] = True
    y = (rng.random(n) < (p + members @ rng.uniform(-1, 1, n_groups))).astype(int)
    return p, y, members
