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

Lemma means_map {A B} (h : A -> B) label outcome l :
  means label outcome (map h l) = means (fun a => label (h a)) (fun a => outcome (h a)) l.
Proof.
  unfold means. rewrite map_map. apply map_ext. intros a. unfold mean, ones, count. now rewrite !total_map.
Qed.

Lemma apart_ext {A} (f h : A -> Q) l p : (forall a, In a l -> f a == h a) -> apart p (map f l) == apart p (map h l).
Proof.
  revert p. induction l as [|a l IH]; intros [|x p] same; try reflexivity. unfold apart in *.
  cbn [map combine]. rewrite !total_cons, IH by (intros; apply same; now right). cbn [fst snd].
  now rewrite (same a) by now left.
Qed.

(** The position in q of the first number equal to x: a label for each level set. *)
Fixpoint place (x : Q) (q : list Q) : nat :=
  match q with
  | [] => 0
  | a :: q => if Qeq_bool a x then 0 else S (place x q)
  end.

Lemma place_finds x q : In x q -> (place x q < length q)%nat /\ nth (place x q) q 0 == x.
Proof.
  induction q as [|a q IH]; intros inside; [destruct inside|]. simpl.
  destruct (Qeq_bool a x) eqn:same; [split; [lia|now apply Qeq_bool_iff]|].
  destruct inside as [->|inside]; [now rewrite Qeq_bool_refl in same|]. destruct (IH inside). split; [lia|assumption].
Qed.

Lemma place_same x z q : In x q -> In z q -> (place z q =? place x q)%nat = Qeq_bool z x.
Proof.
  intros [_ at_x]%place_finds [_ at_z]%place_finds. apply eq_true_iff_eq. rewrite Nat.eqb_eq, Qeq_bool_iff.
  split; intros same; [now rewrite <- at_x, <- at_z, same|]. clear at_x at_z.
  induction q as [|a q IH]; [reflexivity|]. simpl. rewrite IH.
  replace (Qeq_bool a z) with (Qeq_bool a x); [reflexivity|].
  apply eq_true_iff_eq. rewrite !Qeq_bool_iff, same. reflexivity.
Qed.

Lemma level_mean q ys r : calibrated q ys -> In r (combine q ys) ->
  mean (fun s => place (fst s) q) snd (place (fst r) q) (combine q ys) == fst r.
Proof.
  intros [_ none] found. specialize (none (fst r)). set (l := combine q ys) in *.
  set (label := fun s : Q * bool => place (fst s) q). change (place (fst r) q) with (label r).
  assert (fst r * count label (label r) l - ones label snd (label r) l == 0) as balance.
  { rewrite <- none. unfold bias_at, count, ones. unfold Qminus. rewrite <- total_scaled.
    setoid_replace (- total (fun a => if (label a =? label r)%nat then number (snd a) else 0) l)
      with (- (1) * total (fun a => if (label a =? label r)%nat then number (snd a) else 0) l) by ring.
    rewrite <- total_scaled, <- total_plus. apply total_ext. intros [x y] other. unfold label. cbn [fst snd].
    rewrite place_same by (unfold l in *; destruct r; eapply in_combine_l; eassumption).
    destruct (Qeq_bool x (fst r)); ring. }
  assert (0 < count label (label r) l) as some.
  { clear - found. unfold count. apply in_split in found as (before & after & ->).
    rewrite total_app, total_cons, Nat.eqb_refl.
    assert (forall k, 0 <= total (fun a => if (label a =? label r)%nat then 1 else 0) k) as least.
    { intros k. apply total_nonnegative. intros a _. destruct (_ =? _)%nat; discriminate. }
    pose proof (least before). pose proof (least after). lra. }
  pose proof (mean_times_count label snd (label r) l) as known.
  apply Qmult_inj_l with (count label (label r) l); lra.
Qed.

(** All ways to label rounds with numbers below n. *)
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

Lemma labelled_means_are_calibrated ys labels : length labels = length ys -> calibrated (labelled_means ys labels) ys.
Proof.
  intros same. replace ys with (map snd (combine labels ys)) at 2; [apply means_are_calibrated|].
  revert ys same. induction labels; intros [|y ys] same; simpl in *; try congruence. f_equal. apply IHlabels. congruence.
