#!/usr/bin/env bash
# R's MLmetrics: with ten classes, MultiLogLoss takes column 2 for class 10, and so on: nearly perfect rows cost 4.1.
#
# Guess. `MultiLogLoss(y_pred, y_true)` with a matrix of ten columns and labels 1 to 10 takes column i for class i. A
# model that gives each row's class 0.9 has the loss -log 0.9 = 0.105.
#
# What happens (MLmetrics 1.1.1 of Debian 12, R 4.2.2). Labels are made texts, and their columns come in the order of
# texts: 1, 10, 2, 3 and so on. So all columns but the first are taken for another class, and the loss is 4.06
# instead of 0.105. With nine classes it is right, as in the example of the help. A factor makes no difference:
# its levels "low", "middle", "high" are taken in the order of the alphabet, whatever order the factor has.
#
# Why it matters here. Tables of ten classes (digits, CIFAR-10) are the common case, and onlinecal names columns by
# their classes, numbers in numbers' order.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download --quiet=2 r-cran-mlmetrics=1.1.1-3
[[ "$(Rscript --version 2>&1)" == *"version 4.2.2"* ]] || { echo "this was seen with R 4.2.2" >&2; exit 1; }
dpkg -x r-cran-mlmetrics_1.1.1-3_*.deb .

cat > ten.R <<'R'
# The package's own functions, without the packages that its others need.
MLmetrics <- new.env()
invisible(lazyLoad("usr/lib/R/site-library/MLmetrics/R/MLmetrics", MLmetrics))
loss <- function(k, names = 1:k) {
  table <- matrix(0.1 / (k - 1), k, k)
  diag(table) <- 0.9
  MLmetrics$MultiLogLoss(y_pred = table, y_true = names)
}
losses <- sapply(c(3, 9, 10, 11), loss)
sizes <- factor(c("low", "middle", "high"), levels = c("low", "middle", "high"))
named <- loss(3, sizes)
cat("3, 9, 10, 11 classes:", round(losses, 4), "\n")
cat("low, middle, high:", round(named, 4), "\n")
# right would be 0.1054 five times
stopifnot(abs(losses[1:2] + log(0.9)) < 1e-12, losses[3:4] > 3.5, named > 1)
R
Rscript --vanilla ten.R
