#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs against compat/: what includes each of its headers compiles, and a call of the guide that peal does not have
fails to compile with a sentence that names it and says what to do instead.

check_compat_test.py [ROOT]
"""
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/compat", f"-I{ROOT}", "-x", "c++", "-"]

# A call, and words of its sentence.
NOT_THERE = {
    "nvshmem_realloc(p, 8)": "Use nvshmem_malloc and copy.",
    "nvshmemx_qp_create(1)": "peal has PEAL_QUEUES",
    "nvshmem_int_sum_to_all(i, i, 1, 0, 0, 1, i, p)": "Use the call that takes an nvshmem_team_t.",
    "nvshmem_broadcast32(p, p, 1, 0, 0, 0, 1, p)": "Use the call that takes an nvshmem_team_t.",
    "nvshmem_int_wait(i, 1)": "Use wait_until.",
    "nvshmem_short_wait_until(s, 0, 1)": "A word that is set or waited for has 4 or 8 bytes.",
    "nvshmemx_int_wait_until_all_vector_on_stream(i, 1, i, 0, i, 0)": "one wait_until_on_stream for each word",
}


def compiler(source, flags=FLAGS, name="g++"):
    result = subprocess.run([name, *flags], input=source, capture_output=True, text=True)
    return result.returncode, result.stderr


class Compat(unittest.TestCase):
    def test_every_header_compiles(self):
        headers = [h.relative_to(ROOT / "compat").as_posix()
                   for folder in (".", "host", "device") for h in sorted((ROOT / "compat" / folder).glob("*.[hc]*"))
                   if h.suffix in (".h", ".cuh")]
        self.assertGreater(len(headers), 10)
        includes = "".join(f"#include <{header}>\n" for header in headers)
        code, errors = compiler(f"{includes}int main() {{ return nvshmem_my_pe(); }}\n")
        self.assertEqual(code, 0, errors)

    def test_what_is_not_there_fails_with_a_sentence(self):
        calls = "".join(f"  {call};\n" for call in NOT_THERE)
        code, errors = compiler(f"#include <nvshmem.h>\nvoid f(int* i, short* s, void* p) {{\n{calls}}}\n")
        self.assertNotEqual(code, 0)
        for call, words in NOT_THERE.items():
            name = call.partition("(")[0]
            told = [line for line in errors.splitlines() if f"{name}: not in peal." in line]
            self.assertTrue(told, f"{name}: no sentence in\n{errors}")
            self.assertIn(words, told[0])

    def test_calls_of_a_driver_fail_with_a_sentence(self):
        flags = [f"-I{ROOT}/simt/runtime/cuda", *FLAGS]
        program = "#include <cuda.h>\nstatic_assert(CUDA_VERSION == CUDART_VERSION);\nCUresult f() { return "
        code, errors = compiler(f"{program}CUDA_SUCCESS; }}\n", flags)
        self.assertEqual(code, 0, errors)
        code, errors = compiler(f"{program}cuModuleLoad(nullptr, 1); }}\n", flags)
        self.assertNotEqual(code, 0)
        self.assertIn("cuModuleLoad: kernels on a CPU have no such call of CUDA's driver. They are part of the program",
                      errors)

    def test_an_older_language_is_refused_with_a_sentence(self):
        flags = ["-std=c++17" if flag == "-std=c++20" else flag for flag in FLAGS]
        for header in ("nvshmem.h", "peal/peal.h", "device/api.h"):
            code, errors = compiler(f"#include <{header}>\n", flags)
            self.assertNotEqual(code, 0)
            first = next(line for line in errors.splitlines() if "error:" in line)
            self.assertIn("needs C++20: compile with -std=c++20", first)

    @unittest.skipUnless(shutil.which("clang++"), "there is no clang++")
    def test_clang_has_nothing_to_say(self):
        code, errors = compiler("#include <nvshmem.h>\n#include <peal/peal.h>\nint main() {}\n", name="clang++")
        self.assertEqual((code, errors), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
