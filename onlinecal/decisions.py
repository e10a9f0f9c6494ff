"""The worth of calibration to those who act on a threshold: promised costs are nearly the costs they pay.

Whoever acts on p >= tau + U, with U uniform on [-width/2, width/2], acts with a chance that changes by at
most 1/width a unit of p. Theorem 4c in docs/theory.md bounds the difference between promised and realised
costs.

The function is pure, and `decision_certificate` of forecasters and of reports is what calls it. The factor
1 + 1/width is that of the theorem, and may only change with its proof.
"""

from __future__ import annotations

from onlinecal.validation import check_number


def decision_bound(certificate: float, width: float) -> float:
    """How far promised and realised costs of any threshold can be apart, in the units of the certificate.

    Parameters
    ----------
    certificate
        A bound on the distance to calibration. If it is a sum, so is the result; if an average, an average.
    width
        The width of the threshold's jitter, above 0 and at most 1.
    """
    check_number(width, "width", 0.0, 1.0, "(]", "a width above 0 and at most 1")
    return (1.0 + 1.0 / width) * certificate
