"""How Sphinx makes the site from the pages, the docstrings and the command's own help."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import notebooks  # noqa: E402
import raised  # noqa: E402
import reference  # noqa: E402

import onlinecal  # noqa: E402

project = "onlinecal"
author = "The onlinecal authors"
release = version = onlinecal.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
]
root_doc = "index"
highlight_language = "none"
exclude_patterns = ["site/**"]

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 4
# formulas on lines of their own within a paragraph, as forges show them
myst_dmath_double_inline = True

# two dashes begin an option
smartquotes_action = "qe"

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_typehints_description_target = "documented_params"
toc_object_entries_show_parents = "hide"
autodoc_preserve_defaults = True
autoclass_content = "class"
napoleon_google_docstring = False
# sentences, here, not types with descriptions
napoleon_custom_sections = ["Returns", ("Attributes", "params_style")]
python_use_unqualified_type_names = True

html_theme = "pydata_sphinx_theme"
html_title = "onlinecal"
html_favicon = html_logo = "../../onlinecal/engine/http/static/icon.svg"
html_static_path = ["static"]
html_css_files = ["onlinecal.css"]
# pages without neighbours
html_sidebars = {"index": [], "changelog": []}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "onlinecal", "alt_text": "onlinecal, start"},
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
FILE = re.compile(r"(docs/)?[\w/-]+\.md")
copyright = "the onlinecal authors, BSD 3-clause"


def titled(app, doctree, page):
    """Links that are called as their file, as is usual on a forge, are called as their page."""
    for link in doctree.findall(nodes.reference):
        if link.get("internal") and FILE.fullmatch(link.astext()):
            target = posixpath.normpath(
                posixpath.join(posixpath.dirname(page), link["refuri"].partition(".html")[0])
            )
            if target in app.env.titles:
                link.children = [nodes.Text(app.env.titles[target].astext())]


def fitted(_app, doctree, _page):
    """Pictures lead to themselves in full size, texts in tables keep a legible width, dashes are dashes."""
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))
    for picture in doctree.findall(nodes.image):
        picture["width"] = "100%"
    for cell in doctree.findall(nodes.entry):
        if len(cell.astext()) > 45:
            cell["classes"].append("words")


def setup(app):
    """Have the pages of the reference written before Sphinx looks for pages."""
    app.add_transform(raised.Scripts)
    app.connect("doctree-resolved", titled)
    app.connect("doctree-resolved", fitted)
    app.connect("config-inited", lambda app, _config: reference.write(Path(app.srcdir) / "reference"))
    app.connect("config-inited", lambda app, _config: notebooks.write(Path(app.srcdir) / "tutorials"))
    app.connect("source-read", notebooks.link)
    app.connect("builder-inited", lambda _app: reference.forget_overloads())
    app.connect("autodoc-process-docstring", reference.as_restructured, priority=400)
    app.connect("autodoc-process-docstring", reference.with_returns, priority=600)
    app.connect("object-description-transform", reference.with_short_types, priority=400)
    app.connect("autodoc-skip-member", reference.skipped)
