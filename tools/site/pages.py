# SPDX-License-Identifier: Apache-2.0
"""What a page of Markdown says: its links, pictures, headings and code, and what lies in code is none of them.

tools/site builds the site by it, tests/lint/check_docs.py checks the pages by it.
"""
import dataclasses
import re

FENCE = re.compile(r"^\s*(```+|~~~+)(.*)$")
HEADING = re.compile(r"^(#{1,6}) (.*?)\s*#*$")
CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)?)\)")
FOREIGN = re.compile(r"^[a-z]+:")
PROGRAM = re.compile(r"^<!-- ((?:examples|python|tests)/\S+) -->$")
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
ITEM = re.compile(r"^[-*] ")


@dataclasses.dataclass
class Link:
    line: int
    text: str
    target: str  # without the anchor; "" is the page itself
    anchor: str
    picture: bool


@dataclasses.dataclass
class Code:
    line: int
    language: str  # "" by indentation, too
    text: str
    program: str  # of which it is a part, named by a comment ahead of it; or ""
    reason: str = ""  # why no test runs it, named by such a comment


def is_indented_code(line, before):
    """A block by indentation begins behind an empty line; a list's second paragraph is none, and no page has those."""
    return line.startswith("    ") and before


def prose_lines(text):
    """(number, line) of what is no code block; code spans are blanked out, so that columns stay."""
    fence, behind_gap = "", True
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if fence:
            fence = "" if found and found.group(1).startswith(fence) and not found.group(2).strip() else fence
            continue
        if found:
            fence = found.group(1)
            continue
        if is_indented_code(line, behind_gap):
            continue
        behind_gap = not line.strip()
        yield number, line


def without_code(line):
    return CODE_SPAN.sub(lambda span: " " * len(span.group()), line)


def links(text):
    for number, line in prose_lines(text):
        # The text of a link may be code: only the target is looked at where a span covers it.
        spans = [m.span() for m in CODE_SPAN.finditer(line)]
        for found in LINK.finditer(line):
            inside = any(a < found.start() and found.start() < b for a, b in spans)
            if inside:
                continue
            target, _, anchor = found.group(3).partition("#")
            yield Link(number, found.group(2), target, anchor, found.group(1) == "!")


def slug(heading):
    """The anchor that GitHub gives a heading, and the site as well."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def headings(text):
    """(depth, words) of each."""
    for _, line in prose_lines(text):
        found = HEADING.match(line)
        if found:
            yield len(found.group(1)), found.group(2)


def anchors(text):
    seen = {}
    for _, words in headings(text):
        name = slug(words)
        seen[name] = seen.get(name, -1) + 1
        yield name if seen[name] == 0 else f"{name}-{seen[name]}"


def title(text):
    return next((words for depth, words in headings(text) if depth == 1), "")


def first_paragraph(text):
    taken = []
    for _, line in prose_lines(text):
        if HEADING.match(line) or (not line.strip() and not taken) or line.startswith(("|", "!", "<!--")):
            continue
        if not line.strip():
            break
        taken.append(line.strip())
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(taken))


def listed(text):
    """{heading: [Link]}: the first link of each item of the lists below each heading of depth 2."""
    found, section, at_items = {}, "", set()
    for number, line in prose_lines(text):
        heading = HEADING.match(line)
        if heading and len(heading.group(1)) == 2:
            section = heading.group(2)
        elif ITEM.match(line):
            at_items.add(number)
            found.setdefault(section, [])
            first = next((link for link in links(line)), None)
            if first and not FOREIGN.match(first.target) and first.target:
                found[section].append(first)
    return found


def code_blocks(text):
    """By fences and by indentation, without the indentation."""
    lines = text.splitlines()
    number, behind_gap, comment = 0, True, ""
    while number < len(lines):
        line = lines[number]
        opening = FENCE.match(line)
        if not opening and not is_indented_code(line, behind_gap):
            behind_gap = not line.strip()
            comment = comment if behind_gap else line
            number += 1
            continue
        begin = end = number + bool(opening)
        if opening:
            while end < len(lines) and lines[end].strip() != opening.group(1):
                end += 1
        else:
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
        body = lines[begin:end] if opening else [line[4:] for line in lines[begin:end]]
        program, reason = PROGRAM.match(comment), NOT_RUN.match(comment)
        yield Code(begin + (not opening), opening.group(2).strip() if opening else "", "\n".join(body).rstrip("\n") + "\n",
                   program.group(1) if program else "", reason.group(1) if reason else "")
        number, behind_gap, comment = end + bool(opening), not opening, ""
