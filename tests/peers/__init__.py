"""What other packages say, recorded; `make peers` runs them again."""
