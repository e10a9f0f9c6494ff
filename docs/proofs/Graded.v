(** Graded grids: the cell's end that is nearer to certainty is announced, and cells are wide near 0 and 1.

    Below 1/2 only the outcome 1 then costs, above it only 0: r_j = v_j (v_j - v_(j-1)) below 1/2,
    (1 - v_j) (v_(j+1) - v_j) above, and half the width of both cells together at the point 1/2. *)

From Coq Require Import List Bool Arith ZArith QArith Qabs Qminmax Lia Lqa Psatz.
From Onlinecal Require Import Sums Calibration Game Rule Uniform.
Import ListNotations.
Open Scope Q_scope.

Definition fits (lambda : Q) (L : lattice) : bool :=
  forallb (fun j => Qle_bool (r (point L) (reported L) j) lambda) (seq 0 (S (cells L))).

Lemma fits_each lambda L j : fits lambda L = true -> (j <= cells L)%nat -> r (point L) (reported L) j <= lambda.
Proof.
  unfold fits. rewrite forallb_forall. intros each small. apply Qle_bool_iff, each, in_seq. lia.
Qed.

(** A lattice whose point k is 1/2. *)
Definition centred (L : lattice) (k : nat) : bool :=
  (k <=? cells L)%nat && (2 * entry k (points L) =? Zpos (unit L))%Z.
Definition graded (unit : positive) (points : list Z) : lattice := Lattice unit points (certain unit).

Section Graded.

Context (S0 : positive) (places : list Z) (k : nat).
Notation L := (graded S0 places).
Hypothesis fine : good L = true.
Hypothesis middle : centred L k = true.
Notation m := (cells L).
Notation v := (point L).
Notation p := (reported L).

(** The widths of the two cells beside 1/2. *)
Definition width_below : Q := v k - v (pred k).
Definition width_above : Q := v (S k) - v k.

