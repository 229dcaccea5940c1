#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages, and a built site, with planted mistakes: each must be found, and what is right must pass."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_blocks  # noqa: E402
import check_docs  # noqa: E402  (finds tools/site, too)
import check as site  # noqa: E402
import headers  # noqa: E402
import pages  # noqa: E402
import python_calls  # noqa: E402
import reference  # noqa: E402
import tasks  # noqa: E402
import theme  # noqa: E402

HEAD = '<title>x</title><meta name="viewport" content="width=device-width">'


class Pages(unittest.TestCase):
    def test_links_lead_to_files_and_to_headings(self):
        def found(text, other="# B\n\n## A `part`, and more\n"):
            return list(check_docs.check_links({"docs/a.md": text, "docs/b.md": other}, lambda path: path == "README.md"))

        self.assertFalse(found("# A\n[b](b.md#a-part-and-more) [r](../README.md) [a](#a) [w](https://x.y/z)"))
        self.assertTrue(found("[c](c.md)"))
        self.assertTrue(found("[b](b.md#a-part)"))
        self.assertTrue(found("[a](#b)"))
        self.assertTrue(found("[r](README.md)"))

    def test_what_lies_in_code_is_no_link_and_no_heading(self):
        self.assertFalse(list(pages.links("`[a](b.md)`\n\n    [a](b.md)\n\n```\n[a](b.md)\n# x\n```\n")))
        self.assertEqual(list(pages.anchors("# x\n```\n# y\n```\n## x\n")), ["x", "x-1"])
        self.assertEqual([link.target for link in pages.links("a [`b`](c.md) d")], ["c.md"])

    def test_pictures_have_a_text_and_can_be_read_in_the_dark(self):
        def found(text, picture="<title/><desc/> prefers-color-scheme: dark"):
            return list(check_docs.check_pictures({"docs/a.md": text}, lambda path: picture))

        self.assertFalse(found("![what it shows](pictures/x.svg)"))
        self.assertTrue(found("![](pictures/x.svg)"))
        self.assertTrue(found("![what it shows](pictures/x.svg)", "<title/><desc/>"))
        self.assertTrue(found("![what it shows](pictures/x.svg)", "<desc/> prefers-color-scheme: dark"))

    def test_every_page_is_in_the_navigation(self):
        lists = {"docs/index.md": "## A\n\n- [t](tutorial/index.md): x\n- [r](reference.md): x\n",
                 "docs/reference.md": "", "docs/tutorial/index.md": "## Steps\n\n- [1](1.md)\n", "docs/tutorial/1.md": ""}
        self.assertFalse(list(check_docs.check_navigation(lists)))
        self.assertTrue(list(check_docs.check_navigation({**lists, "docs/lost.md": ""})))
        self.assertTrue(list(check_docs.check_navigation({**lists, "docs/tutorial/index.md": "[1](1.md)"})))

    def test_the_reference_names_public_headers(self):
        text = "## Kernels\n\n- [Put](../device/rma.h): put.\n"
        self.assertFalse(list(check_docs.check_reference(text, ["device/rma.h"])))
        self.assertTrue(list(check_docs.check_reference(text, ["device/rma.h", "device/wait.h"])))

    def test_code_of_programs_is_theirs(self):
        def found(text, path="docs/a.md"):
            return list(check_docs.check_programs({path: text}, lambda file: "int a;\nint b;\n" if file == "examples/x.cu" else None))

        block = "<!-- examples/x.cu -->\n```cpp\nint b;\n```\n"
        self.assertFalse(found(block))
        self.assertFalse(found("```cpp\nint c;\n```\n"))
        self.assertTrue(found(block.replace("int b", "int  b")))
        self.assertTrue(found(block.replace("x.cu", "y.cu")))
        self.assertTrue(found("[x](../../examples/tutorial/x.cu)", "docs/tutorial/1.md"))
        self.assertFalse(found("<!-- examples/x.cu -->\n\n    int a;\n    int b;\n"))
        self.assertTrue(found("<!-- examples/x.cu -->\n\n    int b;\n    int a;\n"))
        self.assertTrue(check_docs.stands_in("a {\n  b\n", "x\n  a {\n    b\n  }\n"))
        self.assertFalse(check_docs.stands_in("a {\n  b\n", "x\n  a {\n  b\n  }\n"))


