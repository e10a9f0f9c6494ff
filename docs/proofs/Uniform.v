(** Windows on any grid; the uniform grid with the midpoint: at most the root of T from calibrated. *)

From Coq Require Import List Bool Arith ZArith QArith Qabs Qminmax Lia Lqa Psatz.
From Onlinecal Require Import Sums Calibration Game Rule.
Import ListNotations.
Open Scope Q_scope.

Definition rounds (ys : list bool) : Q := inject_Z (Z.of_nat (length ys)).

(** The forecasts of the rounds zs, played after the rounds ys. *)
Definition later_forecasts (L : lattice) (ys zs : list bool) : list Q :=
  skipn (length ys) (forecasts_of L (ys ++ zs)).

Theorem window_distance L lambda ys zs : good L = true ->
  (forall j, (j <= cells L)%nat -> r (point L) (reported L) j <= lambda) ->
  distance (later_forecasts L ys zs) zs
  <= lambda * rounds zs + over 1 (pred (cells L)) (fun j => 1 + Qabs (kappa (point L) (reported L) j)).
Proof.
  intros fine small. unfold later_forecasts, rounds. rewrite forecasts_of_play, play_app.
  set (s := fold_left _ ys _). unfold forecasts. rewrite map_app, skipn_app.
  rewrite map_length, rounds_of_play, Nat.sub_diag, skipn_all2 by (now rewrite map_length, rounds_of_play).
  simpl. rewrite <- (outcomes_of_play L s zs) at 2. rewrite <- (rounds_of_play L s zs).
  pose proof (rule_is_legal L fine (ys ++ zs)) as both. rewrite play_app in both. fold s in both.
  pose proof (rule_is_legal L fine ys) as before. pose proof (lattice_is_good_grid L fine) as grid.
  apply Qle_trans with (certified (cells L) (point L) (reported L) (play L s zs)).
  - apply certificate_bounds. intros a found. apply (within_cells _ _ _ both). apply in_or_app. now right.
  - now apply (windows_are_small _ _ _ grid lambda _ _ both before).
Qed.

(** ** The uniform grid of m cells, the midpoint reported *)

Definition uniform (m : positive) : lattice :=
  Lattice m (map Z.of_nat (seq 0 (S (Pos.to_nat m)))) (midpoint m).

Lemma uniform_cells m : cells (uniform m) = Pos.to_nat m.
Proof. unfold cells. simpl. now rewrite map_length, seq_length. Qed.

