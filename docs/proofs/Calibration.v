(** Forecasts of outcomes in {0, 1}; perfect calibration; the distance to it, a sum over rounds.

    A sequence of numbers is perfectly calibrated if, of the rounds with any one number v, the mean outcome is v.
    The distance of forecasts to calibration is the least sum of |p_t - q_t| over calibrated q. *)

From Coq Require Import List Bool Arith ZArith QArith Qabs Lia Lqa.
From Onlinecal Require Import Sums.
Import ListNotations.
Open Scope Q_scope.

Definition number (y : bool) : Q := if y then 1 else 0.

(** The bias at v: the sum of v - y over the rounds whose number is v. *)
Definition bias_at (v : Q) (q : list Q) (ys : list bool) : Q :=
  total (fun r => if Qeq_bool (fst r) v then v - number (snd r) else 0) (combine q ys).

Definition calibrated (q : list Q) (ys : list bool) : Prop :=
  length q = length ys /\ forall v, bias_at v q ys == 0.

(** The sum of |p_t - q_t|. *)
Definition apart (p q : list Q) : Q := total (fun r => Qabs (fst r - snd r)) (combine p q).

(** d is the distance to calibration of the forecasts p. *)
Definition is_distance (p : list Q) (ys : list bool) (d : Q) : Prop :=
  (exists q, calibrated q ys /\ apart p q == d) /\ forall q, calibrated q ys -> d <= apart p q.

(** The forecasts p are within x of calibrated: there is such a sequence. *)
Definition within (x : Q) (p : list Q) (ys : list bool) : Prop := exists q, calibrated q ys /\ apart p q <= x.

Lemma distance_at_most x p ys d : is_distance p ys d -> within x p ys -> d <= x.
Proof. intros [_ low] (q & good & near). apply Qle_trans with (apart p q); [now apply low|assumption]. Qed.
Lemma within_more x z p ys : within x p ys -> x <= z -> within z p ys.
Proof. intros (q & good & near) more. exists q. split; [assumption|]. now apply Qle_trans with x. Qed.

Lemma combine_maps {A B C} (f : A -> B) (h : A -> C) l :
  combine (map f l) (map h l) = map (fun a => (f a, h a)) l.
Proof. induction l; simpl; congruence. Qed.

