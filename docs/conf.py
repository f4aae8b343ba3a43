"""The site: `make docs` builds it into docs/_build/html, with warnings as errors."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import hebbnmf

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "hebbnmf"
author = "The hebbnmf developers"
copyright = author  # noqa: A001  the name is Sphinx's
version = release = hebbnmf.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "benchmark_tables",
]
exclude_patterns = ["_build", "gallery/**/*.py", "gallery/**/*.ipynb", "gallery/**/*.md5"]
templates_path = ["_templates"]
default_role = "py:obj"  # `names` in docstrings are links wherever there is something to link to
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Reference ----------------------------------------------------------------------------------------
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_member_order = "groupwise"
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings tell types, and shapes
numpydoc_show_class_members = False  # the template lists them
numpydoc_class_members_toctree = False


def mend_docstring(_app, _what, _name, obj, _options, lines):
    """Escape the ends of `n_components_` in shapes, which reStructuredText takes for links.

    What is inherited from scikit-learn points to labels of its site: leave their words.
    """
    is_inherited = (getattr(obj, "__module__", None) or "").startswith("sklearn.")
    for i, line in enumerate(lines):
        if re.match(r"\w+ : ", line):
            name, colon, shape = line.partition(" : ")
            lines[i] = name + colon + re.sub(r"_(?=[,) ])", r"\\_", shape)
        if is_inherited:
            lines[i] = re.sub(r":(?:ref|term):`([^`<]+)[^`]*`", r"\1", lines[i])


def setup(app):
    """Mend docstrings before numpydoc, of priority 500, reads them."""
    app.connect("autodoc-process-docstring", mend_docstring, priority=400)


# Pictures and examples ----------------------------------------------------------------------------
plot_formats = [("png", 110)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_rcparams = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
plot_apply_rcparams = True
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "ignore_pattern": r"live_recording\.py",  # opens a page
    "within_subsection_order": "ExampleTitleSortKey",
    "subsection_order": [f"../examples/{part}" for part in ("clusters", "features", "streams")],
    "parallel": 2,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "doc_module": ("hebbnmf",),
    "backreferences_dir": None,
    "image_scrapers": ("matplotlib",),
}

# Pages --------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "hebbnmf"
html_static_path = [
    "_static",
    # MathJax in one file: formulas are drawn without a CDN, and from a folder too.
    str(Path(find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax/tex-svg.js"),
]
mathjax_path = "tex-svg.js"
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_copy_source = False
html_sidebars = {"mathematics": []}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "hebbnmf"},
    "secondary_sidebar_items": ["page-toc"],
}
