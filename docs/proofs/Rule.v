(** The forecaster as it runs: integers, one sum a point, and the cell moves by one.

    The points of the grid are whole numbers of a unit 1/S. As in the program the table keeps for each point
    sum = bias + point, in units: the point accepts 0 iff sum <= high, and 1 iff sum >= low. *)

From Coq Require Import List Bool Arith ZArith QArith Qabs Lia Lqa.
From Onlinecal Require Import Sums Calibration Game.
Import ListNotations.
Open Scope Z_scope.

(** What is announced in the cell from a to b, in units of 1/(2 S): its middle, or its end nearer to certainty. *)
Definition midpoint (S : positive) (a b : Z) : Z := a + b.
Definition certain (S : positive) (a b : Z) : Z :=
  if 2 * b <=? Zpos S then 2 * a else if Zpos S <=? 2 * a then 2 * b else a + b.

Record lattice := Lattice {
  unit : positive;
  points : list Z;
  announce : Z -> Z -> Z;
}.

Definition entry (i : nat) (l : list Z) : Z := nth i l 0.

Fixpoint update (i : nat) (x : Z) (l : list Z) : list Z :=
  match l, i with
  | [], _ => []
  | _ :: l, O => x :: l
  | a :: l, S i => a :: update i x l
  end.

Record state := State { cell : nat; sums : list Z }.

Section Rule.

Context (L : lattice).

Definition cells : nat := pred (length (points L)).
Definition high : Z := Zpos (unit L) / 2.
Definition low : Z := Zpos (unit L) - high.

(** The current cell moves down until its lower end accepts 0, and then up until its upper end accepts 1. *)
Fixpoint down (table : list Z) (c : nat) : nat :=
  match c with
  | O => O
  | S b => if high <? entry c table then down table b else c
  end.

Fixpoint up (table : list Z) (room c : nat) : nat :=
  match room with
  | O => c
  | S room => if entry (S c) table <? low then up table room (S c) else c
  end.

Definition enter_valid (table : list Z) (c : nat) : nat :=
  let c := down table c in up table (cells - 1 - c) c.
Definition start : state := State (enter_valid (points L) 0) (points L).

(** Charge the round to the lower (0) or upper (1) end of the cell, and make a valid cell current. *)
Definition step (s : state) (above : bool) : state :=
  let index := if above then S (cell s) else cell s in
  let change := entry index (points L) - (if above then Zpos (unit L) else 0) in
  let new := entry index (sums s) + change in
  let table := update index new (sums s) in
  let next := if above then (if new <? low then index else pred index)
              else (if high <? new then pred index else index) in
  State (enter_valid table next) table.

(** The state after some outcomes, and the forecast that is announced then: before the next outcome. *)
Definition after (past : list bool) : state := fold_left step past start.
Definition reported (c : nat) : Q :=
  announce L (entry c (points L)) (entry (S c) (points L)) # (2 * unit L).
Definition forecast (past : list bool) : Q := reported (cell (after past)).

(** All forecasts of a sequence of outcomes: each is made of the outcomes before its own. *)
Definition forecasts_of (ys : list bool) : list Q :=
  map (fun t => forecast (firstn t ys)) (seq 0 (length ys)).

(** The rounds that are played, with their cells. *)
Fixpoint play (s : state) (ys : list bool) : list round :=
  match ys with
  | [] => []
  | y :: ys => (cell s, y) :: play (step s y) ys
  end.

(** ** The game that this plays *)

Definition point (j : nat) : Q := entry j (points L) # unit L.

(** The grid begins at 0, ends at 1 and increases; what is announced lies in its cell. *)
Definition good : bool :=
  (1 <? length (points L))%nat && (entry 0 (points L) =? 0) && (entry cells (points L) =? Zpos (unit L))
  && forallb (fun c => (entry c (points L) <? entry (S c) (points L))
                       && (2 * entry c (points L) <=? announce L (entry c (points L)) (entry (S c) (points L)))
                       && (announce L (entry c (points L)) (entry (S c) (points L)) <=? 2 * entry (S c) (points L)))
             (seq 0 cells).

Hypothesis fine : good = true.

Lemma good_parts : (0 < cells)%nat /\ entry 0 (points L) = 0 /\ entry cells (points L) = Zpos (unit L) /\
  forall c, (c < cells)%nat -> entry c (points L) < entry (S c) (points L)
    /\ 2 * entry c (points L) <= announce L (entry c (points L)) (entry (S c) (points L)) <= 2 * entry (S c) (points L).
Proof.
  pose proof fine as parts. unfold good in parts. rewrite !andb_true_iff in parts.
  destruct parts as [[[long first] last] each]. apply Nat.ltb_lt in long. apply Z.eqb_eq in first, last.
  split; [unfold cells; lia|]. split; [assumption|]. split; [assumption|]. intros c small.
  rewrite forallb_forall in each. assert (In c (seq 0 cells)) as found by (apply in_seq; lia).
  specialize (each c found). rewrite !andb_true_iff in each. lia.
Qed.

