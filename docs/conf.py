"""The documentation site: `make docs` writes it to docs/_build/html."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import generate

import mjhmc_numba

generate.write()

project = "mjhmc_numba"
author = "the mjhmc_numba developers"
copyright = author  # noqa: A001
release = version = mjhmc_numba.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a network: the package brings MathJax with it
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".md": "myst-nb"}
exclude_patterns = ["_build", "_generated"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

# Notebooks are text and carry no output: they are run here, and again only where they changed.
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "mjhmc_numba"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "show_nav_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
