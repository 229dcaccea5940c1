# SPDX-License-Identifier: Apache-2.0
"""Kernels of the installed package, from outside: examples, what does not compile, what is compiled when. The folder of
compiled kernels is XDG_CACHE_HOME's, which these tests have to themselves."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from test_package import HERE, Job, run, run_text

from peal import ArgumentError, CompileError, _kernel_source, kernel

EXAMPLES = HERE / "examples/python"
ONE = "__global__ void one(int* out) {\n  *out = VALUE;\n}\n"


def counting_compiler(folder):
    """A g++ that writes a line into `folder`/log for each time it is called."""
    path = folder / "counted-g++"
    path.write_text(f'#!/bin/sh\necho >>"{folder}/log"\nexec {shutil.which("g++")} "$@"\n')
    path.chmod(0o755)
    return str(path)


class Examples(Job):
    # Four PEs that meet an empty folder compile one time: preprocess, compile, link.
    def test_run_and_are_compiled_once(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            settings = {"CXX": counting_compiler(folder), "XDG_CACHE_HOME": name}
            for pes in 4, 2:
                self.assert_ends(run(pes, EXAMPLES / "ring.py", **settings), 0, r"\[0\] ok")
            self.assertEqual((folder / "log").read_text(), "\n" * 3)
            self.assertEqual([len(list(folder.glob("peal/kernels/*/" + name))) for name in ("kernels-*.so", "build-*")], [1, 0])

    def test_the_tutorials_first_step(self):
        for pes in 2, 4:
            self.assert_ends(run(pes, EXAMPLES / "put.py"), 0, r"\[0\] ok")


class Together(Job):
    def test_all_pes_agree(self):
        for pes, transport in (2, "p2p"), (4, "ibgda"):
            with self.subTest(pes=pes, transport=transport):
                self.assert_ends(run(pes, HERE / "kernels.py", PEAL_TRANSPORT=transport), 0, r"\[0\] Ran \d tests")

    def test_what_a_kernel_runs_into_is_raised(self):
        self.assert_ends(run_text(2, """
            from kernels import kernel
            with peal.job():
                x, here = peal.zeros(4, np.int32), np.zeros(4, np.int32)
                put = kernel("put")
                try:
                    put[1, 1](peal.context(), here, x, 0)
                except peal.Error as error:
                    print("heard", error)
                old = peal.context()
            with peal.job():
                x = peal.zeros(4, np.int32)
                try:
                    put[1, 1](peal.context(), x, x, 7)
                except peal.Error as error:
                    print("and", error)
                try:
                    put[1, 1](old, x, x, 0)
                except peal.ArgumentError as error:
                    print("then", error)
            put[1, 1](old, x, x, 0)
            """, PYTHONPATH=str(HERE)), 1, r"heard peal.kernel\(put\): PE \d: .*symmetric", r"and peal.kernel\(put\): PE \d: .*7",
            r"then peal.kernel\(put\): ctx is a context of a job that has ended", r"Error: peal.kernel\(put\): .*peal.init\(\)")


class Sources(unittest.TestCase):
    def test_names_of_kernels(self):
        found = _kernel_source.kernels("""
            // __global__ void no(int a) {}
            #define NO __global__ void no() {}
            namespace a { namespace {
            template <class T> __global__ void __launch_bounds__(128, 2)
            k(const T* __restrict__ x, std::array<int, 3> y = {1, 2}, int z[4], peal::Context) { if (x) { } } }
            #if FOO
            PEAL_KERNEL PEAL_MAX_THREADS(1024) big(unsigned n = 1'000) {}
            #endif
            extern "C" { __global__ void c(void) {} } }
            __global__ void declared(int a);
            struct S { __global__ static void no() {} };
            const char* text = "__global__ void no() {"; const char* raw = R"(__global__ void no() {)";
            """)
        self.assertEqual([(one.name, one.parameters, one.optional) for one in found],
                         [("a::k", ["x", "y", "z", "argument 4"], True), ("a::big", ["n"], True), ("a::c", [], False)])

    def test_refuses_what_has_no_such_kernel(self):
        two = ONE + ONE.replace("one", "two")
        for arguments, words in (
                ((two,), "several kernels: name one of one, two"), ((two, "three"), "no kernel 'three'; it has one, two"),
                (("int main() {}",), "the source has no kernel: one is"), (("kernels.cu",), "is given as a pathlib.Path"),
                ((pathlib.Path("/no/such.cu"),), "/no/such.cu: No such file"), ((5,), "source is a int; give a text"),
                (("template <class T> __global__ void t(T x) {}",), "'t' is a template: give its arguments")):
            with self.subTest(words), self.assertRaisesRegex(ArgumentError, "peal.kernel: .*" + words):
                kernel(*arguments)
        with self.assertRaisesRegex(ArgumentError, "options '-g': give a list"):
            kernel(ONE, options="-g")


class Compilations(Job):
    def test_what_does_not_compile_is_told_with_its_line(self):
        with self.assertRaisesRegex(CompileError, r"(?s)the source does not compile:.*<source>:2:10: error: .*VALUE.*\n.*\*out = VALUE;"):
            kernel(ONE, options=["-O0"]).compile()
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name, "one.cu")
            file.write_text('#include "value.h"\n' + ONE)
            (file.parent / "value.h").write_text("constexpr int* VALUE = nullptr;\n")
            with self.assertRaisesRegex(CompileError, r"(?s)one.cu does not compile:.*/one.cu:3:10: error: invalid conversion"):
                kernel(file, options=["-O0"]).compile()

    # Hazard: the cache knew the source, and not what it includes.
    def test_a_header_that_has_changed_is_read_anew(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "one.cu").write_text('#include "value.h"\n' + ONE.replace("int* out", "int* out, T by"))
            text = f"""
                import pathlib
                with peal.job():
                    out = peal.zeros(1, np.int32)
                    for value, kind in (5, "float"), (6, "float"):
                        pathlib.Path({name!r}, "value.h").write_text(f"using T = {{kind}};\\nconstexpr int VALUE = {{value}};\\n")
                        for turn in range(2):
                            peal.kernel(pathlib.Path({name!r}, "one.cu"), options=["-O0"], cache={name!r})[1, 1](out, 1)
                            assert out[0] == value, out[0]
                """
            self.assert_ends(run_text(1, text, CXX=counting_compiler(folder)), 0)
            self.assertEqual((folder / "log").read_text(), "\n" * 6)

    def test_without_a_compiler_says_how_to_get_one(self):
        settings = {"PATH": "/no/such", "CXX": ""}
        told = subprocess.run([sys.executable, "-c", f"import peal; peal.kernel({ONE!r}).compile()"], capture_output=True,
                              text=True, check=False, env={**os.environ, **settings}).stderr
        self.assertRegex(told, "peal.errors.CompileError: peal.kernel: there is no compiler 'g..' .*apt install g..")

    def test_takes_no_library_that_others_may_have_written(self):
        with tempfile.TemporaryDirectory() as name:
            os.chmod(name, 0o777)
            with self.assertRaisesRegex(RuntimeError, "others may write to .*chmod go-w"):
                kernel(ONE, cache=name).compile()

    def test_leaves_no_kernel_on_a_cpu_that_was_meant_for_a_gpu(self):
        told = subprocess.run([sys.executable, "-c", f"import peal; peal.kernel({ONE!r}).compile()"], capture_output=True,
                              text=True, check=False, env={**os.environ, "PEAL_TARGET": "gpu"}).stderr
        self.assertRegex(told, "peal.kernel: PEAL_TARGET=gpu: this version compiles kernels for CPUs alone")


if __name__ == "__main__":
    unittest.main()
