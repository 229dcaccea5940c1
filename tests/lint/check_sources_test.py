#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that are a line too long: a checker that cannot fail checks nothing."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from check_sources import always_included, build_files, check_build_file, check_text  # noqa: E402


class Sources(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, lines):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def test_a_build_file_has_300_lines_and_is_found_in_every_folder(self):
        files = [self.write(name, ["#"] * 300) for name in ("BUILD.bazel", "docs/BUILD.bazel", "tests/mp/BUILD.bazel")]
        self.assertEqual(build_files(self.root), files)
        self.assertFalse([line for file in files for line in check_build_file(self.root, file)])
        for file in files:
            longer = self.write(file.relative_to(self.root), ["#"] * 301)
            told = list(check_build_file(self.root, longer))
            self.assertEqual(told, [f"{file.relative_to(self.root)}: 301 lines; 300 is the limit: a macro, or a package of its own"])

    def test_a_source_has_500_lines(self):
        lines = ["// SPDX-License-Identifier: Apache-2.0"] + ["//"] * 499
        self.assertFalse(list(check_text(self.root, self.write("base/x.cc", lines))))
        self.assertEqual(len(list(check_text(self.root, self.write("base/x.cc", lines + ["//"])))), 1)

    def test_what_is_included_behind_a_condition_is_not_always_included(self):
        text = """#include "a.h"\n#if X\n#include "b.h"\n#ifdef Y\n#endif\n#else\n#include "c.h"\n#endif\n#include "d.h"\n"""
        self.assertEqual(list(always_included(text)), ["a.h", "d.h"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