class Errors(unittest.TestCase):
    STATUS = 'enum class Status : uint32_t {\n  kOk = 0,\n  kLost,  // kBad\n  kCount,\n};\ncase Status::kOk:\n  return "ok";\ncase Status::kLost:\n  return "peer lost";\n'
    CODES = "enum class ErrorCode {\n  kSystem,  // x\n};\n"
    NAMES = 'kNames[] = {"system"};'

    def test_every_status_and_code_has_a_row_with_its_words(self):
        def found(page, status=self.STATUS):
            return list(check_docs.check_errors(page, status, self.CODES, self.NAMES))

        rows = '| `kOk` | "ok" |\n| `kLost` | "peer lost" |\n| `kSystem` | "system" |\n'
        self.assertFalse(found(rows))
        self.assertIn("kLost", found(rows.replace("peer lost", "lost"))[0])
        self.assertIn("kSystem", found(rows.replace("kSystem", "kTimeout"))[0])
        self.assertIn("kNew", found(rows, self.STATUS.replace("kCount", "kNew,\n  kCount"))[0])


class Python(unittest.TestCase):
    INIT = """'''What it is.'''
from peal._array import Array, empty
from peal._operations import put
__all__ = ["Array", "empty", "put", "wait"]


def wait(word: int) -> None:
    \'\'\'Waits.\'\'\'
"""
    ARRAY = """class Array:
    \'\'\'A part.\'\'\'

    def __init__(self, memory):
        pass

    def at(self, pe: int = 0) -> Array:
        \'\'\'Another PE's.\'\'\'

    @property
    def size(self) -> int:
        \'\'\'Elements.\'\'\'


def empty(shape, *, dtype=None) -> Array:
    \'\'\'Collective: makes one.

        empty(3)

    Of no dtype.\'\'\'
"""

    def found(self, array=ARRAY, operations="def put(dst): \'\'\'Copies.\'\'\'\n"):
        files = {"python/peal/__init__.py": self.INIT, "python/peal/_array.py": array, "python/peal/_operations.py": operations}
        return list(check_docs.check_python("python/peal", files.get)), files.get

    def test_each_name_is_found_and_told(self):
        self.assertEqual(self.found()[0], [])
        self.assertIn("peal.put has no docstring", self.found(operations="def put(dst): pass\n")[0][0])
        self.assertIn("nothing defines put", self.found(operations="def get(dst): pass\n")[0][0])
        self.assertIn("peal.Array.at", self.found(array=self.ARRAY.replace("\'\'\'Another PE's.\'\'\'", "pass"))[0][0])

    def test_pages_have_signatures_as_the_sources_have_them(self):
        text = python_calls.page("Calls", python_calls.Package("python/peal", self.found()[1]))
        for line in (".. py:function:: wait(word: int) -> None", ".. py:class:: Array\n", "   .. py:method:: at(pe: int=0) -> Array",
                     "   .. py:attribute:: size\n      :type: int", ".. py:function:: empty(shape, *, dtype=None) -> Array",
                     "- Collective: makes one.", "      empty(3)"):
            self.assertIn(line, text)
        self.assertNotIn("__init__", text)


