# SPDX-License-Identifier: Apache-2.0
"""What Debian's package of furo lacks: its script as one file that browsers run as it is (the package has modules, and pages
that load them as plain scripts), its dark colors for readers whose system asks for dark, and normalize.css, which the
package's style loads from the root of a Debian server.
"""
import pathlib
import re

JAVASCRIPT = pathlib.Path("/usr/share/javascript")
IMPORT = re.compile(r'^import Gumshoe from "./(gumshoe-patched\.js)";\n')
NORMALIZE = re.compile(r"@import url\(/javascript/(normalize\.css/normalize\.css)\);")
DARK = re.compile(r'body\[data-theme="?dark"?\]\s*\{([^}]*--color-[^}]*)\}')


def script(furo_js, gumshoe_js):
    """furo.js behind what it imports; unchanged where it imports nothing."""
    return gumshoe_js + "\n" + IMPORT.sub("", furo_js) if IMPORT.match(furo_js) else furo_js


def dark_style(furo_css):
    """The dark colors once more, by the system's wish; "" where the theme has that."""
    colors = DARK.search(furo_css)
    if "prefers-color-scheme" in furo_css or not colors:
        return ""
    return ("@media not print {\n@media (prefers-color-scheme: dark) {\nbody:not([data-theme=\"light\"]) {" + colors.group(1) +
            "}\n}\n}\n")


def whole_style(furo_css, read):
    """furo.css with normalize.css in it; read(path) is its text."""
    return NORMALIZE.sub(lambda found: read(found.group(1)), furo_css)


def write(out):
    """Files of the site that stand in for the theme's, below `out`."""
    import furo  # here: the rest is tested without it
    static = pathlib.Path(furo.__file__).parent / "theme/furo/static"
    scripts = static / "scripts"
    (out / "scripts").mkdir(parents=True, exist_ok=True)
    gumshoe = scripts / "gumshoe-patched.js"
    made = script((scripts / "furo.js").read_text(), gumshoe.read_text() if gumshoe.exists() else "")
    (out / "scripts/furo.js").write_text(made)
    style = (static / "styles/furo.css").read_text()
    (out / "dark.css").write_text(dark_style(style))
    (out / "styles").mkdir(exist_ok=True)
    (out / "styles/furo.css").write_text(whole_style(style, lambda path: (JAVASCRIPT / path).read_text()))
