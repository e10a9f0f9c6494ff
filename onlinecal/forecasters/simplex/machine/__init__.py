"""The simplex machine: plain functions over one flat array, compiled or in the interpreter.

`memory` says what that array holds, who writes it and what always holds. The array is a saved format.
"""
