#!/usr/bin/env bash
# Octave's jsondecode reads one number in nine as another than was written, though the text is exact.
#
# Guess. A number that is written in JSON with all its digits, 16 or 17, is read as that number. What is lost is lost
# by writers that give fewer digits.
#
# What happens (Octave 7.3.0 of Debian 12). `jsonencode` writes enough: what Python reads of it is equal to the last
# bit, though some digits are strange (0.1 + 0.2 is written as 0.30000000000000007). `jsondecode` is what is wrong. Of
# 100,000 probabilities that Python wrote, the shortest text for each, nearly 11,000 are read as a neighbour.
# Octave's own `str2double` reads all of them right. Numbers with up to 15 digits are safe. Whole numbers of nine
# digits and more are written as 999999999.0, those of six are not.
#
# Why it matters here. onlinecal writes answers as JSON with the shortest text, and groups forecasts by exact value. A
# forecast that went through Octave is another level set than the same one that did not.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
octave-cli --version | head -n 1

cat > write.py <<'PYTHON'
"""Random probabilities as exact text."""

import json
import random

random.seed(1)
numbers = [random.random() for _ in range(100_000)]
with open("numbers.json", "w") as file:
    json.dump(numbers, file)
PYTHON
cat > read.m <<'OCTAVE'
text = fileread ("numbers.json");
by_json = jsondecode (text);
by_parts = str2double (strsplit (text(2:end-1), ", "))';
moved = sum (by_json != by_parts);
printf ("of 100000, jsondecode and str2double differ in %d\n", moved);
printf ("written: %s, %s and %s\n", jsonencode (0.1 + 0.2), jsonencode (999999), jsonencode (999999999));
file = fopen ("back.json", "w"); fputs (file, jsonencode (by_parts)); fclose (file);
% right would be 0
assert (moved > 5000 && moved < 20000);
assert (strcmp (jsonencode (999999), "999999") && strcmp (jsonencode (999999999), "999999999.0"));
OCTAVE
cat > back.py <<'PYTHON'
"""What str2double read and jsonencode wrote."""

import json

with open("numbers.json") as first, open("back.json") as second:
    written, back = json.load(first), json.load(second)
print("by way of str2double and jsonencode, read by Python: differ in", sum(a != b for a, b in zip(written, back)))
assert written == back
PYTHON
python3 write.py
octave-cli --quiet --norc read.m
python3 back.py
