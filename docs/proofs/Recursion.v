(** The graded grid itself: from 0 up each point is the highest v with v (v - u) <= lambda, u the one before; mirrored.

    All is in whole numbers of 1/(2 half), with lambda = cost/(4 half^2). For every T there is such a grid whose
    forecaster is at most sqrt(T/2) + O(log T) from calibrated. *)

From Coq Require Import List Bool Arith ZArith QArith Qabs Qminmax Lia Lqa Psatz.
From Onlinecal Require Import Sums Calibration Game Rule Uniform Graded.
Import ListNotations.
Open Scope Z_scope.

(** Which of the three parts of the grid an index lies in. *)
Ltac sort_index := repeat (match goal with
  | |- context [(?a <=? ?b)%nat] => destruct (Nat.leb_spec a b)
  | |- context [(?a =? ?b)%nat] => destruct (Nat.eqb_spec a b)
  end; try lia).

Ltac in_units := unfold Qle, Qeq, Qminus, Qplus, Qmult, Qopp, inject_Z; cbn [Qnum Qden]; rewrite ?Pos2Z.inj_mul.

Section Recursion.

Context (half : positive) (cost : Z).

(** The cells beside 1/2 have this width, which costs as much. *)
Definition gap : Z := cost / (2 * Zpos half).
Definition top : Z := Zpos half - gap.
Definition free_next (u : Z) : Z := (u + Z.sqrt (u * u + 4 * cost)) / 2.
Definition next (u : Z) : Z := Z.min (free_next u) top.
Definition climb (i : nat) : Z := Nat.iter i next 0.

(** n steps up from 0, the point 1/2, and the mirror image. *)
Definition lower_half (n : nat) : list Z := map climb (seq 0 (S n)).
Definition recursion (n : nat) : lattice :=
  graded (2 * half) (lower_half n ++ Zpos half :: rev (map (fun x => 2 * Zpos half - x) (lower_half n))).
Definition lambda : Q := cost # (2 * half) * (2 * half).

Lemma recursion_cells n : cells (recursion n) = (2 * n + 2)%nat.
Proof.
  unfold cells, recursion, lower_half. cbn [points graded].
  rewrite app_length. cbn [length]. rewrite rev_length, !map_length, seq_length. lia.
Qed.

