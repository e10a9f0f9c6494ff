From Coq Require Import Extraction ExtrOcamlBasic.
From Onlinecal Require Import Rule Graded.
Extraction "forecaster.ml" start step reported good midpoint certain.
