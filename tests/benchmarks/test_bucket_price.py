"""What buckets that split cost on real streams, in Brier score and in certificate, beside a single bucket."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onlinecal.wrappers.strategies.projection import Projection

STREAMS = sorted((Path(__file__).parents[3] / "shared" / "data" / "streams").glob("*.npz"))
KINDS = ("real", "syn", "shift", "rare", "honest")


def played(p, y, n_buckets):
    """Brier score, certificate and guarantee a round, and how many buckets were in use at the end."""
    wrapped, error = Projection(1.5, n_buckets, None), 0.0
    for raw, outcome in zip(p.tolist(), y.tolist(), strict=True):
        error += (wrapped.ask(raw) - outcome) ** 2
        wrapped.settle(outcome)
    return np.array([error, wrapped.certificate, wrapped.guarantee]) / len(p), (len(wrapped.tables) + 1) // 2


@pytest.mark.skipif(not STREAMS, reason="needs ../shared/data/streams")
def test_the_price_on_real_streams(note):
    rows = {}
    for path in STREAMS:
        stream = np.load(path)
        p, y = stream["p"].astype(float), stream["y"].astype(int)
        one, _ = played(p, y, 1)
        split, used = played(p, y, "auto")
        rows[path.stem] = [np.mean((p - y) ** 2), one[0], split[0], one[1], split[1], one[2], split[2], used]
    note("buckets that split: Brier of the model, of 1 bucket, of 'auto'; certificates; guarantees; buckets")
    for kind in (*KINDS, ""):
        chosen = np.array([row for name, row in rows.items() if name.startswith(kind)])
        better = int((chosen[:, 2] < chosen[:, 1]).sum())
        figures = "  ".join(f"{value:.4f}" for value in chosen[:, :-1].mean(0))
        note(
            f"{kind or 'all':8s} {len(chosen):3d}  {figures}  {chosen[:, -1].mean():.1f}  better on {better}"
        )
    _, one, split, certified, paid, _, _, _ = np.array(list(rows.values())).T
    assert split.mean() <= one.mean() + 0.0003
    assert (split <= one + 0.0015).all()
    assert (paid <= 2.5 * certified).all()
