#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/ as readers go through them: links and anchors lead somewhere, pictures have a text and can be read in the
dark, every page is in the navigation, the reference names the public headers, code that a page shows of a program stands in
it, and task pages (tools/site/tasks.py) find what they are made of.

check_docs.py ROOT
"""
import pathlib
import posixpath
import re
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/site"))
import pages  # noqa: E402
import python_calls  # noqa: E402
import tasks  # noqa: E402

ALSO = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
NAVIGATION = ("docs/index.md", "docs/reference.md", "docs/tutorial/index.md")
# What a program includes is in the reference; device/api.h only includes.
PUBLIC = ("device/*.h", "host/*.h", "peal/*.h")
NOT_IN_REFERENCE = {"device/api.h": "includes the others", "peal/c_guard.h": "not installed: the C API's own"}
DARK = "prefers-color-scheme: dark"


def target_of(path, link):
    """The file of the tree that a link of `path` leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link.target)) if link.target else path


def check_links(texts, exists):
    """texts: {path: text} of pages."""
    for path, text in texts.items():
        for link in pages.links(text):
            if pages.FOREIGN.match(link.target):
                continue
            target = target_of(path, link)
            if target not in texts and not exists(target):
                yield f"{path}:{link.line}: links to {link.target}, which is not there"
            elif link.anchor and target in texts and link.anchor not in set(pages.anchors(texts[target])):
                yield f"{path}:{link.line}: {target} has no heading for #{link.anchor}"


def check_pictures(texts, read):
    """read(path): the text of a picture, or None."""
    for path, text in texts.items():
        for link in pages.links(text):
            if not link.picture:
                continue
            if not link.text.strip():
                yield f"{path}:{link.line}: the picture {link.target} has no text for those who do not see it"
            picture = read(target_of(path, link)) if link.target.startswith(("pictures/", "../pictures/")) else None
            for wanted in ("<title", "<desc", DARK) if picture is not None else ():
                if wanted not in picture:
                    yield f"{target_of(path, link)}: no {wanted.strip('<')}"


def check_navigation(texts):
    """That each page is in a list which the first page's lists lead to."""
    found = {"docs/index.md"}
    for path in NAVIGATION:
        for links in pages.listed(texts.get(path, "")).values():
            found |= {target_of(path, link) for link in links}
    for path in NAVIGATION:
        if path not in found:
            yield f"{path}: docs/index.md does not list it"
    yield from (f"{path}: in no list of {', '.join(NAVIGATION)}" for path in texts if path.startswith("docs/") and path not in found)


def check_reference(text, public):
    """That docs/reference.md lists the public headers."""
    listed = {target_of("docs/reference.md", link) for links in pages.listed(text).values() for link in links}
    yield from (f"docs/reference.md: {header} is missing" for header in public if header not in listed)


def stands_in(block, program):
    """Whether the program has these lines in a row, all of them further in or not."""
    wanted, lines = textwrap.dedent(block).splitlines(), program.splitlines()
    return any(lines[at].strip() == wanted[0].strip() and textwrap.dedent("\n".join(lines[at:at + len(wanted)])).splitlines() == wanted
               for at in range(len(lines)))


def check_programs(texts, read):
    """Code that a page shows of a program, and pages that show none of the program that they are about."""
    for path, text in texts.items():
        for code in pages.code_blocks(text):
            if not code.program:
                continue
            program = read(code.program)
            if program is None:
                yield f"{path}:{code.line}: shows {code.program}, which is not there"
            elif not stands_in(code.text, program):
                yield f"{path}:{code.line}: {code.program} does not have this block, line by line"
        named = set(re.findall(r"\]\((?:\.\./)+(examples/tutorial/\w+\.cu)\)", text))
        if path.startswith("docs/tutorial/") and named - {code.program for code in pages.code_blocks(text)}:
            yield f"{path}: shows no code of {', '.join(sorted(named))}"


def enumerators(text, name):
    """Of an enum class, but for what counts them."""
    body = re.search(rf"enum class {name}\b[^;{{]*\{{(.*?)\n\}};", text, re.S).group(1)
    return [found for found in re.findall(r"^\s*(k\w+)", body, re.M) if found != "kCount"]


def check_errors(page, status, exception, error):
    """That docs/errors.md has a row with each Status and ErrorCode, and the words of it."""
    words = dict(re.findall(r'case Status::(k\w+):\s*return "([^"]*)";', status))
    wanted = [(name, words.get(name)) for name in enumerators(status, "Status")]
    wanted += zip(enumerators(exception, "ErrorCode"), re.findall(r'"([^"]*)"', error.partition("kNames[]")[2].partition("}")[0]))
    rows = [line for line in page.splitlines() if line.startswith("| `k")]
    yield from (f"docs/errors.md: no row has `{name}` and \"{told}\"" for name, told in wanted
                if not any(f"`{name}`" in row and f'"{told}"' in row for row in rows))


def check_python(folder, read):
    """That each name of a package is found, and its docstring tells what it does."""
    try:
        yield from (f"{folder}: {name} has no docstring" for name in python_calls.Package(folder, read).untold())
    except LookupError as error:
        yield str(error)


def check_tasks(read, place):
    """That each task page can be made, is short, and leads to pages that are there; read and place as tasks.page_of has them."""
    for name in tasks.TASKS:
        gone = [part.page for part in tasks.TASKS[name][2] if read(part.page) is None]
        if gone:
            yield f"tools/site/tasks.py: {name}: {gone[0]} is not there"
            continue
        try:
            text = tasks.page_of(name, read, place)
        except LookupError as error:
            yield f"tools/site/tasks.py: {name}: {error}"
            continue
        if text.count("\n") > tasks.LONGEST:
            yield f"tools/site/tasks.py: {name} has {text.count(chr(10))} lines; {tasks.LONGEST} is the limit"
        yield from (f"tools/site/tasks.py: {name} leads to {link.target}, which is no page" for link in pages.links(text)
                    if not pages.FOREIGN.match(link.target) and read(link.target) is None)


def main(root):
    def read(path):
        return (root / path).read_text() if (root / path).is_file() else None

    files = sorted((root / "docs").rglob("*.md"))
    texts = {f.relative_to(root).as_posix(): f.read_text() for f in [*files, *(root / name for name in ALSO)]}
    public = sorted(f.relative_to(root).as_posix() for pattern in PUBLIC for f in root.glob(pattern))
    bad = [*check_links(texts, lambda path: (root / path).exists()), *check_pictures(texts, read), *check_navigation(texts)]
    bad += check_reference(texts.get("docs/reference.md", ""), [h for h in public if h not in NOT_IN_REFERENCE])
    bad += check_programs(texts, read)
    bad += check_errors(*map(read, ("docs/errors.md", "device/status.h", "host/base/exception.h", "host/base/error.cc")))
    bad += [line for folder in python_calls.SECTIONS for line in check_python(folder, read)]
    bad += check_tasks(read, lambda path, _: tasks.place_of_installation(path))
    shown = sum(bool(code.program) for text in texts.values() for code in pages.code_blocks(text))
    links = sum(1 for text in texts.values() for _ in pages.links(text))
    print("\n".join(bad) or f"pages: {len(texts)} pages, {links} links, {shown} blocks of programs, {len(tasks.TASKS)} tasks, ok")
    return bool(bad) or not files


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
