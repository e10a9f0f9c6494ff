"""What calibration is worth to those who act on a threshold: promised costs that are nearly what they pay.

Whoever acts on p >= tau + U, with U uniform on [-width/2, width/2], acts with a chance that changes by at
most 1/width a unit of p. docs/theory.md, Theorem 4c, bounds what such decisions promise and do not keep.
"""

from __future__ import annotations

from onlinecal.validation import check_number


def decision_bound(certificate: float, width: float) -> float:
    """How far promised and realised costs of any threshold can be apart, in the units of the certificate.

    Parameters
    ----------
    certificate
        A bound on the distance to calibration; of a sum the result is a sum, of an average an average.
    width
        Of the jitter of the threshold, above 0 and at most 1.
    """
    check_number(width, "width", 0.0, 1.0, "(]", "a width above 0 and at most 1")
    return (1.0 + 1.0 / width) * certificate
