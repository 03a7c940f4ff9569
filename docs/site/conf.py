"""How `make docs` builds the site (decision 14).

The source is the whole repository, of which only pages are taken, so the site has the shape of the
repository and a relative link means the same in both. Every warning is an error.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from likewise import __version__  # noqa: E402

project = "likewise"
version = release = __version__
copyright = "the authors of likewise; Apache License 2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "docstrings", "navigation"]

root_doc = "docs/README"
source_suffix = {".md": "markdown"}
include_patterns = ["*.md", "docs/*.md", "docs/*/*.md", "decisions/*.md", "tests/README.md"]
exclude_patterns = [".*", "build", "dist", "src", "tests/[a-z_]*", "benchmarks", "requirements"]

myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
default_role = "code"
smartquotes = False  # -- is two dashes, and "text" is what one types
add_module_names = False

html_theme = "furo"
html_title = "likewise"
html_static_path = ["static"]
html_css_files = ["likewise.css"]
html_extra_path = ["extra"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # they are fetched, which a page opened from a folder may not
html_use_index = True
# Fonts and scripts come with the theme: the site asks the network for nothing.
html_theme_options = {
    "light_css_variables": {
        "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
        "color-brand-primary": "#1f5fa8",
        "color-brand-content": "#1f5fa8",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8ab8f0",
        "color-brand-content": "#8ab8f0",
    },
}
pygments_style = "default"
pygments_dark_style = "github-dark"
