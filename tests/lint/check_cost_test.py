#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planted excesses: a checker that cannot fail checks nothing."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from check_cost import excesses, included_by, joined, limits  # noqa: E402


class Cost(unittest.TestCase):
    def test_a_limit_holds_and_one_more_is_told_with_the_remedy(self):
        self.assertFalse(list(excesses({"test_targets": 7}, {"test_targets": 7})))
        told = list(excesses({"test_targets": 8}, {"test_targets": 7}))
        self.assertEqual(len(told), 1)
        self.assertIn("test_targets: 8, and the limit is 7; raise it in cost_limits.txt with the reason", told[0])

    def test_what_has_no_limit_and_a_limit_of_nothing_are_told(self):
        self.assertEqual(len(list(excesses({"a": 1}, {"b": 1}))), 2)

    def test_a_limit_has_a_reason(self):
        self.assertEqual(limits("# words\n\na 3  because of b\n"), {"a": 3})
        self.assertRaises(ValueError, limits, "a 3\n")
        self.assertRaises(ValueError, limits, "a many because\n")

    def test_an_include_is_found_through_others_and_in_circles(self):
        files = {"x.cc": ["a.h"], "a.h": ["b.h"], "b.h": ["a.h", "w.h"]}
        self.assertEqual(included_by("x.cc", lambda file: files.get(file, [])), {"a.h", "b.h", "w.h"})

    def test_the_sources_of_a_joined_file_are_read_from_what_bazel_says(self):
        rule = '<rule name="x"><list name="srcs"><label value="//a/b:c.cc"/><label value="//a:d.cc"/></list></rule>'
        self.assertEqual(joined(rule), [["a/b/c.cc", "a/d.cc"]])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