Lemma entries_increase i j : (i <= j <= cells)%nat -> entry i (points L) <= entry j (points L).
Proof.
  destruct good_parts as (_ & _ & _ & each).
  intros [order small]. induction order as [|j order IH]; [lia|].
  specialize (each j ltac:(lia)). specialize (IH ltac:(lia)). lia.
Qed.

Lemma lattice_is_good_grid : good_grid cells point reported.
Proof.
  destruct good_parts as (some & first & last & each).
  split; [assumption| | | |]; unfold point, reported.
  - rewrite first. reflexivity.
  - rewrite last. unfold Qeq. simpl. lia.
  - intros j small. pose proof (entries_increase 0 j ltac:(lia)). pose proof (entries_increase j cells ltac:(lia)).
    unfold Qle. simpl. lia.
  - intros c below. destruct (each c below) as [_ [above less]]. unfold Qle. simpl.
    generalize dependent (announce L (entry c (points L)) (entry (S c) (points L))). intros. nia.
Qed.

Notation legal := (legal cells point).
Notation valid := (valid cells point).
Notation alpha := (alpha point).
Notation accepts_zero := (accepts_zero point).
Notation accepts_one := (accepts_one point).

(** The table holds the biases of the history. *)
Definition represents (h : list round) (table : list Z) : Prop :=
  length table = S cells /\ forall j, (j <= cells)%nat -> (entry j table # unit L == alpha h j + point j)%Q.

Lemma rule_accepts_zero h table j : represents h table -> (j <= cells)%nat ->
  (high <? entry j table) = false <-> accepts_zero h j.
Proof.
  intros [_ same] small. unfold Game.accepts_zero. rewrite <- (same j small), Z.ltb_ge. unfold high, Qle. cbn [Qnum Qden].
  pose proof (Z.div_mod (Zpos (unit L)) 2 ltac:(lia)). pose proof (Z.mod_pos_bound (Zpos (unit L)) 2 ltac:(lia)). lia.
Qed.

Lemma rule_accepts_one h table j : represents h table -> (j <= cells)%nat ->
  (entry j table <? low) = false <-> accepts_one h j.
Proof.
  intros [_ same] small. unfold Game.accepts_one. rewrite <- (same j small), Z.ltb_ge. unfold low, high.
  pose proof (Z.div_mod (Zpos (unit L)) 2 ltac:(lia)). pose proof (Z.mod_pos_bound (Zpos (unit L)) 2 ltac:(lia)).
  unfold Qle. simpl Qnum. simpl Qden. lia.
Qed.

Lemma down_accepts h table c : legal h -> represents h table -> (c <= cells)%nat ->
  (down table c <= c)%nat /\ accepts_zero h (down table c).
Proof.
  intros played same. induction c as [|c IH]; intros small; simpl.
  - split; [lia|]. now apply (start_accepts_zero cells point reported lattice_is_good_grid).
  - destruct (high <? entry (S c) table) eqn:refused.
    + destruct IH as [below zero]; [lia|]. now split; [lia|].
    + split; [lia|]. now apply (rule_accepts_zero h table).
Qed.

Lemma up_accepts h table room c : legal h -> represents h table -> (c + room = cells - 1)%nat ->
  accepts_zero h c -> valid h (up table room c).
Proof.
  intros played same. pose proof (some_cell _ _ _ lattice_is_good_grid) as some.
  revert c. induction room as [|room IH]; intros c sum zero; simpl.
  - split; [lia|]. split; [assumption|]. replace (S c) with cells by lia.
    now apply (end_accepts_one cells point reported lattice_is_good_grid).
  - destruct (entry (S c) table <? low) eqn:refused.
    + apply IH; [lia|]. destruct (one_or_the_other point h (S c)) as [next|one]; [assumption|].
      apply (rule_accepts_one h table) in one; [congruence|assumption|lia].
    + split; [lia|]. split; [assumption|]. apply (rule_accepts_one h table); [assumption|lia|assumption].
Qed.

Lemma enters_valid h table c : legal h -> represents h table -> (c < cells)%nat -> valid h (enter_valid table c).
Proof.
  intros played same small. unfold enter_valid.
  destruct (down_accepts h table c played same) as [below zero]; [lia|].
  apply up_accepts; [assumption|assumption|lia|assumption].
Qed.

Lemma update_length i x l : length (update i x l) = length l.
Proof. revert i; induction l; intros [|i]; simpl; auto. Qed.

Lemma entry_update i x l j : (i < length l)%nat ->
  entry j (update i x l) = if (i =? j)%nat then x else entry j l.
Proof.
  revert i j; induction l as [|a l IH]; intros [|i] [|j] small; simpl in *; try lia; try reflexivity.
  unfold entry in *. simpl. apply IH. lia.
Qed.

(** A state is right for a history if its table is, and its cell is valid. *)
Definition right (h : list round) (s : state) : Prop := legal h /\ represents h (sums s) /\ valid h (cell s).

Lemma start_is_right : right [] start.
Proof.
  assert (represents [] (points L)) as same.
  { split; [unfold cells; pose proof (some_cell _ _ _ lattice_is_good_grid); unfold cells in *; lia|].
    intros j _. rewrite (alpha_start point). unfold point. ring. }
  split; [constructor|]. split; [assumption|]. apply enters_valid; [constructor|assumption|].
  apply (some_cell _ _ _ lattice_is_good_grid).
Qed.

Lemma step_is_right h s y : right h s -> right (h ++ [(cell s, y)]) (step s y).
Proof.
  intros (played & [long same] & now_valid). pose proof (legal_round cells point h (cell s) y played now_valid) as later.
  destruct now_valid as (below & _). unfold step.
  set (index := if y then S (cell s) else cell s). set (change := entry index (points L) - _).
  set (table := update index _ (sums s)). set (next := if y then _ else _).
  assert (index <= cells)%nat as inside by (destruct y; unfold index; lia).
  assert (represents (h ++ [(cell s, y)]) table) as kept.
  { split; [unfold table; now rewrite update_length|]. intros j small. unfold table.
    rewrite entry_update by lia. rewrite (alpha_app point), (alpha_one point).
    replace (charged (cell s, y)) with index by reflexivity.
    destruct (Nat.eqb_spec index j) as [<-|]; [|rewrite same by lia; ring].
    rewrite <- Qplus_assoc, (Qplus_comm _ (point index)), Qplus_assoc, <- (same index small).
    unfold change, point, Qeq, number. destruct y; simpl; nia. }
  split; [assumption|]. split; [assumption|]. cbn [sums cell]. apply enters_valid; [assumption|assumption|].
  unfold next. destruct y; unfold index in *.
  - destruct (_ <? low) eqn:refused; cbn [pred]; [|lia].
    destruct (Nat.eq_dec (S (cell s)) cells) as [last|]; [|lia]. exfalso.
    pose proof (end_accepts_one cells point reported lattice_is_good_grid _ later) as one. rewrite <- last in one.
    apply (rule_accepts_one _ _ _ kept) in one; [|lia]. unfold table in one.
    rewrite entry_update, Nat.eqb_refl in one by lia. congruence.
  - destruct (high <? _); lia.
Qed.

Lemma played_is_legal h s ys : right h s -> legal (h ++ play s ys).
Proof.
  revert h s; induction ys as [|y ys IH]; intros h s proper; simpl.
  - rewrite app_nil_r. apply proper.
  - change ((cell s, y) :: play (step s y) ys) with ([(cell s, y)] ++ play (step s y) ys). rewrite app_assoc.
    apply IH. now apply step_is_right.
Qed.

Theorem rule_is_legal ys : legal (play start ys).
Proof. apply (played_is_legal [] start ys start_is_right). Qed.
Lemma outcomes_of_play s ys : outcomes (play s ys) = ys.
Proof. revert s; induction ys as [|y ys IH]; intros s; [reflexivity|]. unfold outcomes in *. simpl. now rewrite IH. Qed.
Lemma rounds_of_play s ys : length (play s ys) = length ys.
Proof. rewrite <- (outcomes_of_play s ys) at 2. unfold outcomes. now rewrite map_length. Qed.
Lemma play_app s ys zs : play s (ys ++ zs) = play s ys ++ play (fold_left step ys s) zs.
Proof. revert s; induction ys as [|y ys IH]; intros s; simpl; [reflexivity|]. now rewrite IH. Qed.

(** The forecasts, each a function of the outcomes before its own, are those of the cells that are played. *)
Lemma forecasts_of_play ys : forecasts_of ys = forecasts reported (play start ys).
Proof.
  unfold forecasts_of. induction ys as [|y ys IH] using rev_ind; [reflexivity|].
  rewrite app_length, play_app. unfold forecasts in *. rewrite map_app, <- IH. simpl length.
  rewrite Nat.add_1_r, seq_S, map_app. f_equal.
  - apply map_ext_in. intros t found%in_seq. rewrite firstn_app.
    replace (t - length ys)%nat with 0%nat by lia. now rewrite app_nil_r.
  - simpl. now rewrite firstn_app, Nat.sub_diag, firstn_all, app_nil_r.
Qed.

(** The theorem for any grid: r_j at most lambda for all points. *)
Theorem rule_distance lambda ys : (forall j, (j <= cells)%nat -> (r point reported j <= lambda)%Q) ->
  within (lambda * inject_Z (Z.of_nat (length ys))
          + (1#2) * over 1 (pred cells) (fun j => 1 + Qabs (kappa point reported j)))%Q (forecasts_of ys) ys.
Proof.
  intros small. pose proof (rule_is_legal ys) as played. rewrite forecasts_of_play.
  rewrite <- (outcomes_of_play start ys) at 3. rewrite <- (rounds_of_play start ys).
  apply within_more with (certified cells point reported (play start ys)).
  - apply certificate_bounds. now apply (within_cells cells point).
  - apply certified_is_small; [apply lattice_is_good_grid|assumption|assumption].
Qed.

End Rule.
