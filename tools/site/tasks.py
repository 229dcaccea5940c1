# SPDX-License-Identifier: Apache-2.0
"""Task pages and llms.txt, for coding assistants and for people in a hurry: a page a task, made of parts of docs/ as they
stand there, so that no sentence has to be kept twice.

tools/docs puts them into the site, packaging/install.py into share/doc/peal, packaging/wheel.py into the wheel. A page can
be read alone: what it needs of a program or of the settings is in it.
"""
import dataclasses
import posixpath
import re

import pages

LONGEST = 200  # lines of a page
INDEX = "docs/index.md"


@dataclasses.dataclass
class Part:
    """What stands below a heading of a page, with the headings below it; "": what stands ahead of the first heading."""
    page: str
    heading: str = ""

    def lines(self, text):
        begin, end, depth = None, None, 0
        for number, line in pages.prose_lines(text):
            found = pages.HEADING.match(line)
            if not found:
                continue
            at = len(found.group(1))
            if begin is not None and (not self.heading or at <= depth):
                end = number - 1
                break
            if begin is None and found.group(2) == (self.heading or pages.title(text)):
                begin, depth = (number if not self.heading else number - 1), at
        if begin is None:
            raise LookupError(f"{self.page} has no heading '{self.heading}'")
        return text.splitlines()[begin:end]


@dataclasses.dataclass
class Rows:
    """Rows of the tables of a page that begin with one of `names`."""
    page: str
    title: str
    columns: str
    names: tuple

    def lines(self, text):
        rows = [line for line in text.splitlines() if line.startswith("| `")]
        found = [next((row for row in rows if row.startswith(f"| `{name}` ")), None) for name in self.names]
        if None in found:
            raise LookupError(f"{self.page} has no row of {self.names[found.index(None)]}")
        return [f"## {self.title}", "", self.columns, "|" + "---|" * (self.columns.count("|") - 1), *found]


@dataclasses.dataclass
class Paragraph:
    """A paragraph, with a list behind it, that begins with these words."""
    page: str
    begin: str

    def lines(self, text):
        lines = text.splitlines()
        at = next((n for n, line in enumerate(lines) if line.startswith(self.begin)), None)
        if at is None:
            raise LookupError(f"{self.page} has no paragraph '{self.begin}'")
        end = at
        while end < len(lines) and (lines[end].strip() or (end + 1 < len(lines) and lines[end + 1].startswith("* "))):
            end += 1
        return lines[at:end]


@dataclasses.dataclass
class Program:
    """A program as it stands."""
    page: str

    def lines(self, text):
        return [f"## {posixpath.basename(self.page)}", "", "```cpp", *text.rstrip("\n").splitlines(), "```"]


SETTINGS = "| variable | default | what it sets |"
# name: (title, what it is for, parts)
TASKS = {
    "start": ("Start", "Install peal, build a first program, and run it on two PEs; in C++, C, Python, or from NVSHMEM.", [
        Part("docs/start.md"), Part("docs/start.md", "Install"), Part("docs/start.md", "Your own program in C++"),
        Program("examples/tutorial/step1_put.cu"), Part("docs/start.md", "A program in C"),
        Part("docs/start.md", "A program in Python"), Part("docs/start.md", "A program written for NVSHMEM"),
        Part("docs/start.md", "On a GPU")]),
    "choose_a_transport": (
        "Choose a transport", "Decide how the bytes of a put travel, make that choice a setting, and see what was taken.", [
            Part("docs/concepts/put.md", "Three routes"),
            Rows("docs/settings.md", "Settings", SETTINGS, (
                "PEAL_TRANSPORT", "PEAL_HCA", "PEAL_RAILS", "PEAL_DOORBELL", "PEAL_QUEUES", "PEAL_INFO")),
            Paragraph("docs/hardware.md", "**What happens with less.**"), Part("docs/proxy.md"),
            Part("docs/cluster.md", "What each machine needs"), Part("docs/performance.md", "What to choose")]),
    "port_from_nvshmem": (
        "Port a program from NVSHMEM", "Compile a program written for NVSHMEM against peal, and find what differs.", [
            Part("docs/nvshmem.md"), Part("docs/start.md", "A program written for NVSHMEM"),
            Part("docs/nvshmem.md", "What differs"), Part("docs/nvshmem.md", "Calls")]),
    "find_a_hang": ("Find a hang", "Find out which lane of which PE waits for what, and why that does not come.", [
        Part("docs/debugging.md", "It hangs"), Part("docs/gdb.md", "Commands"), Part("docs/debugging.md", "What it did last"),
        Part("docs/errors.md", "Deadlines"), Part("docs/debugging.md", "On a GPU")]),
    "measure": ("Measure", "Measure latency, bandwidth, message rate and collective calls, and read the figures.", [
        Part("docs/benchmarks.md"), Part("docs/benchmarks.md", "Options"), Part("docs/benchmarks.md", "What the figures are"),
        Part("docs/benchmarks.md", "Drawing"), Part("docs/performance.md", "What to choose"),
        Part("docs/performance.md", "Reading a profile")]),
    "report_a_bug": ("Report a bug", "Gather what a report needs: the machine, the settings, the failure, the calls before it.", [
        Part("docs/doctor.md", "What to report with a bug"), Part("docs/doctor.md"),
        Rows("docs/settings.md", "Settings", SETTINGS, ("PEAL_INFO", "PEAL_LOG", "PEAL_RECORD", "PEAL_RECORD_FILE")),
        Part("docs/debugging.md", "What it did last"), Part("docs/debugging.md", "What everybody waits for")]),
}


