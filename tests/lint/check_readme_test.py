#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents with planted mistakes: each must be found, and a right one must pass."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_readme  # noqa: E402

EXAMPLE = "// opening comment\n#include <cstdio>\nint main() {}\n"
CONFIG = '''
  X(uint64_t, size, "PEAL_SIZE", "64M", (Size{1u, 2}),     \\
    "bytes")                                               \\
  X(std::string, name, "PEAL_NAME", "", Text{}, "a name")  \\
  X(std::string, lent, "LENT_NAME", "", Text{}, "a name")
'''
SOFTNIC = "//   PEAL_SOFTNIC_DIR            where the files live                    (/dev/shm)\n"
ROWS = ("| `PEAL_SIZE` | `64M` | x |\n| `PEAL_NAME` | empty | x |\n| `LENT_NAME` | empty | x |\n"
        "| `PEAL_SOFTNIC_DIR` | `/dev/shm` | x |\n")


class Docs(unittest.TestCase):
    wanted = check_readme.settings(CONFIG, SOFTNIC)

    def test_the_kernel_is_the_example_word_for_word(self):
        same = "# x\n```cpp\n#include <cstdio>\nint main() {}\n```\n"
        self.assertFalse(list(check_readme.check_kernel(same, EXAMPLE)))
        self.assertTrue(list(check_readme.check_kernel(same.replace("{}", "{ }"), EXAMPLE)))
        self.assertTrue(list(check_readme.check_kernel("# no block\n", EXAMPLE)))

    def test_settings_are_found_in_both_tables(self):
        self.assertEqual(self.wanted, {"PEAL_SIZE": "64M", "PEAL_NAME": "", "LENT_NAME": "",
                                       "PEAL_SOFTNIC_DIR": "/dev/shm"})

    def test_missing_unknown_and_wrong_settings_are_found(self):
        def found(rows, whole=True):
            return list(check_readme.check_settings("X.md", rows, self.wanted, whole))

        self.assertFalse(found(ROWS))
        self.assertTrue(found(ROWS.replace("PEAL_NAME", "PEAL_NAMES")))
        self.assertTrue(found(ROWS.replace("LENT_NAME", "LENT_NAMES")))
        self.assertTrue(found(ROWS.replace("64M", "32M")))
        self.assertTrue(found(ROWS + "| `PEAL_MORE` | `1` | x |\n"))
        self.assertFalse(found(ROWS.splitlines()[0], whole=False))
        self.assertTrue(found(ROWS.replace("64M", "32M"), whole=False))

    def test_a_variable_read_but_not_documented_is_found(self):
        read = 'std::getenv("PEAL_SOFTNIC_DIR")'
        self.assertFalse(list(check_readme.check_getenv(read, self.wanted)))
        self.assertTrue(list(check_readme.check_getenv(read + ' getenv("PEAL_SOFTNIC_X")', self.wanted)))
        self.assertTrue(list(check_readme.check_getenv("", self.wanted)))

    def test_every_planted_mistake_is_listed(self):
        def found(text, *sources):
            return list(check_readme.check_plants(text, sources))

        plant = '{"put_past", {"put used"}, on_first({}, put_past)},'
        self.assertFalse(found("| x | `put_past` | checked mode |", plant))
        self.assertTrue(found("| x | `put_passed` | checked mode |", plant))
        self.assertTrue(found("| x | `put_past` | checked mode |", "no table"))

    def test_files_that_are_named_exist(self):
        def found(text):
            return list(check_readme.check_files("x.md", text, lambda file: file == "a/b.h"))

        self.assertFalse(found("`a/b.h`, `b.h`, `a/X_test.cc`, `a/b`"))
        self.assertTrue(found("`a/c.h`"))

    def test_length_width_and_links(self):
        def found(text, limit=3):
            return list(check_readme.check_shape("x.md", text, limit, lambda target: target == "here.md"))

        self.assertFalse(found("[a](here.md)\n| " + "x" * 130 + " |\n"))
        self.assertTrue(found("1\n2\n3\n4\n"))
        self.assertTrue(found("x" * 121))
        self.assertTrue(found("[a](gone.md)"))
        self.assertFalse(found("[a](here.md#part)"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
