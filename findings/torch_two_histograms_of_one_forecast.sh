#!/usr/bin/env bash
# torch: histc and histogram put the same forecast into different bins, and torchmetrics gives 1 a bin of its own.
#
# Guess. 0.3 is in the fourth of ten bins from 0 to 1, or in the third because of rounding, but it is in one: in
# `histc`, in `histogram`, in `bucketize` of the same edges, and in numpy. The last bin is closed, so that 1 is in it.
#
# What happens (torch 2.13.0, torchmetrics 1.9.0, numpy 2.4.6, Python 3.11, x86-64). In float64 `histc` has 0.3 in the
# fourth bin, `histogram`, `bucketize` and numpy in the third; 0.6 and 0.7 are in numpy's bin below those of all
# three, since `torch.linspace` steps from both ends and numpy's from one. In float32, 0.45 in twenty bins parts
# `histc` from the others. torchmetrics looks up in `bucketize` with one end more than bins: forecasts of exactly 1
# are a bin of their own. So 0.95 that is too low and 1 that is too high do not cancel as in the usual ten bins.
#
# Why it matters here. Forecasts of networks and of votes lie on such ends. onlinecal's `convention="torchmetrics"`
# has to step from both ends in float32 to give the same figure.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0
"$folder/venv/bin/python" -m pip install --quiet torchmetrics==1.9.0 numpy==2.4.6
cd "$folder"

cat > bins.py <<'PYTHON'
"""The bin of one forecast, by four ways; and the error of eight forecasts."""

import numpy as np
import torch
from torchmetrics.functional.classification import binary_calibration_error


def places(p, bins, dtype):
    one = torch.tensor([p], dtype=dtype)
    edges = torch.linspace(0, 1, bins + 1, dtype=dtype)
    return (
        int(torch.histc(one, bins, 0, 1).argmax()),
        int(torch.histogram(one, bins=bins, range=(0.0, 1.0)).hist.argmax()),
        int(torch.bucketize(one, edges, right=True)) - 1,
        int(np.histogram(one.numpy(), bins, (0, 1))[0].argmax()),
    )


found = {p: places(p, 10, torch.float64) for p in (0.3, 0.6, 0.7, 0.8)}
for p, bins in found.items():
    print(f"{p} of ten bins, float64: histc {bins[0]}, histogram {bins[1]}, bucketize {bins[2]}, numpy {bins[3]}")
single = places(0.45, 20, torch.float32)
print("0.45 of twenty bins, float32: histc {}, histogram {}, bucketize {}, numpy {}".format(*single))
p = torch.tensor([0.9375, 0.9375, 0.9375, 0.9375, 1.0, 1.0, 1.0, 1.0])
y = torch.tensor([1, 1, 1, 1, 1, 1, 1, 0])
error = float(binary_calibration_error(p, y, n_bins=10))
print(f"error of torchmetrics {error:.5f}; with a closed last bin {abs(float((p - y).sum())) / 8:.5f}")

# right would be one bin each time, and 0.09375
assert found[0.3] == (3, 2, 2, 2) and found[0.6] == (6, 6, 6, 5) and found[0.7] == (7, 7, 7, 6)
assert len(set(found[0.8])) == 1 and single[0] != single[1]
assert abs(error - 0.15625) < 1e-6
PYTHON
venv/bin/python bins.py