def led(line, page, lead):
    """A line of `page` with links that lead where lead(path, anchor) says; where it answers None the path stands there."""
    def target(found):
        picture, words, old = found.groups()
        if pages.FOREIGN.match(old):
            return found.group()
        path, _, anchor = old.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        new = None if picture else lead(path, anchor)
        return f"[{words}]({new})" if new else words if picture or words.strip("`") == path else f"{words} (`{path}`)"

    spans = [m.span() for m in pages.CODE_SPAN.finditer(line)]
    return pages.LINK.sub(lambda m: m.group() if any(a < m.start() < b for a, b in spans) else target(m), line)


def part_text(part, text, lead):
    lines = part.lines(text)
    prose = {number for number, _ in pages.prose_lines("\n".join(lines))}
    shown = []
    for number, line in enumerate(lines, 1):
        if number not in prose:
            shown.append(line)
        elif not line.startswith(("<!--", "![")):  # the text says what the picture shows
            shown.append(led(line, part.page, lead))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(shown)).strip("\n")


def page_of(name, read, lead):
    """One page; read(path) is the text of a file of the tree."""
    title, purpose, parts = TASKS[name]
    texts = [part_text(part, read(part.page), lead) for part in parts]
    for n, part in enumerate(parts[1:], 1):  # a page's first words, behind another page's
        if isinstance(part, Part) and not part.heading:
            texts[n] = f"## {pages.title(read(part.page))}\n\n{texts[n]}"
    sources = ", ".join(dict.fromkeys(f"`{part.page}`" for part in parts))
    return "\n\n".join([f"# {title}", f"{purpose} Made from {sources}.", *texts]) + "\n"


def llms(read, lead):
    """llms.txt: the tasks, and what the pages are, a line each, for programs that read one file first."""
    text = read(INDEX)
    lines = ["# peal", "", "> " + pages.first_paragraph(text), "", "## Tasks", ""]
    lines += [f"- [{title}](tasks/{name}.md): {purpose}" for name, (title, purpose, _) in TASKS.items()]
    for caption, links in pages.listed(text).items():
        lines += ["", f"## {caption}", ""]
        for link in links:
            path = posixpath.normpath(posixpath.join("docs", link.target))
            place = lead(path, "")
            if place:
                lines.append(f"- [{link.text}]({place}): {pages.first_paragraph(read(path))}")
    return "\n".join(lines) + "\n"


def write(root, out, place):
    """llms.txt and tasks/ below `out`; place(path) is where a file of the tree lies from there, or None."""
    def read(path):
        return (root / path).read_text()

    def from_tasks(path, anchor):
        found = place(path)
        return None if found is None else f"../{found}" + (f"#{anchor}" if anchor else "")

    (out / "tasks").mkdir(parents=True, exist_ok=True)
    (out / "llms.txt").write_text(llms(read, lambda path, _: place(path)))
    for name in TASKS:
        (out / f"tasks/{name}.md").write_text(page_of(name, read, from_tasks))


def place_of_installation(path):
    """Where pages lie in share/doc/peal and in the wheel."""
    installed = path in ("README.md", "CHANGELOG.md") or (path.startswith("docs/") and path.endswith(".md"))
    return path if installed else None
