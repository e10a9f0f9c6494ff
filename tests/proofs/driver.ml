(* Plays the extracted forecaster: the first line of the input is its grid, every other one a sequence of outcomes.

   grid:   report unit point point ...
   answer: good or bad; then for each sequence cell,report cell,report ... ; sum sum ...
   A report is in units of 1/(2 unit); sums are bias + point, in units of 1/unit. *)

open Forecaster

let rec positive n = if n = 1 then XH else if n land 1 = 0 then XO (positive (n / 2)) else XI (positive (n / 2))
let z n = if n = 0 then Z0 else if n > 0 then Zpos (positive n) else Zneg (positive (-n))
let rec of_positive = function XH -> 1 | XO p -> 2 * of_positive p | XI p -> 2 * of_positive p + 1
let of_z = function Z0 -> 0 | Zpos p -> of_positive p | Zneg p -> -of_positive p
let of_nat n = let rec count k = function O -> k | S n -> count (k + 1) n in count 0 n

let grid line =
  match String.split_on_char ' ' line with
  | report :: unit :: points ->
    let unit = positive (int_of_string unit) in
    let announce = match report with "midpoint" -> midpoint unit | "certain" -> certain unit | _ -> failwith report in
    { unit0 = unit; points = List.map (fun point -> z (int_of_string point)) points; announce }
  | _ -> failwith "no grid"

let () =
  let grid = grid (input_line stdin) in
  print_endline (if good grid then "good" else "bad");
  try
    while true do
      let outcomes = input_line stdin in
      let state = ref (start grid) in
      String.iter (fun y ->
          let cell = !state.cell in
          Printf.printf "%d,%d " (of_nat cell) (of_z (reported grid cell).qnum);
          state := step grid !state (y = '1')) outcomes;
      print_string ";";
      List.iter (fun sum -> Printf.printf " %d" (of_z sum)) !state.sums;
      print_newline ()
    done
  with End_of_file -> ()
