"""What text says with ^ and _, as T^(1/3) or y_t, is raised and lowered, in pages and docstrings alike."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.ext.autosummary import autosummary_table
from sphinx.transforms import SphinxTransform

LOWERED = r"(?<=[A-Za-zΑ-Ωα-ω)|])_(\{[^{}]+\}|[A-Za-z0-9∞](?![A-Za-z0-9_]))"
RAISED = r"(?<=[\w)])\^(\{[^{}]+\}|\((?:[^()]|\([^()]*\))+\)|\|[^|]+\||[-−]?[\d.]*\d|[A-Za-zα-ω]+|[+*])"
SCRIPT = re.compile(f"{LOWERED}|{RAISED}")
LITERAL = (nodes.literal, nodes.math, nodes.FixedTextElement, nodes.raw, addnodes.desc_signature)
LITERAL += (addnodes.literal_strong, addnodes.literal_emphasis)


def pieces(text: str) -> list[nodes.Node]:
    """The text, with what is raised or lowered as elements of their own, without the brackets around it."""
    found: list[nodes.Node] = []
    end = 0
    for script in SCRIPT.finditer(text):
        found.append(nodes.Text(text[end : script.start()]))
        what = script[1] or script[2]
        if what[0] in "{(":
            what = what[1:-1]
        found.append((nodes.subscript if script[1] else nodes.superscript)("", what))
        end = script.end()
    return [*found, nodes.Text(text[end:])] if found else []


class Scripts(SphinxTransform):
    """Before titles are collected, so that the navigation shows the same."""

    default_priority = 600

    def apply(self, **_):
        """Replace the texts that have any, but for code and formulas."""
        for text in list(self.document.findall(nodes.Text)):
            above = text.parent
            # tables of names are comments by their class alone
            while above is not None and (
                isinstance(above, autosummary_table) or not isinstance(above, LITERAL)
            ):
                above = above.parent
            if above is None and (new := pieces(text)):
                text.parent.replace(text, new)
