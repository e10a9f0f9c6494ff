(** What is proved, in one place, and on what it rests.

    forecasts_of L ys are the forecasts that the rule announces on the grid L while the outcomes ys come, each made of
    the outcomes before its own. later_forecasts L ys zs are those of the rounds zs, played after ys. *)

From Coq Require Import ZArith QArith Qminmax.
From Onlinecal Require Import Calibration Game Rule Uniform Graded Recursion.

Check certificate_bounds_distance.
Check distance_at_most.
Check a_valid_cell_exists.
Check biases_stay_within_slack.
Check distance_is.
Check rule_is_legal.
Check rule_distance.
Check uniform_distance.
Check uniform_root.
Check uniform_window.
Check graded_distance.
Check graded_window.
Check root_of_half.
Check hundred.
Check thousand.
Check ten_thousand.

Definition all_of_them := (@certificate_bounds_distance, @distance_at_most, @a_valid_cell_exists,
  @biases_stay_within_slack, @distance_is, @rule_is_legal, @rule_distance, @uniform_distance, @uniform_root,
  @uniform_window, @graded_distance, @graded_window, @root_of_half, @hundred, @thousand, @ten_thousand).

Print Assumptions all_of_them.
