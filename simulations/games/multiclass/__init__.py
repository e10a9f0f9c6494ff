"""Games with several classes: forecasters of class probabilities against adversaries that choose a class."""
