(** Forecasts of outcomes in {0, 1}; perfect calibration; the distance to it, a sum over rounds.

    A sequence of numbers is perfectly calibrated if, of the rounds with any one number v, the mean outcome is v.
    The distance of forecasts to calibration is the least sum of |p_t - q_t| over calibrated q: that it exists is
    proved here. *)

From Coq Require Import List Bool Arith ZArith QArith Qabs Qminmax Lia Lqa.
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
  apart (map forecast l) (means l) <= certificate n l.
Proof.
  intros labelled. unfold apart, means, certificate, moved. rewrite combine_maps, total_map. cbn [fst snd].
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

(** ** The distance exists: a calibrated sequence gives each of its level sets the mean outcome *)

Definition close (p q : list Q) : Prop := Forall2 Qeq p q.

Lemma apart_close p q q' : close q q' -> apart p q == apart p q'.
Proof.
  intros same. revert p. induction same as [|a b q q' equal rest IH]; intros [|x p]; try reflexivity.
  unfold apart in *. simpl combine. rewrite !total_cons, IH. cbn [fst snd]. now rewrite equal.
Qed.

(** The position in q of the first number equal to x. *)
Fixpoint place (x : Q) (q : list Q) : nat :=
  match q with
  | [] => 0
  | a :: q => if Qeq_bool a x then 0 else S (place x q)
  end.

Lemma place_below x q : In x q -> (place x q < length q)%nat.
Proof.
  induction q as [|a q IH]; intros inside; [destruct inside|].
  simpl. destruct (Qeq_bool a x) eqn:same; [lia|].
  destruct inside as [->|inside]; [now rewrite Qeq_bool_refl in same|]. specialize (IH inside). lia.
Qed.

Lemma place_same x z q : In x q -> In z q -> (place z q =? place x q)%nat = Qeq_bool z x.
Proof.
  intros inside_x inside_z. destruct (Qeq_bool z x) eqn:same.
  - apply Nat.eqb_eq. clear inside_x inside_z. induction q as [|a q IH]; [reflexivity|]. simpl.
    apply Qeq_bool_iff in same.
    replace (Qeq_bool a z) with (Qeq_bool a x); [now rewrite IH|].
    apply eq_true_iff_eq. rewrite !Qeq_bool_iff, same. reflexivity.
  - apply Nat.eqb_neq. intros equal. apply Qeq_bool_neq in same. apply same. clear same.
    revert inside_x inside_z equal. induction q as [|a q IH]; intros inside_x inside_z; [destruct inside_x|].
    simpl. destruct (Qeq_bool a z) eqn:first_z, (Qeq_bool a x) eqn:first_x; intros equal; try discriminate.
    + apply Qeq_bool_iff in first_z, first_x. now rewrite <- first_z.
    + apply IH; [| |congruence].
      * destruct inside_x as [->|]; [now rewrite Qeq_bool_refl in first_x|assumption].
      * destruct inside_z as [->|]; [now rewrite Qeq_bool_refl in first_z|assumption].
Qed.

(** All ways to label rounds 0 to n - 1. *)
Fixpoint labellings (n rounds : nat) : list (list nat) :=
  match rounds with
  | O => [[]]
  | S rounds => flat_map (fun rest => map (fun j => j :: rest) (seq 0 n)) (labellings n rounds)
  end.

Lemma labellings_all n l : (forall j, In j l -> (j < n)%nat) -> In l (labellings n (length l)).
Proof.
  induction l as [|j l IH]; intros below; [now left|].
  simpl. apply in_flat_map. exists l. split; [apply IH; intros; apply below; now right|].
  apply (in_map (fun i => i :: l)), in_seq. specialize (below j (or_introl eq_refl)). lia.
Qed.

Lemma labellings_length n rounds l : In l (labellings n rounds) -> length l = rounds.
Proof.
  revert l. induction rounds as [|rounds IH]; intros l inside; simpl in inside.
  - now destruct inside as [<-|[]].
  - apply in_flat_map in inside as (rest & inside & made). apply in_map_iff in made as (j & <- & _).
    simpl. now rewrite (IH rest).
Qed.

(** The means of a labelling of the rounds with outcomes ys. *)
Definition labelled_means (ys : list bool) (labels : list nat) : list Q := means fst snd (combine labels ys).

Lemma outcomes_of_combined {B} (l : list B) (ys : list bool) : length l = length ys -> map snd (combine l ys) = ys.
Proof. revert ys; induction l; intros [|y ys] same; simpl in *; try congruence. f_equal. apply IHl. congruence. Qed.

Lemma labels_of_combined {B} (l : list B) (ys : list bool) : length l = length ys -> map fst (combine l ys) = l.
Proof. revert ys; induction l; intros [|y ys] same; simpl in *; try congruence. f_equal. apply IHl. congruence. Qed.

Lemma calibrated_is_labelled q ys : calibrated q ys ->
  close q (labelled_means ys (map (fun x => place x q) q)).
Proof.
  intros [same none]. unfold labelled_means, means.
  set (rounds := combine (map (fun x => place x q) q) ys).
  (* the mean of the rounds that share the label of x is x *)
  assert (forall x, In x q -> mean fst snd (place x q) rounds == x) as at_mean.
  { intros x inside.
    assert (forall z zs, (forall a, In a z -> In a q) -> length z = length zs ->
              bias_at x z zs == x * count fst (place x q) (combine (map (fun x => place x q) z) zs)
                                - ones fst snd (place x q) (combine (map (fun x => place x q) z) zs)) as counted.
    { induction z as [|a z IH]; intros [|y zs] within long; try discriminate.
      - unfold bias_at, count, ones. simpl. rewrite !total_nil. ring.
      - unfold bias_at, count, ones in *. simpl combine. rewrite !total_cons, IH;
          [|intros; apply within; now right|now injection long]. simpl.
        rewrite (place_same x a q inside) by (apply within; now left).
        destruct (Qeq_bool a x), y; simpl; ring. }
    specialize (counted q ys (fun a h => h) same). rewrite none in counted. fold rounds in counted.
    assert (0 < count fst (place x q) rounds) as some.
    { unfold rounds. clear - inside same. unfold count.
      assert (forall z (zs : list bool), In x z -> length z = length zs ->
        0 < total (fun a : nat * bool => if (fst a =? place x q)%nat then 1 else 0)
                  (combine (map (fun x => place x q) z) zs)) as found.
      { induction z as [|a z IH]; intros [|y zs] within long; try discriminate; [destruct within|].
        simpl combine. rewrite total_cons. simpl fst. destruct within as [->|within].
        - rewrite Nat.eqb_refl. apply Qlt_le_trans with 1; [reflexivity|].
          rewrite <- (Qplus_0_r 1) at 1. apply Qplus_le_r. apply total_nonnegative.
          intros b _. destruct (fst b =? place x q)%nat; discriminate.
        - apply Qlt_le_trans with (0 + total (fun a : nat * bool => if (fst a =? place x q)%nat then 1 else 0)
                  (combine (map (fun x => place x q) z) zs)).
          + rewrite Qplus_0_l. apply IH; [assumption|now injection long].
          + apply Qplus_le_l. destruct (place a q =? place x q)%nat; discriminate. }
      now apply found. }
    unfold mean. apply Qmult_inj_r with (count fst (place x q) rounds); [lra|].
    setoid_replace (ones fst snd (place x q) rounds / count fst (place x q) rounds * count fst (place x q) rounds)
      with (ones fst snd (place x q) rounds) by (field; lra).
    lra. }
  assert (map (fun a => mean fst snd (fst a) rounds) rounds
          = map (fun x => mean fst snd (place x q) rounds) q) as ->.
  { rewrite <- (map_map fst (fun j => mean fst snd j rounds)).
    unfold rounds at 2. rewrite labels_of_combined by now rewrite map_length. now rewrite map_map. }
  clear none same. revert at_mean. generalize rounds. intros l at_mean.
  assert (forall z, (forall x, In x z -> In x q) -> close z (map (fun x => mean fst snd (place x q) l) z)) as all.
  { induction z as [|a z IH]; intros within; simpl; constructor.
    - symmetry. apply at_mean, within. now left.
    - apply IH. intros; apply within; now right. }
  now apply all.
Qed.

Definition least (x : Q) (l : list Q) : Q := fold_right Qmin x l.

Lemma least_below x l a : In a (x :: l) -> least x l <= a.
Proof.
  induction l as [|b l IH]; intros inside; cbn [least fold_right].
  - destruct inside as [->|[]]. apply Qle_refl.
  - fold (least x l). destruct inside as [->|[->|inside]].
    + eapply Qle_trans; [apply Q.le_min_r|]. apply IH. now left.
    + apply Q.le_min_l.
    + eapply Qle_trans; [apply Q.le_min_r|]. apply IH. now right.
Qed.

Lemma least_attained x l : exists a, In a (x :: l) /\ least x l == a.
Proof.
  induction l as [|b l (a & inside & equal)]; cbn [least fold_right].
  - exists x. split; [now left|reflexivity].
  - fold (least x l). destruct (Q.min_spec b (least x l)) as [[_ first]|[_ first]].
    + exists b. split; [now right; left|assumption].
    + exists a. split; [|now rewrite first]. destruct inside; [now left|now right; right].
Qed.

(** The distance to calibration, as a function: the least over all labellings. *)
Definition distance (p : list Q) (ys : list bool) : Q :=
  match map (fun labels => apart p (labelled_means ys labels)) (labellings (length ys) (length ys)) with
  | [] => 0
  | x :: l => least x l
  end.

Lemma some_labelling rounds : labellings rounds rounds <> [].
Proof.
  intros none. assert (In (repeat 0%nat rounds) (labellings rounds rounds)) as inside.
  { rewrite <- (repeat_length 0%nat rounds) at 3. apply labellings_all.
    intros j inside. destruct rounds; [destruct inside|]. apply repeat_spec in inside. lia. }
  now rewrite none in inside.
Qed.

Theorem distance_is_least p ys : is_distance p ys (distance p ys).
Proof.
  unfold distance. set (all := map _ _).
  assert (forall a, In a all -> exists q, calibrated q ys /\ apart p q == a) as made.
  { intros a inside. apply in_map_iff in inside as (labels & <- & inside).
    apply labellings_length in inside. exists (labelled_means ys labels). split; [|reflexivity].
    rewrite <- (outcomes_of_combined labels ys inside) at 2. apply means_are_calibrated. }
  assert (forall q, calibrated q ys -> exists a, In a all /\ a == apart p q) as found.
  { intros q good. exists (apart p (labelled_means ys (map (fun x => place x q) q))). split.
    - unfold all. apply (in_map (fun labels => apart p (labelled_means ys labels))).
      destruct good as [same _]. rewrite <- same at 2.
      rewrite <- (map_length (fun x => place x q) q) at 1. apply labellings_all.
      intros j inside. apply in_map_iff in inside as (x & <- & inside). rewrite <- same. now apply place_below.
    - apply apart_close. pose proof (calibrated_is_labelled q ys good) as same. clear - same.
      induction same; constructor; [now symmetry|assumption]. }
  destruct all as [|x l] eqn:shape.
  - exfalso. apply (some_labelling (length ys)). now apply map_eq_nil in shape.
  - split.
    + destruct (least_attained x l) as (a & inside & equal). destruct (made a inside) as (q & good & same).
      exists q. split; [assumption|]. now rewrite equal.
    + intros q good. destruct (found q good) as (a & inside & same). rewrite <- same. now apply least_below.
Qed.

(** It is one number, and at most what any calibrated sequence shows. *)
Lemma distance_unique p ys d d' : is_distance p ys d -> is_distance p ys d' -> d == d'.
Proof.
  intros [(q & good & same) low] [(q' & good' & same') low'].
  apply Qle_antisym; [rewrite <- same'; now apply low|rewrite <- same; now apply low'].
Qed.

Lemma distance_at_most p ys q x : calibrated q ys -> apart p q <= x -> distance p ys <= x.
Proof.
  intros good near. destruct (distance_is_least p ys) as [_ low].
  apply Qle_trans with (apart p q); [now apply low|assumption].
Qed.
