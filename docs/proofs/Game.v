(** The balanced rule with slack 1/2 on any grid, and what it bounds, whichever valid cells are chosen.

    The grid has the points v 0 = 0, ..., v m = 1; cell c lies between v c and v (S c), for c < m. A round is a pair
    of its cell and its outcome. It is charged to the cell's lower end if the outcome is 0, to the upper end if 1.
    In cell c the forecaster announces p c, any number of the cell. *)

From Coq Require Import List Bool Arith ZArith QArith Qabs Qminmax Lia Lqa.
From Onlinecal Require Import Sums Calibration.
Import ListNotations.
Open Scope Q_scope.

Notation round := (nat * bool)%type.

Definition charged (r : round) : nat := if snd r then S (fst r) else fst r.

(** A grid, and what is announced in each cell. *)
Record good_grid (m : nat) (v p : nat -> Q) : Prop := {
  some_cell : (0 < m)%nat;
  begins : v 0%nat == 0;
  ends : v m == 1;
  between : forall j, (j <= m)%nat -> 0 <= v j <= 1;
  inside : forall c, (c < m)%nat -> v c <= p c <= v (S c)
}.

Section Game.

Context (m : nat) (v p : nat -> Q).
Hypothesis grid : good_grid m v p.

(** The bias of point j after the rounds h: the sum of v j - y over the rounds charged to it. *)
Definition alpha (h : list round) (j : nat) : Q := bias charged snd v j h.

(** How many rounds are charged to point j. *)
Definition charges (h : list round) (j : nat) : Q := count charged j h.

