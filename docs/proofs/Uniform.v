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
  within (lambda * rounds zs + over 1 (pred (cells L)) (fun j => 1 + Qabs (kappa (point L) (reported L) j)))
         (later_forecasts L ys zs) zs.
Proof.
  intros fine small. unfold later_forecasts, rounds. rewrite forecasts_of_play, play_app.
  set (s := fold_left _ ys _). unfold forecasts. rewrite map_app, skipn_app.
  rewrite map_length, rounds_of_play, Nat.sub_diag, skipn_all2 by (now rewrite map_length, rounds_of_play).
  simpl. rewrite <- (outcomes_of_play L s zs) at 3. rewrite <- (rounds_of_play L s zs).
  pose proof (rule_is_legal L fine (ys ++ zs)) as both. rewrite play_app in both. fold s in both.
  pose proof (rule_is_legal L fine ys) as before. pose proof (lattice_is_good_grid L fine) as grid.
  apply within_more with (certified (cells L) (point L) (reported L) (play L s zs)).
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
  within ((1 # 2 * m) * rounds ys + (1#2) * inject_Z (Zpos m - 1)) (forecasts_of (uniform m) ys) ys.
Proof.
  eapply within_more; [apply (rule_distance (uniform m) (uniform_good m) (1 # 2 * m))|].
  - intros j small. rewrite uniform_r by assumption. apply Qle_refl.
  - rewrite uniform_biases. apply Qle_refl.
Qed.

Theorem uniform_window m ys zs :
  within ((1 # 2 * m) * rounds zs + inject_Z (Zpos m - 1)) (later_forecasts (uniform m) ys zs) zs.
Proof.
  eapply within_more; [apply (window_distance (uniform m) (1 # 2 * m)); [apply uniform_good|]|].
  - intros j small. rewrite uniform_r by assumption. apply Qle_refl.
  - rewrite uniform_biases. apply Qle_refl.
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

Lemma square_below x y : 0 <= y -> x * x <= y * y -> x <= y.
Proof. intros some squares. destruct (Qlt_le_dec y x) as [more|]; [nra|assumption]. Qed.

Lemma root_bound (X N : positive) s : (let m := Zpos N in (m - 1) * (m - 1) < Zpos X <= m * m)%Z ->
  0 <= s -> inject_Z (Zpos X) <= s * s -> (Zpos X + Zpos N * Zpos N - Zpos N # 2 * N) <= s.
Proof.
  intros root some large. pose proof (below_the_root (Zpos X) (Zpos N) ltac:(lia) root) as squares.
  apply square_below; [assumption|]. apply Qle_trans with (inject_Z (Zpos X)); [|assumption].
  unfold Qle, Qmult, inject_Z. cbn [Qnum Qden]. nia.
Qed.

(** At most the root of T: that is, s for every s whose square is at least T. *)
Theorem uniform_root T ys s : (Z.of_nat (length ys) <= Zpos T)%Z -> 0 <= s -> inject_Z (Zpos T) <= s * s ->
  within s (forecasts_of (uniform (cells_for T)) ys) ys.
Proof.
  intros enough some large. pose proof (cells_for_root T) as root. set (m := cells_for T) in *.
  eapply within_more; [apply uniform_distance|].
  apply Qle_trans with (Zpos T + Zpos m * Zpos m - Zpos m # 2 * m); [|now apply root_bound].
  unfold rounds, Qle, Qplus, Qmult, inject_Z. cbn [Qnum Qden]. nia.
Qed.
