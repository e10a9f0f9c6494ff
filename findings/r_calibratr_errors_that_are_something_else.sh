#!/usr/bin/env bash
# R's CalibratR: the largest gap of ten bins is told as a tenth of it, and cases that were all missed score 0.05.
#
# Guess. `getMCE` is the largest gap between confidence and frequency in a bin, as its help says. `brier_1` of
# `get_Brier_score` is the mean of squared errors over the rows with outcome 1. `get_ECE_equal_width` is a number.
#
# What happens (CalibratR 0.1.2 of Debian 12, R 4.2.2). Gaps are multiplied by the share of rows in their bin before
# the largest is taken. Ten bins of ten rows, of which one is off by 0.9 and no other is off at all, have the MCE
# 0.09. The rows of each outcome are counted by `length(actual == 1)`, the number of all rows. So five cases of a
# hundred rows that were all given 0 have the Brier score 0.05 instead of 1. And rows are counted by `hist`, which
# lets ends of bins blur by 1e-7 of their width, but averaged by `cut`, which does not: 0.3 + 1e-9 is counted in one
# bin and averaged in the next, and the error of ten such rows is NaN.
#
# Why it matters here. These were to be onlinecal's figures "as CalibratR has them". No choice of bins gives them.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download --quiet=2 r-cran-calibratr=0.1.2-2
[[ "$(Rscript --version 2>&1)" == *"version 4.2.2"* ]] || { echo "this was seen with R 4.2.2" >&2; exit 1; }
dpkg -x r-cran-calibratr_0.1.2-2_*.deb .

cat > errors.R <<'R'
# The package's own functions, without the packages that its others need.
CalibratR <- new.env()
invisible(lazyLoad("usr/lib/R/site-library/CalibratR/R/CalibratR", CalibratR))
said <- rep(seq(0.05, 0.95, 0.1), each = 10)
came <- said
came[91:100] <- 0.05
# in each bin the mean of the outcomes is what was said, but in the last one
largest <- CalibratR$getMCE(actual = came, predicted = said, n_bins = 10)
outcomes <- rep(c(1, 0), c(5, 95))
chances <- rep(c(0, 0.05), c(5, 95))
brier <- unlist(CalibratR$get_Brier_score(actual = outcomes, predicted = chances))
blurred <- CalibratR$get_ECE_equal_width(actual = rep(c(0, 1), c(7, 3)), predicted = rep(0.3 + 1e-9, 10), bins = 10)
plain <- CalibratR$get_ECE_equal_width(actual = rep(c(0, 1), c(7, 3)), predicted = rep(0.31, 10), bins = 10)
cat("MCE:", largest, "\n")
cat("Brier score of cases, of all:", brier[["brier_1"]], brier[["brier"]], "\n")
cat("ECE of ten rows of 0.3 + 1e-9, and of 0.31:", blurred, plain, "\n")
# right would be 0.9; 1; 1e-9 and 0.01
stopifnot(abs(largest - 0.09) < 1e-9, abs(brier[["brier_1"]] - 0.05) < 1e-12)
stopifnot(is.nan(blurred), abs(plain - 0.01) < 1e-9)
R
Rscript --vanilla errors.R