Lemma lower_half_entry n j : (j <= n)%nat -> entry j (lower_half n) = climb j.
Proof.
  intros small. unfold entry, lower_half.
  rewrite nth_indep with (d' := climb 0) by (rewrite map_length, seq_length; lia).
  rewrite map_nth, seq_nth by lia. reflexivity.
Qed.

Lemma recursion_entry n j : (j <= 2 * n + 2)%nat -> entry j (points (recursion n)) =
  if (j <=? n)%nat then climb j else if (j =? S n)%nat then Zpos half else 2 * Zpos half - climb (2 * n + 2 - j).
Proof.
  intros small. assert (length (lower_half n) = S n) as long by (unfold lower_half; now rewrite map_length, seq_length).
  unfold entry at 1. cbn [points recursion graded].
  destruct (Nat.leb_spec j n); [|destruct (Nat.eqb_spec j (S n)) as [->|]].
  - rewrite app_nth1 by lia. now apply lower_half_entry.
  - rewrite app_nth2, long, Nat.sub_diag by lia. reflexivity.
  - rewrite app_nth2 by lia. rewrite long. destruct (j - S n)%nat as [|i] eqn:rest; [lia|]. cbn [nth].
    rewrite rev_nth by (rewrite map_length; lia). rewrite map_length, long.
    rewrite nth_indep with (d' := 2 * Zpos half - 0) by (rewrite map_length; lia).
    rewrite (map_nth (fun x => 2 * Zpos half - x)). fold (entry (S n - S i) (lower_half n)).
    rewrite lower_half_entry by lia. do 2 f_equal. lia.
Qed.

(** ** A step: as far as lambda allows, and no less *)

Hypothesis dear : 2 * (2 * Zpos half) < cost.
Hypothesis room : 0 < top.

Lemma gap_spec : 0 < gap /\ gap * (2 * Zpos half) <= cost.
Proof. unfold gap. split; [apply Z.div_str_pos; lia|]. rewrite Z.mul_comm. apply Z.mul_div_le. lia. Qed.

Lemma free_next_spec u : 0 <= u <= Zpos half ->
  let w := free_next u in u < w /\ w * (w - u) <= cost < (w + 1) * (w + 1 - u).
Proof.
  intros small. unfold free_next. pose proof (Z.sqrt_spec (u * u + 4 * cost) ltac:(nia)) as root.
  pose proof (Z.sqrt_nonneg (u * u + 4 * cost)) as some.
  cbv zeta in root. set (q := Z.sqrt (u * u + 4 * cost)) in *.
  pose proof (Z.div_mod (u + q) 2 ltac:(lia)) as parts. pose proof (Z.mod_pos_bound (u + q) 2 ltac:(lia)) as rest.
  set (w := (u + q) / 2) in *. clearbody w q.
  assert (u + 2 < q) as more by (apply Z.nle_gt; intros less; nia).
  cbv zeta. split; [lia|].
  assert ((2 * w - u) * (2 * w - u) <= q * q) by (apply Z.mul_le_mono_nonneg; lia).
  assert ((q + 1) * (q + 1) <= (2 * w + 2 - u) * (2 * w + 2 - u)) by (apply Z.mul_le_mono_nonneg; lia).
  split; nia.
Qed.

Lemma next_spec u : 0 <= u < top -> let w := next u in u < w <= top /\ w * (w - u) <= cost
  /\ (w < top -> 2 * cost - 2 * (2 * Zpos half) - (w - u) * (w - u) <= w * w - u * u).
Proof.
  pose proof gap_spec as [some _]. intros small.
  destruct (free_next_spec u) as [more [fit tight]]; [unfold top in *; lia|].
  unfold next. destruct (Z.min_spec (free_next u) top) as [[order least]|[order least]]; cbv zeta; rewrite least.
  - split; [lia|]. split; [assumption|]. intros _. unfold top in *. nia.
  - split; [lia|]. split; [nia|lia].
Qed.

Lemma climb_S i : climb (S i) = next (climb i).
Proof. reflexivity. Qed.

Lemma climb_up i : 0 <= climb i <= climb (S i) /\ climb (S i) <= top.
Proof.
  assert (forall u, 0 <= u <= top -> u <= next u <= top) as up.
  { intros u small. pose proof gap_spec. destruct (free_next_spec u); unfold next, top in *; lia. }
  induction i as [|i IH]; [pose proof (up 0)|pose proof (up (climb (S i)))]; rewrite climb_S; simpl climb in *; lia.
Qed.

Lemma climb_range i : 0 <= climb i <= top.
Proof. pose proof (climb_up i). lia. Qed.

(** ** The grid is good, and no point costs more than lambda *)

Section Reached.

Context (n : nat).
Hypothesis on_the_way : forall i, (i < n)%nat -> climb i < top.
Hypothesis arrived : climb n = top.

Lemma step_up i : (i < n)%nat -> climb i < climb (S i) /\ climb (S i) * (climb (S i) - climb i) <= cost.
Proof.
  intros small. rewrite climb_S. specialize (on_the_way i small). pose proof (climb_range i).
  pose proof (next_spec (climb i) ltac:(lia)) as [order [fit _]]. split; [lia|assumption].
Qed.

Lemma recursion_good : good (recursion n) = true.
Proof.
  unfold good. rewrite recursion_cells, !recursion_entry by lia.
  pose proof (recursion_cells n) as size. unfold cells in size.
  rewrite !andb_true_iff. split; [split; [split|]|].
  - apply Nat.ltb_lt. lia.
  - reflexivity.
  - sort_index. rewrite Nat.sub_diag. apply Z.eqb_eq. change (climb 0) with 0. cbn [unit recursion graded]. lia.
  - apply forallb_forall. intros c found%in_seq. pose proof gap_spec as [some _].
    assert (entry c (points (recursion n)) < entry (S c) (points (recursion n))) as more.
    { rewrite !recursion_entry by lia. sort_index.
      - now apply step_up.
      - replace c with n by lia. rewrite arrived. unfold top. lia.
      - replace (2 * n + 2 - S c)%nat with n by lia. rewrite arrived. unfold top. lia.
      - replace (2 * n + 2 - c)%nat with (S (2 * n + 2 - S c)) by lia.
        pose proof (step_up (2 * n + 2 - S c) ltac:(lia)). lia. }
    cbn [announce recursion graded]. unfold certain.
    destruct (_ <=? Zpos (2 * half)); [|destruct (Zpos (2 * half) <=? _)]; lia.
Qed.

Lemma recursion_centred : centred (recursion n) (S n) = true.
Proof.
  unfold centred. rewrite recursion_cells, recursion_entry by lia. cbn [unit recursion graded].
  apply andb_true_iff. split; [apply Nat.leb_le; lia|apply Z.eqb_eq; sort_index].
Qed.

Lemma product_in_units a b c d : ((a # d) * ((b # d) - (c # d)) == (a * (b - c)) # (d * d))%Q.
Proof. unfold Qeq, Qminus, Qplus, Qmult, Qopp. cbn [Qnum Qden]. rewrite !Pos2Z.inj_mul. ring. Qed.
Lemma affordable x : x <= cost -> ((x # (2 * half) * (2 * half)) <= lambda)%Q.
Proof. intros less. unfold lambda, Qle. cbn [Qnum Qden]. nia. Qed.

Lemma widths : (width_below (2 * half) (points (recursion n)) (S n) == gap # 2 * half
  /\ width_above (2 * half) (points (recursion n)) (S n) == gap # 2 * half)%Q.
Proof.
  unfold width_below, width_above. cbn [points recursion graded]. fold (recursion n). unfold point.
  rewrite !recursion_entry by lia. cbn [pred unit recursion graded]. sort_index.
  replace (2 * n + 2 - S (S n))%nat with n by lia. rewrite arrived. unfold top. split; in_units; ring.
Qed.

Lemma recursion_fits : fits lambda (recursion n) = true.
Proof.
  unfold fits. apply forallb_forall. intros j found%in_seq. rewrite recursion_cells in found. apply Qle_bool_iff.
  pose proof recursion_good as fine. pose proof recursion_centred as middle. pose proof gap_spec as [some fit].
  pose proof (recursion_entry n) as at_. pose proof (recursion_cells n) as size.
  destruct (Nat.lt_trichotomy j (S n)) as [before|[->|after]].
  - rewrite (graded_r_below _ _ (S n) fine middle j before). unfold point. rewrite !at_ by lia. sort_index.
    cbn [unit recursion graded]. rewrite product_in_units. apply affordable. destruct j as [|j]; [simpl; lia|].
    now apply step_up.
  - rewrite (graded_r_middle _ _ (S n) fine middle), (proj1 widths), (proj2 widths).
    apply Qle_trans with (gap * (2 * Zpos half) # (2 * half) * (2 * half)); [|now apply affordable].
    in_units. apply Z.eq_le_incl. ring.
  - destruct (Nat.eq_dec j (2 * n + 2)) as [->|inner].
    + rewrite <- size. rewrite (graded_r_last _ _ (S n) fine middle). unfold lambda. in_units. lia.
    + assert (S n < j < cells (recursion n))%nat as strictly by lia.
      rewrite (graded_r_above _ _ (S n) fine middle j strictly). unfold point. rewrite !at_ by lia. sort_index.
      replace (2 * n + 2 - j)%nat with (S (2 * n + 2 - S j)) by lia.
      destruct (step_up (2 * n + 2 - S j) ltac:(lia)) as [_ cheap]. cbn [unit recursion graded].
      set (x := climb (S _)) in *. set (z := climb _) in *.
      setoid_replace (1 - (2 * Zpos half - x # 2 * half))%Q with (x # 2 * half) by (in_units; ring).
      rewrite product_in_units. apply affordable. lia.
Qed.

(** What the grid proves: lambda T + n + 1, less the width beside 1/2. *)
Theorem recursion_distance ys :
  within (lambda * rounds ys + inject_Z (Z.of_nat n + 1) - (gap # 2 * half))%Q (forecasts_of (recursion n) ys) ys.
Proof.
  eapply within_more;
    [apply (graded_distance _ _ (S n) recursion_good recursion_centred lambda ys recursion_fits)|].
  fold (recursion n). rewrite recursion_cells.
  replace (Z.of_nat (2 * n + 2)) with (2 * (Z.of_nat n + 1)) by lia. rewrite inject_Z_mult.
  change (inject_Z 2) with 2%Q. destruct widths as [low_ high_].
  destruct (Q.min_spec (width_below (2 * half) (points (recursion n)) (S n))
                       (width_above (2 * half) (points (recursion n)) (S n))) as [[_ same]|[_ same]];
    cbn [points recursion graded] in *; rewrite same; lra.
Qed.

End Reached.

(** ** How many steps *)

Lemma climb_before i q : (i <= q)%nat -> climb q < top -> climb i < top.
Proof. induction 1 as [|q _ IH]; intros small; [assumption|]. apply IH. pose proof (climb_up q). lia. Qed.

(** Squares grow by at least cost less 4 half, and by about 2 cost. *)
Lemma squares_grow i : climb i < top -> Z.of_nat i * (cost - 2 * (2 * Zpos half)) <= climb i * climb i.
Proof.
  induction i as [|i IH]; intros small; [simpl; lia|].
  pose proof (climb_before i (S i) ltac:(lia) small) as before. specialize (IH before). pose proof (climb_range i).
  destruct (next_spec (climb i) ltac:(lia)) as [order [fit far]]. rewrite climb_S in *. specialize (far small). nia.
Qed.

Lemma squares_sum q (x : Z) : climb q < top -> cost * cost <= x * (cost - 2 * (2 * Zpos half)) ->
  (inject_Z (Z.of_nat q) * inject_Z (2 * cost - 2 * (2 * Zpos half)) - inject_Z x * over 1 q (fun t => 1 # Pos.of_nat t)
   <= inject_Z (climb q * climb q))%Q.
Proof.
  intros small enough. induction q as [|q IH].
  { unfold over. simpl seq. rewrite total_nil. change (inject_Z _) with 0%Q at 1. change (inject_Z (_ * _)) with 0%Q. lra. }
  pose proof (climb_before q (S q) ltac:(lia) small) as before. specialize (IH before). pose proof (climb_range q).
  destruct (next_spec (climb q) ltac:(lia)) as [order [fit far]].
  pose proof (squares_grow (S q) small) as large. rewrite climb_S in *. specialize (far small).
  set (u := climb q) in *. set (w := next u) in *. set (less := cost - _) in *.
  assert ((w - u) * (w - u) * Z.of_nat (S q) <= x) as step.
  { assert (0 < less) by (unfold less; lia).
    assert ((w - u) * (w - u) * (w * w) <= cost * cost).
    { replace ((w - u) * (w - u) * (w * w)) with ((w * (w - u)) * (w * (w - u))) by ring.
      apply Z.mul_le_mono_nonneg; nia. }
    assert ((w - u) * (w - u) * (Z.of_nat (S q) * less) <= (w - u) * (w - u) * (w * w)) by
      (apply Z.mul_le_mono_nonneg_l; nia).
    apply Z.mul_le_mono_pos_r with less; lia. }
  assert (inject_Z ((w - u) * (w - u)) <= inject_Z x * (1 # Pos.of_nat (S q)))%Q as part.
  { in_units. replace (Zpos 1 * Zpos (Pos.of_nat (S q))) with (Z.of_nat (S q)) by lia. lia. }
  rewrite over_last. simpl (1 + q)%nat. set (h := over 1 q _) in *.
  replace (Z.of_nat (S q)) with (Z.of_nat q + 1) by lia.
  apply Qle_trans with (inject_Z (u * u) + inject_Z (2 * cost - 2 * (2 * Zpos half))
                        - inject_Z ((w - u) * (w - u)))%Q.
  - rewrite inject_Z_plus. change (inject_Z 1) with 1%Q. lra.
  - rewrite <- inject_Z_plus. unfold Qminus. rewrite <- inject_Z_opp, <- inject_Z_plus, <- Zle_Qle. lia.
Qed.

End Recursion.

Open Scope Q_scope.

Lemma harmonic k : over 1 (2 ^ k - 1) (fun t => 1 # Pos.of_nat t) <= inject_Z (Z.of_nat k).
Proof.
  induction k as [|k IH]; [discriminate|].
  assert (0 < 2 ^ k)%nat as some by (apply Nat.neq_0_lt_0, Nat.pow_nonzero; discriminate).
  replace (2 ^ S k - 1)%nat with (2 ^ k - 1 + 2 ^ k)%nat by (simpl; lia).
  rewrite over_split. replace (1 + (2 ^ k - 1))%nat with (2 ^ k)%nat by lia.
  replace (Z.of_nat (S k)) with (Z.of_nat k + 1)%Z by lia. rewrite inject_Z_plus.
  apply Qplus_le_compat; [exact IH|].
  apply Qle_trans with (over (2 ^ k) (2 ^ k) (fun _ => 1 # Pos.of_nat (2 ^ k))).
  - apply over_le. intros t inside. unfold Qle. cbn [Qnum Qden]. lia.
  - unfold over. rewrite total_constant, seq_length. unfold Qle, Qmult, inject_Z. cbn [Qnum Qden]. lia.
Qed.

(** ** For every T *)

Section Every.

(** lambda = 1/N, in units fine enough. *)
Context (N : positive).
Hypothesis three : (3 <= Zpos N)%Z.

Definition half_of : positive := N * (N + 1).
Definition cost_of : Z := 4 * (Zpos N * ((Zpos N + 1) * (Zpos N + 1))).

Lemma dear_enough : (2 * (2 * Zpos half_of) < cost_of)%Z.
Proof. unfold half_of, cost_of. nia. Qed.
Lemma gap_of : gap half_of cost_of = (2 * (Zpos N + 1))%Z.
Proof. unfold gap, half_of, cost_of. symmetry. apply Z.div_unique_exact; nia. Qed.
Lemma top_of : top half_of cost_of = ((Zpos N - 2) * (Zpos N + 1))%Z.
Proof. unfold top. rewrite gap_of. unfold half_of. nia. Qed.
Lemma lambda_of : lambda half_of cost_of == 1 # N.
Proof. unfold lambda, half_of, cost_of, Qeq. cbn [Qnum Qden]. nia. Qed.

Notation steps := (climb half_of cost_of).
Notation summit := (top half_of cost_of).

Lemma room_enough : (0 < summit)%Z.
Proof. rewrite top_of. nia. Qed.

Lemma below_half q : (steps q * steps q < Zpos N * (Zpos N + 1) * (Zpos N * (Zpos N + 1)))%Z.
Proof.
  pose proof (climb_range half_of cost_of dear_enough room_enough q) as range. rewrite top_of in range.
  apply Z.square_lt_mono_nonneg; nia.
Qed.

Lemma few_steps q : (steps q < summit)%Z -> (4 * Z.of_nat q <= Zpos N)%Z.
Proof.
  intros small. pose proof (squares_grow _ _ dear_enough room_enough q small) as grown.
  pose proof (below_half q) as square. set (u := steps q) in *. clearbody u. unfold cost_of, half_of in grown.
  assert (4 * Z.of_nat q * (Zpos N * Zpos N * (Zpos N + 1)) < (Zpos N + 1) * (Zpos N * Zpos N * (Zpos N + 1)))%Z by nia.
  nia.
Qed.

Lemma twice_below_power b : (2 * b <= 2 ^ b)%nat.
Proof. induction b as [|[|b] IH]; simpl in *; lia. Qed.

Lemma fewer_steps q b : (steps q < summit)%Z -> (q < 2 ^ b)%nat -> (2 * 2 ^ b <= Pos.to_nat N)%nat ->
  (8 * Z.of_nat q <= Zpos N + 3 + 4 * Z.of_nat b)%Z.
Proof.
  intros small below power. pose proof (few_steps q small) as few. pose proof (twice_below_power b) as twice.
  set (x := (4 * ((Zpos N + 1) * ((Zpos N + 1) * (Zpos N + 1))))%Z).
  pose proof (squares_sum _ _ dear_enough room_enough q x small ltac:(unfold x, cost_of, half_of; nia)) as grown.
  assert (over 1 q (fun t => 1 # Pos.of_nat t) <= inject_Z (Z.of_nat b)) as sum.
  { eapply Qle_trans; [|apply harmonic]. replace (2 ^ b - 1)%nat with (q + (2 ^ b - 1 - q))%nat by lia.
    rewrite over_split, <- (Qplus_0_r (over 1 q _)) at 1. apply Qplus_le_r. apply total_nonnegative. discriminate. }
  pose proof (below_half q) as square. set (u := steps q) in *. clearbody u.
  assert (inject_Z x * over 1 q (fun t => 1 # Pos.of_nat t) <= inject_Z x * inject_Z (Z.of_nat b)) as product.
  { rewrite !(Qmult_comm (inject_Z x)). apply Qmult_le_compat_r; [exact sum|]. unfold x, Qle. simpl. lia. }
  assert (inject_Z (Z.of_nat q) * inject_Z (2 * cost_of - 2 * (2 * Zpos half_of))
          <= inject_Z (u * u) + inject_Z x * inject_Z (Z.of_nat b)) as all by lra.
  rewrite <- !inject_Z_mult, <- inject_Z_plus, <- Zle_Qle in all.
  unfold x, cost_of, half_of in all. rewrite !Pos2Z.inj_mul, !Pos2Z.inj_add in all.
  assert (4 * Z.of_nat b <= Zpos N)%Z as small_b by lia.
  clear - all square few three small_b. assert (0 <= Z.of_nat b)%Z by lia. assert (0 <= Z.of_nat q)%Z by lia.
  set (c := Z.of_nat b) in *. set (i := Z.of_nat q) in *. set (n := Zpos N) in *. clearbody c i n.
  apply Z.nlt_ge. intros more.
  assert ((n + 1) * (i * (4 * (n * (2 * n + 1)))) < (n + 1) * (n * n * (n + 1) + 4 * ((n + 1) * (n + 1)) * c))%Z
    as scaled by lia.
  apply Z.mul_lt_mono_pos_l in scaled; [|lia].
  assert ((n + 4 + 4 * c) * (n * (2 * n + 1)) <= 8 * i * (n * (2 * n + 1)))%Z as less
    by (apply Z.mul_le_mono_nonneg_r; [apply Z.mul_nonneg_nonneg; lia|lia]).
  assert (4 * c * n <= n * n)%Z by (apply Z.mul_le_mono_nonneg_r; lia). lia.
Qed.

Lemma arrives : exists q, (steps q < summit)%Z /\ steps (S q) = summit.
Proof.
  assert (forall i, (steps i < summit)%Z \/ exists q, (steps q < summit)%Z /\ steps (S q) = summit) as either.
  { induction i as [|i [below|found]]; [left; apply room_enough| |now right].
    destruct (Z.eq_dec (steps (S i)) summit) as [there|]; [right; now exists i|left].
    pose proof (climb_range half_of cost_of dear_enough room_enough (S i)). lia. }
  destruct (either (Pos.to_nat N)) as [below|found]; [|assumption].
  apply few_steps in below. lia.
Qed.

Lemma every_distance : exists n, good (recursion half_of cost_of n) = true /\ forall ys b x,
  (2 * 2 ^ b <= Pos.to_nat N < 4 * 2 ^ b)%nat ->
  8 * ((1 # N) * rounds ys) + inject_Z (Zpos N) + 4 * inject_Z (Z.of_nat b) + 19 <= 8 * x ->
  within x (forecasts_of (recursion half_of cost_of n) ys) ys.
Proof.
  destruct arrives as (q & below & there). exists (S q).
  assert (forall i, (i < S q)%nat -> (steps i < summit)%Z) as way.
  { intros i small. apply (climb_before half_of cost_of dear_enough room_enough i q); [lia|assumption]. }
  split; [now apply (recursion_good half_of cost_of dear_enough room_enough)|]. intros ys b x between enough.
  eapply within_more; [apply (recursion_distance half_of cost_of dear_enough room_enough (S q) way there ys)|].
  pose proof (few_steps q below) as few. pose proof (fewer_steps q b below ltac:(lia) ltac:(lia)) as fewer.
  rewrite lambda_of, gap_of.
  assert (0 <= (2 * (Zpos N + 1) # 2 * half_of)) as some by (unfold Qle; cbn [Qnum Qden]; lia).
  replace (Z.of_nat (S q) + 1)%Z with (Z.of_nat q + 2)%Z by lia.
  rewrite Zle_Qle, !inject_Z_plus, !inject_Z_mult in fewer. rewrite inject_Z_plus.
  change (inject_Z 2) with 2. change (inject_Z 8) with 8 in fewer. change (inject_Z 3) with 3 in fewer.
  change (inject_Z 4) with 4 in fewer. lra.
Qed.

End Every.

(** At most sqrt(T/2) + log2(T)/4 + 3: that is, s + log2(T)/4 + 3 for every s whose square is at least T/2. *)
Theorem root_of_half T : exists L, good L = true /\ forall ys s,
  (Z.of_nat (length ys) <= Zpos T)%Z -> 0 <= s -> (1#2) * inject_Z (Zpos T) <= s * s ->
  within (s + (1#4) * inject_Z (Z.log2 (Zpos T)) + 3) (forecasts_of L ys) ys.
Proof.
  pose proof (cells_for_root (8 * T)) as root. set (N := cells_for (8 * T)) in *.
  assert (3 <= Zpos N)%Z as three by (cbv zeta in root; rewrite Pos2Z.inj_mul in root; apply Z.nlt_ge; intros less; nia).
  destruct (every_distance N three) as (n & fine & bound). exists (recursion (half_of N) (cost_of N) n).
  split; [assumption|]. intros ys s enough some large.
  assert ((Zpos (8 * T) + Zpos N * Zpos N - Zpos N # 2 * N) <= 4 * s) as best.
  { apply root_bound; [exact root|lra|]. rewrite Pos2Z.inj_mul, inject_Z_mult. change (inject_Z 8) with 8. lra. }
  cbv zeta in root. rewrite Pos2Z.inj_mul in *.
  pose proof (Nat.log2_spec (Pos.to_nat N) ltac:(lia)) as power.
  destruct (Nat.log2 (Pos.to_nat N)) as [|b]; simpl Nat.pow in power; [lia|]. apply (bound ys b _ ltac:(lia)).
  assert (2 * Z.of_nat b <= 2 + Z.log2 (Zpos T))%Z as digits.
  { assert (2 ^ (2 * (Z.of_nat b + 1)) <= Zpos T * 2 ^ 4)%Z as less.
    { replace (2 * (Z.of_nat b + 1))%Z with (Z.of_nat (S b) + Z.of_nat (S b))%Z by lia.
      rewrite Z.pow_add_r by lia. change 2%Z with (Z.of_nat 2) at 1 2. rewrite <- !Nat2Z.inj_pow.
      assert (Z.of_nat (2 ^ S b) <= Zpos N)%Z by (simpl Nat.pow; lia).
      assert (Zpos N * Zpos N <= 16 * Zpos T)%Z by nia. nia. }
    apply Z.log2_le_pow2 in less; [|lia]. rewrite Z.log2_mul_pow2 in less by lia. lia. }
  assert ((1 # N) * rounds ys <= (1 # N) * inject_Z (Zpos T)) as shorter.
  { rewrite !(Qmult_comm (1 # N)). apply Qmult_le_compat_r; [|discriminate]. unfold rounds. now rewrite <- Zle_Qle. }
  assert (8 * ((1 # N) * inject_Z (Zpos T)) + inject_Z (Zpos N)
          == 2 * (8 * Zpos T + Zpos N * Zpos N - Zpos N # 2 * N) + 1) as equal by (in_units; nia).
  rewrite Zle_Qle, inject_Z_plus, inject_Z_mult in digits. change (inject_Z 2) with 2 in digits. lra.
Qed.

(** ** Numbers, by computation *)

Notation number half cost n T x := (forall ys, rounds ys <= T ->
  within x (forecasts_of (recursion half cost n) ys) ys).

Corollary hundred : number (2 ^ 23) 9786197169484 4 100 (8442 # 1000).
Proof. intros ys. apply (proved_number _ _ 5 (lambda (2 ^ 23) 9786197169484)). vm_compute. reflexivity. Qed.

Corollary thousand : number (2 ^ 23) 3112369064447 12 1000 (24047 # 1000).
Proof. intros ys. apply (proved_number _ _ 13 (lambda (2 ^ 23) 3112369064447)). vm_compute. reflexivity. Qed.

Corollary ten_thousand : number (2 ^ 23) 1005489153691 36 10000 (72719 # 1000).
Proof. intros ys. apply (proved_number _ _ 37 (lambda (2 ^ 23) 1005489153691)). vm_compute. reflexivity. Qed.