Qed.

Lemma calibrated_is_labelled p q ys : calibrated q ys ->
  apart p (labelled_means ys (map (fun x => place x q) q)) == apart p q.
Proof.
  intros good. pose proof (fun r => level_mean q ys r good) as at_mean. destruct good as [same _].
  assert (forall z zs, combine (map (fun x => place x q) z) zs
                       = map (fun r : Q * bool => (place (fst r) q, snd r)) (combine z zs)) as mapped.
  { induction z as [|x z IH]; intros [|y zs]; simpl; try rewrite IH; reflexivity. }
  unfold labelled_means. rewrite mapped, means_map. unfold means. cbn [fst snd].
  rewrite (apart_ext _ fst) by exact at_mean.
  replace (map fst (combine q ys)) with q; [reflexivity|]. clear - same.
  revert ys same. induction q; intros [|y ys] same; simpl in *; try congruence. f_equal. apply IHq. congruence.
Qed.

Definition least (x : Q) (l : list Q) : Q := fold_right Qmin x l.

Lemma least_spec x l : (exists a, In a (x :: l) /\ least x l == a) /\ forall a, In a (x :: l) -> least x l <= a.
Proof.
  induction l as [|b l [(a & inside & same) below]]; cbn [least fold_right].
  { split; [exists x; split; [now left|reflexivity]|]. intros a [->|[]]. apply Qle_refl. }
  fold (least x l). split.
  - destruct (Q.min_spec b (least x l)) as [[_ first]|[_ first]].
    + exists b. split; [now right; left|assumption].
    + exists a. split; [|now rewrite first]. destruct inside; [now left|now right; right].
  - intros c [->|[->|found]]; [eapply Qle_trans; [apply Q.le_min_r|]|apply Q.le_min_l|
      eapply Qle_trans; [apply Q.le_min_r|]]; apply below; [now left|now right].
Qed.

(** The distance to calibration, as a function: the least over all labellings. *)
Definition distance (p : list Q) (ys : list bool) : Q :=
  let by_labels labels := apart p (labelled_means ys labels) in
  least (by_labels (repeat 0%nat (length ys))) (map by_labels (labellings (length ys) (length ys))).

Theorem distance_is_least p ys : is_distance p ys (distance p ys).
Proof.
  unfold distance. set (by_labels := fun labels => _). set (all := map _ _).
  destruct (least_spec (by_labels (repeat 0%nat (length ys))) all) as [(a & found & same) below]. split.
  - assert (exists labels, length labels = length ys /\ by_labels labels = a) as (labels & long & made).
    { destruct found as [<-|found]; [exists (repeat 0%nat (length ys)); split; [apply repeat_length|reflexivity]|].
      apply in_map_iff in found as (labels & made & found). exists labels. apply labellings_length in found. now split. }
    exists (labelled_means ys labels). split; [now apply labelled_means_are_calibrated|].
    rewrite <- made in same. now symmetry.
  - intros q good. rewrite <- (calibrated_is_labelled p q ys good). apply below. right.
    apply (in_map by_labels). destruct good as [long _]. rewrite <- long at 2.
    rewrite <- (map_length (fun x => place x q) q) at 1. apply labellings_all.
    intros j inside. apply in_map_iff in inside as (x & <- & inside). rewrite <- long. now apply place_finds.
Qed.

(** It is one number, and at most what any calibrated sequence shows. *)
Lemma distance_unique p ys d : is_distance p ys d -> d == distance p ys.
Proof.
  destruct (distance_is_least p ys) as [(q & good & same) low]. intros [(q' & good' & same') low'].
  apply Qle_antisym; [rewrite <- same; now apply low'|rewrite <- same'; now apply low].
Qed.

Lemma distance_at_most p ys q x : calibrated q ys -> apart p q <= x -> distance p ys <= x.
Proof.
  intros good near. destruct (distance_is_least p ys) as [_ low].
  apply Qle_trans with (apart p q); [now apply low|assumption].
Qed.
