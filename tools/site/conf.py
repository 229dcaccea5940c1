# SPDX-License-Identifier: Apache-2.0
"""Sphinx's configuration; tools/docs says where the pages lie. Nothing is loaded from elsewhere: the site works offline."""
project = "peal"
copyright = "the authors of peal; licence: Apache-2.0"  # noqa: A001
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_url_schemes = ("http", "https", "mailto", "source")
html_theme = "furo"
html_title = "peal"
html_static_path = ["static"]
html_css_files = ["dark.css", "site.css"]
html_extra_path = ["extra"]
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
highlight_language = "none"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {"navigation_with_keys": True}


def setup(app):
    """Leads source:PATH to the page of that file, and marks parameters, for site.css keeps each on one line."""
    from docutils import nodes
    from sphinx import addnodes

    def finish(_, doctree, name):
        for link in doctree.findall(nodes.reference):
            scheme, _, path = link.get("refuri", "").partition(":")
            if scheme == "source":
                link["refuri"] = "../" * name.count("/") + f"source/{path}.html"
                link["classes"] = [c for c in link["classes"] if c != "external"]
        for parameter in doctree.findall(addnodes.desc_parameter):
            parameter.attributes.pop("noemph", None)

    def remember_ids(_, __):
        """A third of the time to write goes into names of C++ that are made anew for each look-up; all are read by now."""
        from sphinx.domains.cpp import ASTDeclaration
        make = ASTDeclaration.get_newest_id

        def newest_id(declaration):
            if "newest_id" not in declaration.__dict__:
                declaration.__dict__["newest_id"] = make(declaration)
            return declaration.__dict__["newest_id"]

        ASTDeclaration.get_newest_id = newest_id

    def search_without_parameters():
        """The search finds calls; a page of their parameters would stand before what is looked for."""
        from sphinx.domains.cpp import CPPDomain
        find = CPPDomain.get_objects
        CPPDomain.get_objects = lambda domain: (found for found in find(domain) if not found[2].endswith("Param"))

    search_without_parameters()
    app.connect("doctree-resolved", finish)
    app.connect("env-updated", remember_ids)