class Blocks(unittest.TestCase):
    TREE = check_blocks.Tree(pathlib.Path(__file__).resolve().parents[2])

    def kind(self, text):
        """Of the one block: its kind, or what is wrong with it."""
        count = {}
        wrong = list(check_blocks.check({"a.md": text}, self.TREE, count))
        self.assertEqual(sum(count.values()), 1)
        return " ".join(wrong) or next(iter(count))

    def test_a_block_is_of_a_program_or_commands_or_marked(self):
        self.assertEqual(self.kind("x:\n\n<!-- examples/x.cu -->\n```cpp\na;\n```\n"), "program")
        self.assertEqual(self.kind("x:\n\n<!-- not run: a picture -->\n\n    a -> b\n"), "marked")
        self.assertEqual(self.kind("x:\n\n    A=1 tools/test --quick && bazel test //tests/unit/...   # x's\n"), "commands")
        for text in "    PE 0: it is at barrier 0\n", "```cpp\npeal::put();\n```\n", "    tools/test | a -> b\n":
            self.assertIn("no reason", self.kind("x:\n\n" + text))
        self.assertIn("no reason", self.kind("<!-- not run: x -->\n\nOther words.\n\n    a -> b\n"))

    def test_what_commands_name_is_there(self):
        for wrong in ("tools/tset", "tools/test --quik", "bazel build //examples:helo", "bazel test //no/such/...",
                      "peal-rum -n 2 ./ring", "peal-run -n 2 --no-prefx ./ring", "peal-run -n 2 peal-latency --size 8 --repaets 5",
                      "mpirun -np 2 bazel-bin/examples/helo", "PEAL_CHEK=on ./ring"):
            self.assertIn("is not there", self.kind(f"x:\n\n    {wrong}\n"), wrong)


class Tasks(unittest.TestCase):
    PAGE = "# T\n\nAhead of [b](b.md#c).\n\n## A\n\n    # no heading\n\n### Below\n\n[p](../x.cu), `[b](b.md)`\n\n## B\n\n| `S` | 1 |\n\n**P.** x\n\n* y\n\nz\n"

    def lines(self, part):
        return tasks.part_text(part, self.PAGE, lambda path, anchor: f"../{path}#{anchor}" if path.endswith(".md") else None)

    def test_parts_end_where_the_next_heading_of_their_depth_stands(self):
        self.assertEqual(self.lines(tasks.Part("docs/a.md")), "Ahead of [b](../docs/b.md#c).")
        self.assertEqual(self.lines(tasks.Part("docs/a.md", "A")),
                         "## A\n\n    # no heading\n\n### Below\n\np (`x.cu`), `[b](b.md)`")
        self.assertEqual(self.lines(tasks.Part("docs/a.md", "Below")), "### Below\n\np (`x.cu`), `[b](b.md)`")
        self.assertEqual(self.lines(tasks.Paragraph("docs/a.md", "**P.**")), "**P.** x\n\n* y")
        self.assertIn("| `S` | 1 |", self.lines(tasks.Rows("docs/a.md", "T", "| a | b |", ("S",))))

    def test_what_a_page_no_longer_has_is_an_error(self):
        for part in (tasks.Part("docs/a.md", "C"), tasks.Paragraph("docs/a.md", "**Q.**"), tasks.Rows("docs/a.md", "T", "| a |", ("S", "T"))):
            with self.assertRaises(LookupError):
                self.lines(part)
        root = pathlib.Path(__file__).resolve().parents[2]

        def read(path):
            return (root / path).read_text()

        self.assertFalse(list(check_docs.check_tasks(read, lambda path, _: tasks.place_of_installation(path))))
        self.assertTrue(list(check_docs.check_tasks(lambda path: read(path).replace("## It hangs", "## It does not move"),
                                                    lambda path, _: tasks.place_of_installation(path))))
        self.assertTrue(list(check_docs.check_tasks(lambda path: None if path == "gone.md" else read(path), lambda *_: "gone.md")))

    def test_llms_txt_names_tasks_and_pages_that_are_there(self):
        texts = {"docs/index.md": "# p\n\nWhat it is.\n\n## A\n\n- [b](b.md): x\n- [c](c.md): x\n", "docs/b.md": "# B\n\nOf b.\n"}
        text = tasks.llms(texts.get, lambda path, _: path if path in texts else None)
        self.assertIn("> What it is.\n", text)
        self.assertIn("- [b](docs/b.md): Of b.\n", text)
        self.assertIn("](tasks/find_a_hang.md): ", text)
        self.assertNotIn("[c]", text)


