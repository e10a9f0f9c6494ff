# What packages of R say of some inputs: Rscript figures.R INPUTS FIGURES
# Forecasts are hexadecimal, since R reads decimals with an error in the last bit.
arguments <- commandArgs(TRUE)
lines <- strsplit(readLines(arguments[1]), " ")
out <- file(arguments[2], "w")
say <- function(package, input, measure, value)
  cat(package, as.character(packageVersion(package)), input, measure, sprintf("%.17g", value), "\n", file = out)
for (i in seq_along(lines)) {
  halves <- matrix(as.numeric(lines[[i]]), nrow = 2)
  p <- halves[1, ]
  y <- halves[2, ]
  say("Metrics", i, "log_loss", Metrics::logLoss(y, p))
  say("MLmetrics", i, "log_loss", MLmetrics::LogLoss(p, y))
  say("ModelMetrics", i, "log_loss", ModelMetrics::logLoss(y, p))
  say("ModelMetrics", i, "brier", ModelMetrics::brier(y, p))
  # it fits a curve first, which some inputs are too few for
  found <- tryCatch(suppressWarnings(rms::val.prob(p, y, pl = FALSE)), error = function(e) NULL)
  if (!is.null(found)) say("rms", i, "brier", found["Brier"])
  if (i == 1) {
    say("CalibratR", i, "getECE", CalibratR::getECE(y, p))
    say("CalibratR", i, "getMCE", CalibratR::getMCE(y, p))
    say("CalibratR", i, "get_ECE_equal_width", CalibratR:::get_ECE_equal_width(y, p))
  }
}
close(out)
