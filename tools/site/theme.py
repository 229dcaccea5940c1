# SPDX-License-Identifier: Apache-2.0
"""What Debian's package of furo lacks: its script as one file that browsers run as it is (the package has modules, and pages
that load them as plain scripts), and its dark colors for readers whose system asks for dark.
"""
import pathlib
import re

IMPORT = re.compile(r'^import Gumshoe from "./(gumshoe-patched\.js)";\n')
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


def write(out):
    """Files of the site that stand in for the theme's, below `out`."""
    import furo  # here: the rest is tested without it
    static = pathlib.Path(furo.__file__).parent / "theme/furo/static"
    scripts = static / "scripts"
    (out / "scripts").mkdir(parents=True, exist_ok=True)
    gumshoe = scripts / "gumshoe-patched.js"
    made = script((scripts / "furo.js").read_text(), gumshoe.read_text() if gumshoe.exists() else "")
    (out / "scripts/furo.js").write_text(made)
    (out / "dark.css").write_text(dark_style((static / "styles/furo.css").read_text()))
