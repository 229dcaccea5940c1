#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check.py SITE: that every link of the built site leads to a page and an anchor, every picture has a text, and nothing is
loaded from another host, nor by a style from the root of this one: the site works without a network, in any folder.
"""
import html.parser
import pathlib
import posixpath
import re
import sys
import urllib.parse

# Attributes that a browser loads by itself.
LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("object", "data")}
REMOTE = re.compile(r"^(?:https?:)?//")
CSS_URL = re.compile(r"url\(\s*['\"]?((?:https?:/)?/[^)'\"]+)|@import\s+['\"]((?:https?:/)?/[^'\"]+)")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads, self.untold = set(), [], [], []
        self.has_title = self.fits_phones = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        for name in ("id", "name"):
            if found.get(name) and tag != "meta":
                self.anchors.add(found[name])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "link" and found.get("href"):
            (self.loads if found.get("rel") in ("stylesheet", "icon", "preload") else self.links).append(found["href"])
        self.loads += [found[name] for where, name in LOADS if where == tag and found.get(name)]
        if tag == "img" and not (found.get("alt") or "").strip():
            self.untold.append(found.get("src", "?"))
        self.has_title |= tag == "title"
        self.fits_phones |= tag == "meta" and found.get("name") == "viewport"


def split(page, target):
    """(path below the site, anchor) of a link; None for one that leads elsewhere."""
    if re.match(r"^[a-z]+:|^//", target):
        return None
    path, _, anchor = target.partition("#")
    path = urllib.parse.unquote(path.partition("?")[0])
    where = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    return where, urllib.parse.unquote(anchor)


def check(pages, exists, styles=()):
    """What is wrong with {path: Page}; `exists` says whether another file of the site is there."""
    for name, page in sorted(pages.items()):
        for target in page.links + page.loads:
            place = split(name, target)
            if place is None:
                continue
            where, anchor = place
            if where not in pages and not exists(where):
                yield f"{name}: leads to {target}, which is not there"
            elif anchor and where in pages and anchor not in pages[where].anchors:
                yield f"{name}: leads to {target}, and {where} has no such anchor"
        yield from (f"{name}: loads {target} from another host" for target in page.loads if REMOTE.match(target))
        yield from (f"{name}: the picture {target} has no text" for target in page.untold)
        if not page.has_title or not page.fits_phones:
            yield f"{name}: no title, or no viewport for phones"
    for name, text in styles:
        yield from (f"{name}: loads {''.join(found)} from another host, or from its root" for found in CSS_URL.findall(text))


def main(site):
    files = sorted(site.rglob("*.html"))
    pages = {f.relative_to(site).as_posix(): Page(f.read_text()) for f in files}
    styles = [(f.relative_to(site).as_posix(), f.read_text()) for f in site.rglob("*.css")]
    bad = list(check(pages, lambda where: (site / where).exists(), styles))
    links = sum(len(page.links) for page in pages.values())
    print("\n".join(bad) or f"site: {len(pages)} pages, {links} links, ok")
    return bool(bad) or not pages


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