(** A point accepts an outcome if a charge with it keeps the bias within [-1/2, 1/2]. *)
Definition accepts_zero (h : list round) (j : nat) : Prop := alpha h j + v j <= 1#2.
Definition accepts_one (h : list round) (j : nat) : Prop := alpha h j + v j - 1 >= -(1#2).
Definition valid (h : list round) (c : nat) : Prop := (c < m)%nat /\ accepts_zero h c /\ accepts_one h (S c).

(** Histories in which every round was played in a cell that was valid, any such cell. *)
Inductive legal : list round -> Prop :=
| legal_start : legal []
| legal_round h c y : legal h -> valid h c -> legal (h ++ [(c, y)]).

(** ** Biases *)

Lemma alpha_start j : alpha [] j == 0.
Proof. unfold alpha, bias, count, ones. rewrite !total_nil. ring. Qed.
Lemma alpha_app h w j : alpha (h ++ w) j == alpha h j + alpha w j.
Proof. unfold alpha, bias, count, ones. rewrite !total_app. ring. Qed.

Lemma alpha_one c y j : alpha [(c, y)] j == if (charged (c, y) =? j)%nat then v j - number y else 0.
Proof. unfold alpha, bias, count, ones. rewrite !total_cons, !total_nil. cbn [snd]. destruct (_ =? j)%nat; ring. Qed.

Lemma within_cells h : legal h -> forall r, In r h -> (fst r < m)%nat.
Proof.
  induction 1 as [|h c y _ IH [below _]]; intros r found; [destruct found|].
  apply in_app_or in found as [found|[<-|[]]]; [now apply IH|assumption].
Qed.

(** The points 0 and 1 never have a bias. *)
Lemma no_bias_at_ends h : legal h -> alpha h 0%nat == 0 /\ alpha h m == 0.
Proof.
  destruct grid as [_ begins ends _ _].
  induction 1 as [|h c y _ [IH0 IHm] [below _]]; [split; apply alpha_start|].
  rewrite !alpha_app, !alpha_one, IH0, IHm. unfold charged. cbn [fst snd]. split.
  - destruct y; [reflexivity|]. destruct (c =? 0)%nat; [rewrite begins|]; reflexivity.
  - destruct y; cbn [number].
    + destruct (S c =? m)%nat; [rewrite ends|]; reflexivity.
    + destruct (Nat.eqb_spec c m); [lia|reflexivity].
Qed.

(** Lemma 6: every bias stays within the slack. *)
Theorem biases_stay_within_slack h : legal h -> forall j, (j <= m)%nat -> Qabs (alpha h j) <= 1#2.
Proof.
  destruct grid as [_ _ _ between _].
  induction 1 as [|h c y _ IH (below & zero & one)]; intros j small.
  - rewrite alpha_start. discriminate.
  - specialize (IH j small). specialize (between j small). apply Qabs_Qle_condition in IH.
    apply Qabs_Qle_condition. rewrite alpha_app, alpha_one. unfold charged. cbn [fst snd].
    unfold accepts_zero, accepts_one in *. destruct y; cbn [number].
    + destruct (Nat.eqb_spec (S c) j) as [<-|]; lra.
    + destruct (Nat.eqb_spec c j) as [<-|]; lra.
Qed.

(** ** A valid cell (Lemma 5) *)

Lemma one_or_the_other h j : accepts_zero h j \/ accepts_one h j.
Proof. unfold accepts_zero, accepts_one. destruct (Qlt_le_dec (1#2) (alpha h j + v j)); [right|left]; lra. Qed.

Lemma start_accepts_zero h : legal h -> accepts_zero h 0%nat.
Proof.
  intros fine. apply no_bias_at_ends in fine as [none _]. destruct grid as [_ begins _ _ _].
  unfold accepts_zero. rewrite none, begins. discriminate.
Qed.

Lemma end_accepts_one h : legal h -> accepts_one h m.
Proof.
  intros fine. apply no_bias_at_ends in fine as [_ none]. destruct grid as [_ _ ends _ _].
  unfold accepts_one. rewrite none, ends. discriminate.
Qed.

Theorem a_valid_cell_exists h : legal h -> exists c, valid h c.
Proof.
  intros fine. pose proof (start_accepts_zero h fine) as first. pose proof (end_accepts_one h fine) as last.
  assert (forall n, (n <= m)%nat -> accepts_zero h n \/ exists c, (c < n)%nat /\ accepts_zero h c /\ accepts_one h (S c))
    as up.
  { induction n as [|n IH]; intros small; [now left|].
    destruct IH as [zero|(c & below & both)]; [lia| |right; exists c; split; [lia|assumption]].
    destruct (one_or_the_other h (S n)) as [next|one]; [now left|]. right. exists n. split; [lia|now split]. }
  destruct grid as [cells _ _ _ _]. destruct m as [|k] eqn:size; [lia|].
  destruct (up k) as [zero|(c & below & both)]; [lia| |].
  - exists k. unfold valid. rewrite size. now split; [lia|split].
  - exists c. unfold valid. rewrite size. now split; [lia|].
Qed.

(** ** Distance and biases, exactly *)

(** The expected cost of point j a round, if it is without bias in the long run, and what its bias adds. *)
Definition r (j : nat) : Q := v j * (v j - p (pred j)) + (1 - v j) * (p j - v j).
Definition kappa (j : nat) : Q := (p j - v j) - (v j - p (pred j)).

(** From the forecasts to the charged points. *)
Definition distance_moved (h : list round) : Q := moved charged v (fun a => p (fst a)) h.

Lemma charged_within h : (forall a, In a h -> (fst a < m)%nat) -> forall a, In a h -> (charged a < S m)%nat.
Proof. intros cells a found. specialize (cells a found). unfold charged. destruct (snd a); lia. Qed.

(** The identity: D = sum r_j N_j + sum kappa_j alpha_j, for all rounds, legal or not. *)
Theorem distance_is h : (forall a, In a h -> (fst a < m)%nat) ->
  distance_moved h == over 0 (S m) (fun j => r j * charges h j + kappa j * alpha h j).
Proof.
  destruct grid as [_ _ _ _ inside]. intros cells. unfold distance_moved, moved.
  rewrite (by_label charged _ (S m) h (charged_within h cells)). apply over_ext. intros j _.
  transitivity (total (fun a => if (charged a =? j)%nat
                                then (if snd a then v j - p (pred j) else p j - v j) else 0) h).
  - apply total_ext. intros [c y] found. specialize (inside c (cells _ found)). cbn [fst snd].
    destruct (Nat.eqb_spec (charged (c, y)) j) as [<-|]; [|reflexivity].
    unfold charged. cbn [fst snd]. destruct y.
    + rewrite Qabs_Qminus, Qabs_pos by lra. cbn [pred]. reflexivity.
    + rewrite Qabs_pos by lra. reflexivity.
  - rewrite label_total. unfold r, kappa, alpha, charges, bias. ring.
Qed.

Lemma charges_add_up h : (forall a, In a h -> (fst a < m)%nat) ->
  over 0 (S m) (fun j => charges h j) == inject_Z (Z.of_nat (length h)).
Proof. intros cells. apply counts_add_up. now apply charged_within. Qed.

(** The certificate of consecutive rounds w: their distance, and by how much they changed the biases. *)
Definition certified (w : list round) : Q := certificate charged snd v (fun a => p (fst a)) (S m) w.

Lemma over_inner f : f 0%nat == 0 -> f m == 0 -> over 0 (S m) f == over 1 (pred m) f.
Proof.
  destruct grid as [cells _ _ _ _]. intros first last. destruct m as [|k]; [lia|].
  rewrite over_first, over_last, first. simpl (1 + k)%nat. rewrite last. cbn [pred]. ring.
Qed.

(** Whatever cells were played: if no inner point's bias is above b, nor those of 0 and 1 different from 0. *)
Lemma certified_at_most lambda b w :
  (forall a, In a w -> (fst a < m)%nat) -> (forall j, (j <= m)%nat -> r j <= lambda) ->
  (forall j, (j <= m)%nat -> Qabs (alpha w j) <= b) -> alpha w 0%nat == 0 -> alpha w m == 0 ->
  certified w <= lambda * inject_Z (Z.of_nat (length w)) + b * over 1 (pred m) (fun j => 1 + Qabs (kappa j)).
Proof.
  intros cells small biases first last.
  unfold certified, certificate. fold (distance_moved w). rewrite (distance_is w cells).
  rewrite <- (charges_add_up w cells).
  unfold over at 1 2. rewrite <- total_plus. fold (alpha w).
  apply Qle_trans with (over 0 (S m) (fun j => lambda * charges w j + (1 + Qabs (kappa j)) * Qabs (alpha w j))).
  - apply over_le. intros j [_ below]. specialize (small j ltac:(lia)).
    assert (0 <= charges w j) as some.
    { unfold charges. apply Qle_trans with (ones charged snd j w); apply ones_between. }
    assert (r j * charges w j <= lambda * charges w j) as weighted by now apply Qmult_le_compat_r.
    assert (kappa j * alpha w j <= Qabs (kappa j) * Qabs (alpha w j)) as product.
    { rewrite <- Qabs_Qmult. apply Qle_Qabs. }
    fold (alpha w j). lra.
  - unfold over at 1. rewrite total_plus, total_scaled. fold (over 0 (S m) (fun j => charges w j)).
    apply Qplus_le_r. fold (over 0 (S m) (fun j => (1 + Qabs (kappa j)) * Qabs (alpha w j))).
    rewrite over_inner by (rewrite ?first, ?last; simpl; ring).
    unfold over. rewrite <- total_scaled. apply over_le. intros j [_ below].
    rewrite (Qmult_comm _ (Qabs (alpha w j))). apply Qmult_le_compat_r.
    + apply biases. lia.
    + pose proof (Qabs_nonneg (kappa j)). lra.
Qed.

(** ** The theorem, for every grid and every choice of valid cells *)

Definition forecasts (h : list round) : list Q := map (fun a => p (fst a)) h.
Definition outcomes (h : list round) : list bool := map snd h.

Theorem certificate_bounds h : (forall a, In a h -> (fst a < m)%nat) ->
  within (certified h) (forecasts h) (outcomes h).
Proof. intros cells. apply certificate_bounds_distance. now apply charged_within. Qed.

Theorem certified_is_small lambda h : legal h -> (forall j, (j <= m)%nat -> r j <= lambda) ->
  certified h <= lambda * inject_Z (Z.of_nat (length h)) + (1#2) * over 1 (pred m) (fun j => 1 + Qabs (kappa j)).
Proof.
  intros fine small. destruct (no_bias_at_ends h fine). apply certified_at_most; try assumption.
  - now apply within_cells.
  - now apply biases_stay_within_slack.
Qed.

(** Windows: any consecutive rounds, whatever came before them. *)
Theorem windows_are_small lambda h w : legal (h ++ w) -> legal h -> (forall j, (j <= m)%nat -> r j <= lambda) ->
  certified w <= lambda * inject_Z (Z.of_nat (length w)) + over 1 (pred m) (fun j => 1 + Qabs (kappa j)).
Proof.
  intros both before small. rewrite <- (Qmult_1_l (over _ _ _)). apply certified_at_most; [|assumption| | |].
  - intros a found. apply (within_cells (h ++ w) both). apply in_or_app. now right.
  - intros j below. pose proof (biases_stay_within_slack _ both j below) as after.
    pose proof (biases_stay_within_slack _ before j below) as first.
    rewrite alpha_app in after. apply Qabs_Qle_condition in after, first. apply Qabs_Qle_condition. lra.
  - destruct (no_bias_at_ends _ both) as [zero _], (no_bias_at_ends _ before) as [_0 _]. rewrite alpha_app in zero. lra.
  - destruct (no_bias_at_ends _ both) as [_ one], (no_bias_at_ends _ before) as [_ _1]. rewrite alpha_app in one. lra.
Qed.

End Game.