Lemma middle_inside : (0 < k < m)%nat /\ v k == 1#2.
Proof.
  unfold centred in middle. apply andb_true_iff in middle as [small half].
  apply Nat.leb_le in small. apply Z.eqb_eq in half. cbn [unit graded] in half.
  assert (v k == 1#2) as equal by (unfold point, Qeq; cbn [Qnum Qden unit graded]; lia).
  pose proof (lattice_is_good_grid L fine) as [_ first last _ _].
  split; [|assumption]. split.
  - destruct k; [rewrite first in equal; discriminate|lia].
  - destruct (Nat.eq_dec k m) as [same|]; [rewrite same, last in equal; discriminate|lia].
Qed.

Lemma reported_below c : (c < k)%nat -> p c == v c.
Proof.
  intros small. pose proof middle_inside as [inner _].
  unfold centred in middle. apply andb_true_iff in middle as [_ half]. apply Z.eqb_eq in half.
  pose proof (entries_increase L fine (S c) k ltac:(lia)) as order. cbn [unit graded] in half.
  unfold reported, point. cbn [announce unit graded]. unfold certain.
  destruct (Z.leb_spec (2 * entry (S c) (points L)) (Zpos S0)); [|lia].
  unfold Qeq. cbn [Qnum Qden]. lia.
Qed.

Lemma reported_above c : (k <= c < m)%nat -> p c == v (S c).
Proof.
  intros small. pose proof middle_inside as [inner _].
  unfold centred in middle. apply andb_true_iff in middle as [_ half]. apply Z.eqb_eq in half.
  pose proof (entries_increase L fine k c ltac:(lia)) as order. cbn [unit graded] in half.
  destruct (good_parts L fine) as (_ & _ & _ & each). destruct (each c ltac:(lia)) as [more _].
  unfold reported, point. cbn [announce unit graded]. unfold certain.
  destruct (Z.leb_spec (2 * entry (S c) (points L)) (Zpos S0)); [lia|].
  destruct (Z.leb_spec (Zpos S0) (2 * entry c (points L))); [|lia].
  unfold Qeq. cbn [Qnum Qden]. lia.
Qed.

(** What a round costs: below 1/2, at 1/2, above, and at 1. *)
Lemma graded_r_below j : (j < k)%nat -> r v p j == v j * (v j - v (pred j)).
Proof.
  intros small. unfold r. rewrite (reported_below j), (reported_below (pred j)) by lia. ring.
Qed.

Lemma graded_r_middle : r v p k == (1#2) * (width_below + width_above).
Proof.
  pose proof middle_inside as [inner half]. unfold r, width_below, width_above.
  rewrite (reported_above k), (reported_below (pred k)) by lia. rewrite half. ring.
Qed.

Lemma graded_r_above j : (k < j < m)%nat -> r v p j == (1 - v j) * (v (S j) - v j).
Proof.
  intros small. unfold r. rewrite (reported_above j), (reported_above (pred j)) by lia.
  replace (S (pred j)) with j by lia. ring.
Qed.

Lemma graded_r_last : r v p m == 0.
Proof.
  pose proof middle_inside as [inner half]. pose proof (lattice_is_good_grid L fine) as [_ _ last _ _].
  unfold r. rewrite (reported_above (pred m)) by lia. replace (S (pred m)) with m by lia. rewrite last. ring.
Qed.

Lemma increasing j : (j < m)%nat -> v j <= v (S j).
Proof.
  intros small. destruct (good_parts L fine) as (_ & _ & _ & each). destruct (each j small) as [more _].
  unfold point, Qle. cbn [Qnum Qden]. nia.
Qed.

(** All kappa together: |kappa_j| is the width of the cell on the far side of 1/2. *)
Lemma graded_kappas : over 1 (pred m) (fun j => Qabs (kappa v p j)) == 1 - 2 * Qmin width_below width_above.
Proof.
  pose proof middle_inside as [inner half]. pose proof (lattice_is_good_grid L fine) as [_ first last _ _].
  replace (pred m) with (pred k + (1 + (m - 1 - k)))%nat by lia. rewrite !over_split.
  rewrite (over_ext 1 (pred k) _ (fun j => v (pred (S j)) - v (pred j))).
  2: { intros j small. unfold kappa. cbn [pred]. rewrite (reported_below j), (reported_below (pred j)) by lia.
       pose proof (increasing (pred j) ltac:(lia)) as order. replace (S (pred j)) with j in order by lia.
       rewrite Qabs_neg by lra. ring. }
  rewrite (telescope (fun j => v (pred j))). cbn [pred]. rewrite first.
  replace (pred (1 + pred k)) with (pred k) by lia. replace (1 + pred k)%nat with k by lia.
  unfold over at 1. cbn [seq]. rewrite total_cons, total_nil.
  rewrite (over_ext (k + 1) _ _ (fun j => v (S j) - v j)).
  2: { intros j small. unfold kappa. rewrite (reported_above j), (reported_above (pred j)) by lia.
       replace (S (pred j)) with j by lia. pose proof (increasing j ltac:(lia)) as order.
       rewrite Qabs_pos by lra. ring. }
  rewrite telescope. replace (k + 1 + (m - 1 - k))%nat with m by lia. rewrite last.
  rewrite Nat.add_1_r. unfold kappa. rewrite (reported_above k), (reported_below (pred k)) by lia.
  fold width_below width_above.
  assert (v (pred k) == (1#2) - width_below) as -> by (unfold width_below; rewrite half; ring).
  assert (v (S k) == (1#2) + width_above) as -> by (unfold width_above; rewrite half; ring).
  destruct (Q.min_spec width_below width_above) as [[order least]|[order least]]; rewrite least.
  - rewrite Qabs_pos by lra. ring.
  - rewrite Qabs_neg by lra. ring.
Qed.

Lemma graded_biases :
  over 1 (pred m) (fun j => 1 + Qabs (kappa v p j)) == inject_Z (Z.of_nat m) - 2 * Qmin width_below width_above.
Proof.
  unfold over. rewrite total_plus, total_constant, seq_length. fold (over 1 (pred m) (fun j => Qabs (kappa v p j))).
  rewrite graded_kappas. pose proof middle_inside as [inner _].
  replace (Z.of_nat m) with (Z.of_nat (pred m) + 1)%Z by lia. rewrite inject_Z_plus. ring.
Qed.

(** T rounds: lambda T + m/2 less the width beside 1/2. Any W rounds in a row: lambda W + m less twice that. *)
Theorem graded_distance lambda ys : fits lambda L = true ->
  within (lambda * rounds ys + (1#2) * inject_Z (Z.of_nat m) - Qmin width_below width_above) (forecasts_of L ys) ys.
Proof.
  intros small. eapply within_more; [apply (rule_distance L fine lambda ys)|].
  - intros j below. now apply fits_each.
  - rewrite graded_biases. unfold rounds. lra.
Qed.

Theorem graded_window lambda ys zs : fits lambda L = true ->
  within (lambda * rounds zs + inject_Z (Z.of_nat m) - 2 * Qmin width_below width_above) (later_forecasts L ys zs) zs.
Proof.
  intros small. eapply within_more; [apply (window_distance L lambda ys zs fine)|].
  - intros j below. now apply fits_each.
  - rewrite graded_biases. lra.
Qed.

End Graded.

(** Any graded grid, given as a list of points: x, checked by computation, for all that is no longer than T. *)
Definition proves (unit : positive) (points : list Z) (k : nat) (lambda T x : Q) : bool :=
  good (graded unit points) && centred (graded unit points) k && fits lambda (graded unit points)
  && Qle_bool (lambda * T + (1#2) * inject_Z (Z.of_nat (pred (length points)))
               - Qmin (width_below unit points k) (width_above unit points k)) x.

Theorem proved_number unit points k lambda T x ys : proves unit points k lambda T x = true -> rounds ys <= T ->
  within x (forecasts_of (graded unit points) ys) ys.
Proof.
  unfold proves. rewrite !andb_true_iff, Qle_bool_iff. intros [[[fine middle] small] number] enough.
  eapply within_more; [now apply (graded_distance unit points k fine middle lambda)|].
  eapply Qle_trans; [|exact number].
  pose proof (fits_each _ _ _ small (Nat.le_refl _)) as some. rewrite graded_r_last in some by eassumption.
  assert (lambda * rounds ys <= lambda * T) as more by (rewrite !(Qmult_comm lambda); now apply Qmult_le_compat_r).
  unfold cells. cbn [Rule.points graded]. lra.
Qed.
