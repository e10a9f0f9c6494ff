"""Pictures of single games: reliability, the way to calibration, biases as a strip and as a film."""
