#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stage.py ROOT STAGE: lays down what Sphinx reads, below STAGE: the pages of docs/, the pages that they name, the
reference and the sources that pages link to, with links that lead from where the pages lie now.

docs/index.md is the first page, and its lists are the navigation: a heading of depth 2 is a part, an item a page. Lists of
other pages (tutorial/index.md, reference.md) are the parts below them.
"""
import functools
import html
import os
import pathlib
import posixpath
import re
import shutil
import sys

import pages
import pygments
import pygments.formatters
import pygments.lexers
import python_calls
import reference
import tasks
import theme

OTHER_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
REFERENCE = "docs/reference.md"
LANGUAGES = {".h": "cpp", ".cc": "cpp", ".cu": "cpp", ".py": "python", ".sh": "bash"}
SOURCE_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{path} - peal</title><style>{style}</style></head>
<body><p><a href="{up}index.html">peal</a> / {path}</p>{body}</body></html>
"""
WITH_LISTS = ("docs/index.md", "docs/tutorial/index.md", REFERENCE)


def lexer_of(file):
    return pygments.lexers.get_lexer_by_name(LANGUAGES.get(file.suffix, "text"))


@functools.cache
def style():
    """Of pages of sources, in light and in dark."""
    light = pygments.formatters.HtmlFormatter(style="friendly").get_style_defs(".highlight")
    dark = pygments.formatters.HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    return ("body { font-family: system-ui, sans-serif; margin: 1em auto; max-width: 60em; padding: 0 1em; } "
            "pre { overflow-x: auto; padding: 1em; margin: 0; } " + light +
            "\n@media (prefers-color-scheme: dark) { body { background: #131416; color: #cfd0d0; } a { color: #3d94ff; }\n" +
            dark + " }")


class Stage:
    def __init__(self, root, out):
        self.root, self.out = root, out
        self.pages = sorted(f.relative_to(root).as_posix() for f in (root / "docs").rglob("*.md"))
        titles = dict(self.titles_of_reference())
        self.headers = {path: title for path, title in titles.items() if path.endswith(".h")}
        self.packages = {path: title for path, title in titles.items() if path.endswith("__init__.py")}
        self.sources = set()

    def titles_of_reference(self):
        for links in pages.listed((self.root / REFERENCE).read_text()).values():
            for link in links:
                target = posixpath.normpath(posixpath.join("docs", link.target))
                if target.endswith((".h", "__init__.py")):
                    yield target, link.text.replace("`", "")

    def staged(self, path):
        """Where a file of the tree lies in the stage, without the part that Sphinx adds; None: nowhere."""
        if path in self.headers:
            return f"reference/{path[:-2]}.rst"
        if path in self.packages:
            return f"reference/{posixpath.dirname(path)}.rst"
        if path in self.pages:
            return path.removeprefix("docs/")
        if path in OTHER_PAGES:
            return f"project/{path}"
        file = self.root / path
        if file.suffix in (".svg", ".png"):
            return path.removeprefix("docs/")
        if file.exists():
            self.sources.add(path)
            return f"source:{path}"
        return None

    def moved(self, text, path):
        """The page's text with links from its place in the stage."""
        lines = text.splitlines()
        here = posixpath.dirname(self.staged(path))
        for link in pages.links(text):
            if pages.FOREIGN.match(link.target) or not link.target:
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.target))
            staged = self.staged(target)
            if staged is None:
                raise SystemExit(f"{path}:{link.line}: links to {link.target}, which is not there")
            new = staged if staged.startswith("source:") else posixpath.relpath(staged, here or ".")
            anchor = f"#{link.anchor}" if link.anchor and staged.endswith(".md") else ""
            old = link.target + (f"#{link.anchor}" if link.anchor else "")
            lines[link.line - 1] = lines[link.line - 1].replace(f"]({old})", f"]({new}{anchor})", 1)
            if link.picture:
                (self.out / staged).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.root / target, self.out / staged)
        return "\n".join(lines) + "\n"

    def navigation(self, path):
        """toctrees of a page's lists."""
        here = posixpath.dirname(self.staged(path)) or "."
        for caption, links in pages.listed((self.root / path).read_text()).items():
            entries = []
            for link in links:
                target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.target))
                staged = self.staged(target)
                if target in (*self.pages, *OTHER_PAGES, *self.headers, *self.packages):
                    entries.append(f"{link.text} <{posixpath.relpath(os.path.splitext(staged)[0], here)}>")
            if path == REFERENCE and caption == "Kernels":
                entries.insert(0, "All calls <reference/all>")
            if entries:
                yield "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```", ""])

    def write(self, path, text):
        file = self.out / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def write_pages(self):
        for path in [*self.pages, *OTHER_PAGES]:
            text = self.moved((self.root / path).read_text(), path)
            if path in WITH_LISTS:
                text += "".join(self.navigation(path))
            self.write(self.staged(path), text)

    def write_sources(self):
        """A page for each file that pages link to, and for each header of the reference; conf.py leads links there."""
        for path in sorted(self.sources | set(self.headers)):
            file = self.root / path
            if file.is_dir():
                body = "<ul>" + "".join(f"<li>{html.escape(f.name)}</li>" for f in sorted(file.iterdir()) if f.is_file()) + "</ul>"
            else:
                body = pygments.highlight(file.read_text(), lexer_of(file), pygments.formatters.HtmlFormatter())
            up = "../" * (path.count("/") + 1)
            self.write(f"extra/source/{path}.html", SOURCE_PAGE.format(path=html.escape(path), up=up, body=body, style=style()))

    def place(self, path):
        """Where a file of the tree lies in the site; None: nowhere."""
        if path in (*self.pages, *OTHER_PAGES, *self.headers, *self.packages):
            return os.path.splitext(self.staged(path))[0] + ".html"
        return f"source/{path}.html" if path in self.sources else None


def main(root, out):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    stage = Stage(root, out)
    told = reference.write(root, stage.headers, out / "reference", out / "doxygen")
    shutil.rmtree(out / "doxygen")
    names, untold = python_calls.write(root, stage.packages, out / "reference")
    stage.write_pages()
    stage.write_sources()
    tasks.write(root, out / "extra", stage.place)
    here = pathlib.Path(__file__).parent
    shutil.copytree(here / "static", out / "static")
    theme.write(out / "static")
    shutil.copy(here / "conf.py", out / "conf.py")
    print(f"docs: {len(stage.pages)} pages, {told['headers']} headers with {told['calls']} calls "
          f"({told['signatures']} signatures), {names} names of Python, {len(stage.sources)} sources shown")
    if told["untold"] or untold:
        raise SystemExit("\n".join(f"{name} has no comment that tells what it does" for name in [*told["untold"], *untold]))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