class Site(unittest.TestCase):
    def found(self, body, head=HEAD, styles=()):
        made = {"a.html": site.Page(head + body), "d/b.html": site.Page(HEAD + '<h1 id="top"></h1>')}
        return list(site.check(made, lambda where: where == "x.svg", styles))

    def test_links_of_a_built_site(self):
        self.assertFalse(self.found('<a href="d/b.html#top">b</a><a href="#">x</a><a href="https://x.y">w</a>'))
        self.assertTrue(self.found('<a href="d/b.html#bottom">b</a>'))
        self.assertTrue(self.found('<a href="c.html">c</a>'))

    def test_nothing_comes_from_another_host(self):
        self.assertFalse(self.found('<img src="x.svg" alt="x">'))
        self.assertTrue(self.found('<img src="x.svg">'))
        self.assertTrue(self.found('<script src="https://x.y/z.js"></script>'))
        self.assertTrue(self.found('<link rel="stylesheet" href="//x.y/z.css">'))
        self.assertTrue(self.found("", styles=[("a.css", "src: url(https://x.y/font.woff)")]))
        self.assertTrue(self.found("", styles=[("a.css", "@import url(/javascript/x.css);")]))
        self.assertFalse(self.found("", styles=[("a.css", "src: url(font.woff)")]))
        self.assertTrue(self.found("", head="<title>x</title>"))


class Headers(unittest.TestCase):
    def test_copies_for_doxygen_keep_lines(self):
        text = "/// One.\n/// Two `x`.\nint a();\n/** Three,\n * four. */\nint b(void);\nPEAL_C_FORMS(c, int d,\n             int e)\n"
        copy = headers.for_doxygen(text)
        self.assertEqual(copy.count("\n"), text.count("\n"))
        self.assertIn("int c(int d, int e); int c_on_stream(int d, int e, peal_stream_t stream);", copy)
        self.assertEqual(copy.splitlines()[2], "int a();")

    def test_signatures_are_without_macros(self):
        self.assertEqual(headers.tidy("PEAL_HD const T &"), "const T&")
        self.assertEqual(headers.tidy("const std::type_identity_t< T > * src"), "const T* src")

    def test_calls_without_a_comment_belong_to_the_one_ahead_of_them(self):
        lines = ["/// One.", "int a();", "int b();", "", "int c();", "int a(int);"]
        entries = [headers.Entry("function", name, "", f"int {name}()", "", text, "x.h", line)
                   for name, text, line in (("a", "One.", 2), ("b", "", 3), ("c", "", 5), ("a", "", 6))]
        found = reference.groups_of(entries, lines)
        self.assertEqual([[e.name for e in group.entries] for group in found], [["a", "b", "a"], ["c"]])

    def test_a_call_without_a_comment_is_that_of_kernels_of_its_name(self):
        def group(name, text, scope=""):
            return reference.Group("function", scope, text, [headers.Entry("function", name, scope, "", "", text, "device/x.h", 1)])

        of_host = [group("Calls::put", "", "Calls"), group("peal_put_on_stream", ""), group("Calls::site", "", "Calls")]
        reference.name_calls_of_kernels([("", "device/x.h", [group("put", "Copies.")]), ("", "host/calls.h", of_host)])
        self.assertEqual([bool(g.same_as) for g in of_host], [True, True, False])

    def test_what_furo_lacks_is_made_up_for(self):
        self.assertEqual(theme.script('import Gumshoe from "./gumshoe-patched.js";\nnew Gumshoe();\n', "x;"), "x;\nnew Gumshoe();\n")
        self.assertEqual(theme.script("new Gumshoe();\n", "x;"), "new Gumshoe();\n")
        self.assertEqual(theme.whole_style("@import url(/javascript/normalize.css/normalize.css);\na{}", lambda path: path),
                         "normalize.css/normalize.css\na{}")
        css = 'body[data-theme="dark"] { --color-a: b; }'
        self.assertIn("prefers-color-scheme: dark", theme.dark_style(css))
        self.assertEqual(theme.dark_style("@media (prefers-color-scheme: dark) {}" + css), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