(** ** Rounds with labels: every label's rounds at their mean outcome *)

Section Labelled.

Context {A : Type} (label : A -> nat) (outcome : A -> bool).

(** How many rounds have the label j, and how many of them have the outcome 1. *)
Definition count (j : nat) (l : list A) : Q := total (fun a => if (label a =? j)%nat then 1 else 0) l.
Definition ones (j : nat) (l : list A) : Q :=
  total (fun a => if (label a =? j)%nat then number (outcome a) else 0) l.
Definition mean (j : nat) (l : list A) : Q := ones j l / count j l.
Definition means (l : list A) : list Q := map (fun a => mean (label a) l) l.

Lemma ones_between j l : 0 <= ones j l <= count j l.
Proof.
  split.
  - apply total_nonnegative. intros a _. destruct (label a =? j)%nat, (outcome a); simpl; lra.
  - apply total_le. intros a _. destruct (label a =? j)%nat, (outcome a); simpl; lra.
Qed.

Lemma mean_times_count j l : count j l * mean j l == ones j l.
Proof.
  pose proof (ones_between j l) as between. unfold mean.
  destruct (Qeq_dec (count j l) 0) as [none|some].
  - rewrite none in *. assert (ones j l == 0) as -> by lra. reflexivity.
  - field. exact some.
Qed.

(** What f gives to a label's rounds, x with outcome 1 and z with outcome 0. *)
Lemma label_total j x z l :
  total (fun a => if (label a =? j)%nat then (if outcome a then x else z) else 0) l
  == x * ones j l + z * (count j l - ones j l).
Proof.
  unfold ones, count. induction l as [|a l IH]; [rewrite !total_nil; ring|].
  rewrite !total_cons, IH. destruct (label a =? j)%nat, (outcome a); simpl; ring.
Qed.

Lemma counts_add_up n l : (forall a, In a l -> (label a < n)%nat) ->
  over 0 n (fun j => count j l) == inject_Z (Z.of_nat (length l)).
Proof.
  intros labelled. unfold count. rewrite <- (by_label label (fun _ => 1) n l labelled).
  rewrite total_constant. ring.
Qed.

Lemma means_are_calibrated l : calibrated (means l) (map outcome l).
Proof.
  split; [unfold means; now rewrite !map_length|].
  intros v. unfold bias_at, means. rewrite combine_maps, total_map. cbn [fst snd].
  destruct (labels_are_bounded label l) as [n labelled].
  rewrite (by_label label _ n l labelled). apply over_zero. intros j _.
  transitivity (total (fun a => if (label a =? j)%nat
                                then (if outcome a then (if Qeq_bool (mean j l) v then v - 1 else 0)
                                      else (if Qeq_bool (mean j l) v then v else 0)) else 0) l).
  { apply total_ext. intros a _. destruct (Nat.eqb_spec (label a) j) as [->|]; [|reflexivity].
    destruct (Qeq_bool (mean j l) v), (outcome a); simpl; ring. }
  rewrite label_total. pose proof (mean_times_count j l) as known.
  destruct (Qeq_bool (mean j l) v) eqn:same; [|ring].
  apply Qeq_bool_iff in same. rewrite same in known. rewrite <- known. ring.
Qed.

(** ** The certificate: whatever chose the charged points, it bounds the distance (Fact 8 of the theory) *)

Context (point : nat -> Q) (forecast : A -> Q).

(** The bias of a label, if its rounds were forecast at the label's point. *)
Definition bias (j : nat) (l : list A) : Q := point j * count j l - ones j l.

(** From the forecasts to the charged points. *)
Definition moved (l : list A) : Q := total (fun a => Qabs (forecast a - point (label a))) l.
Definition certificate (n : nat) (l : list A) : Q := moved l + over 0 n (fun j => Qabs (bias j l)).

Theorem certificate_bounds_distance n l : (forall a, In a l -> (label a < n)%nat) ->
  within (certificate n l) (map forecast l) (map outcome l).
Proof.
  intros labelled. exists (means l). split; [apply means_are_calibrated|].
  unfold apart, means, certificate, moved. rewrite combine_maps, total_map. cbn [fst snd].
  apply Qle_trans with (total (fun a => Qabs (forecast a - point (label a))
                                        + Qabs (point (label a) - mean (label a) l)) l).
  - apply total_le. intros a _.
    setoid_replace (forecast a - mean (label a) l)
      with (forecast a - point (label a) + (point (label a) - mean (label a) l)) by ring.
    apply Qabs_triangle.
  - rewrite total_plus. apply Qplus_le_r.
    rewrite (by_label label (fun a => Qabs (point (label a) - mean (label a) l)) n l labelled).
    apply over_le. intros j _.
    rewrite (total_ext _ (fun a => if (label a =? j)%nat
      then (if outcome a then Qabs (point j - mean j l) else Qabs (point j - mean j l)) else 0)).
    + rewrite label_total. pose proof (ones_between j l) as between.
      setoid_replace (Qabs (point j - mean j l) * ones j l + Qabs (point j - mean j l) * (count j l - ones j l))
        with (count j l * Qabs (point j - mean j l)) by ring.
      rewrite <- (Qabs_pos (count j l)) at 1 by lra. rewrite <- Qabs_Qmult.
      unfold bias. rewrite <- (mean_times_count j l).
      setoid_replace (count j l * (point j - mean j l)) with (point j * count j l - count j l * mean j l) by ring.
      apply Qle_refl.
    + intros a _. destruct (Nat.eqb_spec (label a) j) as [->|]; destruct (outcome a); reflexivity.
Qed.

End Labelled.
