(** Sums over lists of rationals, and sums that are sorted by a label. *)

From Coq Require Import List Bool Arith ZArith QArith Qabs Lia Lqa.
Import ListNotations.
Open Scope Q_scope.

Definition qsum : list Q -> Q := fold_right Qplus 0.

(** The sum of f over a list, and over the indices from i on, n of them. *)
Definition total {A} (f : A -> Q) (l : list A) : Q := qsum (map f l).
Definition over (i n : nat) (f : nat -> Q) : Q := total f (seq i n).

Lemma total_nil {A} (f : A -> Q) : total f [] == 0.
Proof. reflexivity. Qed.
Lemma total_cons {A} (f : A -> Q) a l : total f (a :: l) == f a + total f l.
Proof. reflexivity. Qed.

Lemma total_app {A} (f : A -> Q) l l' : total f (l ++ l') == total f l + total f l'.
Proof.
  induction l as [|a l IH]; simpl.
  - rewrite total_nil; ring.
  - rewrite !total_cons, IH; ring.
Qed.

Lemma total_map {A B} (f : B -> Q) (h : A -> B) l : total f (map h l) = total (fun a => f (h a)) l.
Proof. unfold total; now rewrite map_map. Qed.

Lemma total_ext {A} (f h : A -> Q) l : (forall a, In a l -> f a == h a) -> total f l == total h l.
Proof.
  induction l as [|a l IH]; intros same; [reflexivity|].
  rewrite !total_cons, (same a) by (left; reflexivity).
  rewrite IH; [reflexivity|]. intros b inside; apply same; now right.
Qed.

Lemma total_le {A} (f h : A -> Q) l : (forall a, In a l -> f a <= h a) -> total f l <= total h l.
Proof.
  induction l as [|a l IH]; intros less; [apply Qle_refl|].
  rewrite !total_cons. apply Qplus_le_compat; [apply less; now left|].
  apply IH; intros b inside; apply less; now right.
Qed.

Lemma total_plus {A} (f h : A -> Q) l : total (fun a => f a + h a) l == total f l + total h l.
Proof.
  induction l as [|a l IH]; [rewrite !total_nil; ring|].
  rewrite !total_cons, IH; ring.
Qed.

Lemma total_scaled {A} x (f : A -> Q) l : total (fun a => x * f a) l == x * total f l.
Proof.
  induction l as [|a l IH]; [rewrite !total_nil; ring|].
  rewrite !total_cons, IH; ring.
Qed.

Lemma total_zero {A} (f : A -> Q) l : (forall a, In a l -> f a == 0) -> total f l == 0.
Proof.
  induction l as [|a l IH]; intros none; [reflexivity|].
  rewrite total_cons, (none a), IH by (try intros; try apply none; simpl; auto). ring.
Qed.

Lemma total_nonnegative {A} (f : A -> Q) l : (forall a, In a l -> 0 <= f a) -> 0 <= total f l.
Proof.
  intros some. rewrite <- (total_zero (fun _ : A => 0) l) by reflexivity. now apply total_le.
Qed.

Lemma total_constant {A} x (l : list A) : total (fun _ => x) l == inject_Z (Z.of_nat (length l)) * x.
Proof.
  induction l as [|a l IH]; [rewrite total_nil; simpl; ring|].
  rewrite total_cons, IH. cbn [length]. rewrite Nat2Z.inj_succ, <- Z.add_1_r, inject_Z_plus. ring.
Qed.

Lemma over_last i n f : over i (S n) f == over i n f + f (i + n)%nat.
Proof. unfold over. rewrite seq_S, total_app, total_cons, total_nil. ring. Qed.
Lemma over_first i n f : over i (S n) f == f i + over (S i) n f.
Proof. unfold over. simpl seq. now rewrite total_cons. Qed.
Lemma over_split i n k f : over i (n + k) f == over i n f + over (i + n) k f.
Proof. unfold over. now rewrite seq_app, total_app. Qed.
Lemma over_ext i n f h : (forall j, (i <= j < i + n)%nat -> f j == h j) -> over i n f == over i n h.
Proof. intros same. apply total_ext. intros j inside%in_seq. now apply same. Qed.
Lemma over_le i n f h : (forall j, (i <= j < i + n)%nat -> f j <= h j) -> over i n f <= over i n h.
Proof. intros less. apply total_le. intros j inside%in_seq. now apply less. Qed.
Lemma over_zero i n f : (forall j, (i <= j < i + n)%nat -> f j == 0) -> over i n f == 0.
Proof. intros none. apply total_zero. intros j inside%in_seq. now apply none. Qed.

(** A sum of differences is the difference of the ends. *)
Lemma telescope v i n : over i n (fun j => v (S j) - v j) == v (i + n)%nat - v i.
Proof.
  induction n as [|n IH].
  - unfold over; simpl. rewrite total_nil, Nat.add_0_r. ring.
  - rewrite over_last, IH, Nat.add_succ_r. ring.
Qed.

(** Of the indices below n, one is k. *)
Lemma over_one n k x : (k < n)%nat -> over 0 n (fun j => if (k =? j)%nat then x else 0) == x.
Proof.
  induction n as [|n IH]; intros small; [lia|].
  rewrite over_last. simpl plus. destruct (Nat.eqb_spec k n) as [->|other].
  - rewrite over_zero; [ring|]. intros j [_ below]. destruct (Nat.eqb_spec n j); [lia|reflexivity].
  - rewrite IH by lia. ring.
Qed.

(** A sum over rounds is the sum over labels of the sums over the rounds with that label. *)
Lemma by_label {A} (label : A -> nat) (f : A -> Q) n l :
  (forall a, In a l -> (label a < n)%nat) ->
  total f l == over 0 n (fun j => total (fun a => if (label a =? j)%nat then f a else 0) l).
Proof.
  induction l as [|a l IH]; intros labelled.
  - rewrite total_nil, over_zero; reflexivity.
  - rewrite total_cons, IH by (intros; apply labelled; now right).
    rewrite <- (over_one n (label a) (f a)) at 1 by (apply labelled; now left).
    unfold over. rewrite <- total_plus. apply total_ext. intros j _. now rewrite total_cons.
Qed.

Lemma labels_are_bounded {A} (label : A -> nat) l : exists n, forall a, In a l -> (label a < n)%nat.
Proof.
  induction l as [|a l [n bound]]; [now exists 0%nat|].
  exists (S (label a) + n)%nat. intros b [<-|inside]; [lia|]. specialize (bound b inside). lia.
Qed.