Lemma uniform_entry m j : (j <= Pos.to_nat m)%nat -> entry j (points (uniform m)) = Z.of_nat j.
Proof.
  intros small. unfold entry. cbn [points uniform].
  rewrite nth_indep with (d' := Z.of_nat 0) by (rewrite map_length, seq_length; lia).
  rewrite map_nth, seq_nth by lia. reflexivity.
Qed.

Lemma uniform_good m : good (uniform m) = true.
Proof.
  unfold good. rewrite uniform_cells, !uniform_entry by lia. cbn [points unit announce uniform].
  rewrite map_length, seq_length, !andb_true_iff. repeat split.
  - apply Nat.ltb_lt. lia.
  - apply Z.eqb_eq. lia.
  - apply forallb_forall. intros c found%in_seq. unfold midpoint.
    change (map Z.of_nat (seq 0 (S (Pos.to_nat m)))) with (points (uniform m)).
    rewrite !uniform_entry, !andb_true_iff, !Z.leb_le, Z.ltb_lt by lia. lia.
Qed.

Lemma uniform_point m j : (j <= Pos.to_nat m)%nat -> point (uniform m) j = (Z.of_nat j # m).
Proof. intros small. unfold point. now rewrite uniform_entry. Qed.

Lemma uniform_reported m c : (c < Pos.to_nat m)%nat -> reported (uniform m) c = (2 * Z.of_nat c + 1 # 2 * m).
Proof.
  intros small. unfold reported. rewrite !uniform_entry by lia. cbn [announce unit uniform]. unfold midpoint.
  f_equal. lia.
Qed.

Lemma uniform_above m j : (j < Pos.to_nat m)%nat -> reported (uniform m) j == point (uniform m) j + (1 # 2 * m).
Proof.
  intros small. rewrite uniform_point, uniform_reported by lia.
  unfold Qeq, Qplus. cbn [Qnum Qden]. nia.
Qed.

Lemma uniform_below m j : (1 <= j <= Pos.to_nat m)%nat ->
  reported (uniform m) (pred j) == point (uniform m) j - (1 # 2 * m).
Proof.
  intros small. rewrite uniform_point, uniform_reported by lia. destruct j as [|j]; [lia|].
  unfold Qeq, Qminus, Qplus, Qopp. cbn [Qnum Qden pred]. nia.
Qed.

Lemma uniform_r m j : (j <= cells (uniform m))%nat -> r (point (uniform m)) (reported (uniform m)) j == 1 # 2 * m.
Proof.
  pose proof (lattice_is_good_grid _ (uniform_good m)) as [some first last _ _].
  rewrite uniform_cells in *. intros small. unfold r.
  destruct (Nat.eq_dec j (Pos.to_nat m)) as [->|inner].
  - rewrite (uniform_below m) by lia. rewrite last. ring.
  - rewrite (uniform_above m j) by lia. destruct j as [|j]; [rewrite first; ring|].
    rewrite (uniform_below m (S j)) by lia. ring.
Qed.

Lemma uniform_kappa m j : (1 <= j < cells (uniform m))%nat ->
  kappa (point (uniform m)) (reported (uniform m)) j == 0.
Proof.
  rewrite uniform_cells. intros small. unfold kappa. rewrite (uniform_above m j), (uniform_below m j) by lia. ring.
Qed.

Lemma uniform_biases m :
  over 1 (pred (cells (uniform m))) (fun j => 1 + Qabs (kappa (point (uniform m)) (reported (uniform m)) j))
  == inject_Z (Zpos m - 1).
Proof.
  rewrite (over_ext _ _ _ (fun _ => 1)).
  - unfold over. rewrite total_constant, seq_length, Qmult_1_r. rewrite uniform_cells.
    replace (Z.of_nat (pred (Pos.to_nat m))) with (Zpos m - 1)%Z by lia. reflexivity.
  - intros j small. rewrite uniform_kappa by lia. reflexivity.
Qed.

(** T rounds on m cells: at most T/(2 m) + (m - 1)/2; any W rounds in a row: at most W/(2 m) + m - 1. *)
Theorem uniform_distance m ys :
  distance (forecasts_of (uniform m) ys) ys <= (1 # 2 * m) * rounds ys + (1#2) * inject_Z (Zpos m - 1).
Proof.
  rewrite <- (uniform_biases m). apply (rule_distance (uniform m) (uniform_good m)).
  intros j small. rewrite uniform_r by assumption. apply Qle_refl.
Qed.

Theorem uniform_window m ys zs :
  distance (later_forecasts (uniform m) ys zs) zs <= (1 # 2 * m) * rounds zs + inject_Z (Zpos m - 1).
Proof.
  rewrite <- (uniform_biases m). apply (window_distance (uniform m)); [apply uniform_good|].
  intros j small. rewrite uniform_r by assumption. apply Qle_refl.
Qed.

(** With m the root of X, rounded up: (X + m^2 - m)/(2 m) is at most the root itself. *)
Lemma below_the_root (X m : Z) : (1 <= m -> (m - 1) * (m - 1) < X <= m * m ->
  (X + m * m - m) * (X + m * m - m) <= 4 * (m * m) * X)%Z.
Proof.
  intros some between. remember (m * m - X)%Z as k eqn:rest. replace X with (m * m - k)%Z by lia.
  assert (0 <= k <= 2 * m - 2)%Z as small by nia.
  assert ((m + k) * (m + k) <= (3 * m - 2) * (3 * m - 2))%Z as squares by (apply Z.mul_le_mono_nonneg; lia).
  assert ((3 * m - 2) * (3 * m - 2) <= 4 * (m * (m * m)))%Z as cubes by nia.
  nia.
Qed.

Definition cells_for (T : positive) : positive := Z.to_pos (Z.sqrt_up (Zpos T)).

Lemma cells_for_root T : (let m := Zpos (cells_for T) in (m - 1) * (m - 1) < Zpos T <= m * m)%Z.
Proof.
  unfold cells_for. pose proof (Z.sqrt_up_spec (Zpos T) ltac:(lia)) as between.
  rewrite Z2Pos.id by (apply Z.sqrt_up_pos; lia). simpl. lia.
Qed.

Lemma distance_nonnegative p ys : 0 <= distance p ys.
Proof.
  destruct (distance_is_least p ys) as [(q & _ & same) _]. rewrite <- same.
  apply total_nonnegative. intros a _. apply Qabs_nonneg.
Qed.

(** s at least the root of T, and the square of a number at most T: the number is at most s. *)
Lemma square_below x y : 0 <= y -> x * x <= y * y -> x <= y.
Proof. intros some squares. destruct (Qlt_le_dec y x) as [more|]; [nra|assumption]. Qed.

(** The square of the distance is at most T: the distance is at most the root of T. *)
Theorem uniform_root T ys : (Z.of_nat (length ys) <= Zpos T)%Z ->
  let d := distance (forecasts_of (uniform (cells_for T)) ys) ys in d * d <= inject_Z (Zpos T).
Proof.
  intros enough d. pose proof (uniform_distance (cells_for T) ys) as bound. fold d in bound.
  pose proof (cells_for_root T) as root. simpl in root. set (m := cells_for T) in *.
  pose proof (distance_nonnegative (forecasts_of (uniform m) ys) ys) as some. fold d in some.
  assert (d <= (Zpos T + Zpos m * Zpos m - Zpos m # 2 * m)) as at_most.
  { eapply Qle_trans; [exact bound|]. unfold rounds, Qle, Qplus, Qmult, inject_Z. cbn [Qnum Qden]. nia. }
  pose proof (below_the_root (Zpos T) (Zpos m) ltac:(lia) root) as squares.
  apply Qle_trans with ((Zpos T + Zpos m * Zpos m - Zpos m # 2 * m) * (Zpos T + Zpos m * Zpos m - Zpos m # 2 * m)).
  - nra.
  - unfold Qle, Qmult, inject_Z. cbn [Qnum Qden]. nia.
Qed.
