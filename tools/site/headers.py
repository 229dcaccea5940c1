# SPDX-License-Identifier: Apache-2.0
"""What public headers declare, as doxygen reads them, with the text of their /// comments as it stands.

doxygen sees copies of the headers: comments are wrapped so that it leaves their text alone, PEAL_C_FORMS is written out,
and the macros that only compilers need are nothing. Names in detail namespaces and private members are left out.
"""
import dataclasses
import re
import subprocess
import xml.etree.ElementTree

DOXYFILE = """
INPUT = {input}
RECURSIVE = YES
FILE_PATTERNS = *.h
OUTPUT_DIRECTORY = {output}
STRIP_FROM_PATH = {input}
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
GENERATE_HTML = NO
GENERATE_LATEX = NO
QUIET = YES
WARNINGS = NO
WARN_IF_UNDOCUMENTED = NO
EXTRACT_ALL = YES
MARKDOWN_SUPPORT = NO
AUTOLINK_SUPPORT = NO
INLINE_INHERITED_MEMB = NO
SORT_MEMBER_DOCS = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
SEARCH_INCLUDES = NO
EXCLUDE_SYMBOLS = *detail* peal::nic* peal::p2p* peal::simt*
PREDEFINED = PEAL_HD= PEAL_DEVICE= PEAL_UNROLL= PEAL_CUDA=0 PEAL_SIM=0 __cplusplus=202002L
"""
LINE_COMMENTS = re.compile(r"^(?P<indent>[ \t]*)///(?P<first>[^\n]*)\n(?P<rest>(?:[ \t]*///[^\n]*\n)*)", re.M)
C_COMMENT = re.compile(r"/\*\*(?P<text>.*?)\*/", re.S)
FORMS = re.compile(r"^PEAL_C_FORMS\((\w+),\s*([^)]*)\)", re.M)
FORMS_MACRO = re.compile(r"^/\* Both forms[^\n]*\n#define PEAL_C_FORMS.*?\n\n|^#undef PEAL_C_FORMS$", re.M | re.S)
KINDS = {"function": "function", "typedef": "type", "variable": "variable", "enum": "enum"}


@dataclasses.dataclass
class Entry:
    kind: str       # function, type, variable, enum, struct, class, concept
    name: str       # qualified below namespace peal: "Runtime::malloc"
    scope: str      # "Runtime" of a member, else ""
    signature: str  # a declaration, without macros
    template: str   # "template<Reach R, class T>", or ""
    text: str       # of the comment; ""
    file: str
    line: int
    definition: str = ""  # as the header has it, of plain structs, enums and concepts


def _wrapped(lines):
    """A comment that doxygen takes over word for word, on as many lines."""
    return "/** @verbatim " + "\n".join(lines) + " @endverbatim */"


def _wrap_line_comment(found):
    lines = [found["first"]] + [line.strip()[3:] for line in found["rest"].splitlines()]
    return found["indent"] + _wrapped(lines) + "\n"


def _wrap_c_comment(found):
    lines = found["text"].rstrip().split("\n")
    return _wrapped([lines[0]] + [re.sub(r"^\s*\* ?", " ", line) for line in lines[1:]])


def _write_out_forms(found):
    name, parameters = found.group(1), found.group(2)
    flat = " ".join(parameters.split())
    return f"int {name}({flat}); int {name}_on_stream({flat}, peal_stream_t stream);" + "\n" * parameters.count("\n")


def for_doxygen(text):
    """The header's text, on the same lines."""
    text = FORMS_MACRO.sub(lambda found: "\n" * found.group().count("\n"), text)
    text = FORMS.sub(_write_out_forms, text)
    return LINE_COMMENTS.sub(_wrap_line_comment, C_COMMENT.sub(_wrap_c_comment, text))


def run_doxygen(root, files, work):
    copies = work / "headers"
    for file in files:
        copy = copies / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(for_doxygen((root / file).read_text()))
    config = DOXYFILE.format(input=copies, output=work)
    subprocess.run(["doxygen", "-"], input=config, text=True, check=True)
    return work / "xml"


def words(node):
    return "" if node is None else " ".join("".join(node.itertext()).split())


def comment_of(node):
    """The text of @verbatim, wherever doxygen has put it."""
    for part in ("briefdescription", "detaileddescription"):
        found = node.find(part)
        if found is not None and found.find(".//verbatim") is not None:
            return "".join(found.find(".//verbatim").itertext())
    return ""


