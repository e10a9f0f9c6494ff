"""The worst case of a forecaster, by playing every outcome sequence."""
