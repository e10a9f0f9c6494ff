"""Pictures of sweeps: measures against T, exponents, certificates along the games."""