def template_of(node):
    parameters = node.find("templateparamlist")
    if parameters is None:
        return ""
    shown = []
    for parameter in parameters.findall("param"):
        kind, name, default = words(parameter.find("type")), words(parameter.find("declname")), words(parameter.find("defval"))
        kind = re.sub(r"^typename\b", "class", kind)
        kind = tidy(kind)
        shown.append(kind + (f" {name}" if name and not kind.endswith(f" {name}") else "") + (f" = {default}" if default else ""))
    constraint = words(node.find("requiresclause"))
    return f"template<{', '.join(shown)}>" + (f" requires {constraint}" if constraint else "")


def tidy(text):
    """What doxygen puts apart, and what a reader need not see."""
    text = re.sub(r"\s+([*&]+)", r"\1", re.sub(r"\s*([<>])\s*", r"\1", text))
    text = re.sub(r"([*&>])(?=[A-Za-z_])", r"\1 ", text)
    text = re.sub(r"(?<=\w)=(?=[\w{])", " = ", text)
    text = re.sub(r"std::type_identity_t< ?(\w+)>", r"\1", text)
    return re.sub(r"\b(PEAL_HD|PEAL_DEVICE|PEAL_KERNEL|constexpr|inline|static(?!_))\b ?", "", text).strip()


def signature_of(node, name):
    result = tidy(words(node.find("type")))
    arguments = tidy(words(node.find("argsstring")))
    arguments = re.sub(r"\s*(\boverride\b|= ?(0|default)$)", "", arguments)
    result = re.sub(r"^virtual ?", "", result)
    static = "static " if node.get("static") == "yes" and "::" in words(node.find("definition")) else ""
    return f"{static}{result} {name}{arguments}".strip()


def members(compound, scope, known):
    for node in compound.iter("memberdef"):
        kind = KINDS.get(node.get("kind"))
        place = node.find("location")
        if kind is None or node.get("prot") != "public" or place is None or place.get("file") not in known:
            continue
        name = words(node.find("name"))
        shown = f"{scope}::{name}" if scope else name
        text = comment_of(node)
        yield Entry(kind, shown, scope, signature_of(node, name), template_of(node), text, place.get("file"),
                    int(place.get("line")))


def definition(text, line):
    """From the declaration on `line` (its template line, too) to its end, as the header has it."""
    lines = text.splitlines()
    begin = line - 1
    while begin > 0 and (lines[begin - 1].startswith("template") or lines[begin - 1].endswith(",")):
        begin -= 1
    depth, end = 0, begin
    for end in range(begin, len(lines)):
        code = lines[end].partition("//")[0]
        depth += code.count("{") - code.count("}")
        if depth == 0 and code.rstrip().endswith(";"):
            break
        if depth == 0 and re.match(r"^}.*;", code):
            break
    return "\n".join(lines[begin:end + 1])


def read(root, files, work):
    """All entries of the headers, in their order."""
    known, entries = set(files), {}
    texts = {file: (root / file).read_text() for file in files}
    for file in sorted(run_doxygen(root, files, work).glob("*.xml")):
        for compound in xml.etree.ElementTree.parse(file).getroot().findall("compounddef"):
            kind = compound.get("kind")
            if kind not in ("namespace", "file", "struct", "class", "concept"):
                continue
            full = words(compound.find("compoundname"))
            name = re.sub(r"^peal(::|$)", "", full)
            place = compound.find("location")
            if kind in ("struct", "class", "concept"):
                if place is None or place.get("file") not in known or compound.get("prot", "public") != "public":
                    continue
                line = int(place.get("line"))
                scope = name.rpartition("::")[0]
                entry = Entry(kind, name, scope, name.rpartition("::")[2], template_of(compound), comment_of(compound),
                              place.get("file"), line)
                entries[entry.file, line, name, ""] = entry
            if kind != "concept":
                scope = "" if kind == "file" else name
                for entry in members(compound, scope, known):
                    key = (entry.file, entry.line, entry.name, entry.signature)
                    if kind != "file" or not any(k[:2] == key[:2] and k[3] == key[3] for k in entries):
                        entries[key] = entry
    ordered = sorted(entries.values(), key=lambda e: (files.index(e.file), e.line))
    for entry in ordered:
        if entry.kind in ("struct", "class", "enum", "concept"):
            entry.definition = definition(texts[entry.file], entry.line)
    return ordered
