"""The forecaster of several classes: its machine on the simplex, its promises, its river face."""
