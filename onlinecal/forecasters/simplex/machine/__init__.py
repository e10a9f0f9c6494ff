"""The simplex machine: plain functions over one flat array, compiled or in the interpreter."""
