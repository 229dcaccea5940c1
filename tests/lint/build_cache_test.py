#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the cache of objects of tools/setup.sh: its folder, and what stays in it.

build_cache_test.py ROOT
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

GIB = 1 << 30


def run(cache, command, **env):
    """What `command` prints behind tools/setup.sh, with the cache at `cache`."""
    environment = {**os.environ, "BUILD_CACHE": str(cache), **env}
    return subprocess.run(["bash", "-c", f"source tools/setup.sh; {command}"], env=environment, check=True,
                          capture_output=True, text=True).stdout


class BuildCache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.cache = pathlib.Path(self.folder.name) / "a folder"
        self.cache.mkdir()
        self.addCleanup(self.folder.cleanup)

    def used(self, number, size, when):
        """An object as Bazel keeps it."""
        return self.file(f"{'c' * 16}/cas/0{number}/0{number}{'d' * 62}", size, when)

    def file(self, name, size, when):
        path = self.cache / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.truncate(path, size)  # a hole: no room on the disk
        os.utime(path, (when, 1))
        return path

    def program(self, name, body):
        """A PATH in whose first folder `name` is a script."""
        path = self.cache / "bin" / name
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return f"{path.parent}:{os.environ['PATH']}"

    def options(self, **env):
        return run(self.cache, 'use_build_cache; printf "%s\\n" "${cache_options[@]}"', **env).splitlines()

    def test_says_where_objects_come_from_and_how_to_do_without(self):
        said, option = self.options()
        self.assertIn(str(self.cache), said)
        self.assertIn("BUILD_CACHE=none", said)
        self.assertRegex(option, f"^--disk_cache={self.cache}/[0-9a-f]{{16}}$")

    def test_is_not_there_where_nobody_wants_it(self):
        self.assertEqual(run("none", 'use_build_cache; echo "${#cache_options[@]}"'), "0\n")

    def test_is_not_there_where_nothing_can_be_written(self):
        (self.cache / "file").touch()
        said = run(self.cache / "file", 'use_build_cache; echo "${#cache_options[@]}"').splitlines()
        self.assertIn("cannot be written", said[0])
        self.assertEqual(said[1], "0")

    def test_is_one_with_nvcc_and_without(self):
        self.assertEqual(self.options(NVCC="none"), self.options())

    def test_is_another_behind_another_compiler(self):
        self.assertNotEqual(self.options(PATH=self.program("g++", "echo another g++")), self.options())

    def test_keeps_what_was_used_last(self):
        oldest, older, newest = [self.used(i, (2 + (i > 0)) * GIB, 100 + i) for i in range(3)]
        run(self.cache, "trim_build_cache")
        self.assertEqual([path.exists() for path in (oldest, older, newest)], [False, True, True])

    def test_takes_nothing_while_there_is_room(self):
        kept = [self.used(i, GIB, i) for i in range(6)]
        run(self.cache, "trim_build_cache")
        self.assertTrue(all(path.exists() for path in kept))

    def test_takes_nothing_that_is_not_its_own(self):
        own = [self.file(name, 4 * GIB, 1) for name in ("letter", "photos/2019/one", f"cas/00/{'e' * 64}")]
        self.used(1, 4 * GIB, 2)
        self.used(2, 4 * GIB, 3)
        run(self.cache, "trim_build_cache")
        self.assertTrue(all(path.exists() for path in own))

    def test_goes_on_where_another_run_trims(self):
        gone = self.program("find", "echo find: No such file or directory >&2; exit 1")
        self.assertEqual(run(self.cache, "trim_build_cache; echo on", PATH=gone), "on\n")

    def test_may_be_missing(self):
        self.assertEqual(run(self.cache / "nowhere", "trim_build_cache"), "")


if __name__ == "__main__":
    os.chdir(sys.argv.pop(1))
    unittest.main()
