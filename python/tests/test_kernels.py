# SPDX-License-Identifier: Apache-2.0
"""Kernels of the installed package, from outside: examples, what does not compile, what is compiled when. The folder of
compiled kernels is XDG_CACHE_HOME's, which these tests have to themselves."""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from test_package import HERE, Job, run, run_text

from peal import (
    ArgumentError, CompileError, _build, _kernel, _kernel_arguments, _kernel_source, _nvrtc, _toolchains, kernel,
)

EXAMPLES = HERE / "examples/python"
ONE = "__global__ void one(int* out) {\n  *out = VALUE;\n}\n"
PUT = """#include "device/api.h"
__global__ void put(peal::Context ctx, int* dst, const int* src, int pe) { (void)peal::put(ctx, dst, src, size_t{1}, pe); }
"""


def counting_compiler(folder):
    """A g++ that writes a line into `folder`/log for each time it compiles something, without optimising it."""
    path = folder / "counted-g++"
    path.write_text(f'''#!/bin/sh
case "$*" in -dM*) ;; *) echo >>"{folder}/log" ;; esac
exec {shutil.which("g++")} "$@" -O0
''')
    path.chmod(0o755)
    return str(path)


class Examples(Job):
    def test_the_first_of_the_page_runs(self):  # docs/python_kernels.md; tests/lint/check_docs.py compares the two
        with tempfile.TemporaryDirectory() as name:
            self.assert_ends(run(2, HERE / "scale.py", XDG_CACHE_HOME=name, PEAL_TRANSPORT="p2p"), 0)

    # Three PEs that meet an empty folder compile one time: preprocess, compile, link.
    def test_run_and_are_compiled_once(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            settings = {"CXX": counting_compiler(folder), "XDG_CACHE_HOME": name, "PEAL_TRANSPORT": "p2p"}
            for pes in 3, 1:
                self.assert_ends(run(pes, EXAMPLES / "ring.py", **settings), 0, r"\[0\] ok")
            self.assertEqual((folder / "log").read_text(), "\n" * 3)
            self.assertEqual([len(list(folder.glob("peal/kernels/*/" + name))) for name in ("kernels-*.so", "build-*")], [1, 0])

    def test_the_tutorials_first_step(self):
        with tempfile.TemporaryDirectory() as name:
            self.assert_ends(run(2, EXAMPLES / "put.py", CXX=counting_compiler(pathlib.Path(name))), 0, r"\[0\] ok")


class Together(Job):
    def test_all_pes_agree(self):
        self.assert_ends(run(3, HERE / "kernels.py", PEAL_TRANSPORT="ibgda"), 0, r"\[0\] Ran \d tests")

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
        options = ["-O0", "-Wfatal-errors"]  # ends the compilation there
        with self.assertRaisesRegex(CompileError, r"(?s)the source does not compile:.*<source>:2:10: error: .*VALUE.*\n.*\*out = VALUE;"):
            kernel(ONE, options=options).compile()
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name, 'a "quoted" \\one.cu')
            file.write_bytes(b'#include "value.h" // \xe9\n' + ONE.encode())
            (file.parent / "value.h").write_text("constexpr int* VALUE = nullptr;\n")
            with self.assertRaisesRegex(CompileError, r'(?s)one.cu does not compile:.*/a "quoted" .*one.cu:3:10: error: invalid conv'):
                kernel(file, options=options).compile()

    # Hazards: the cache knew the source, and not what it includes; and what a library defines was one for the whole
    # process, so that the table, values and statics of the first library were those of the next.
    def test_a_header_that_has_changed_is_read_anew(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "one.cu").write_text('''#include "value.h"
                inline int& once() { static int value = VALUE; return value; }
                extern "C" __global__ void one(int* out PARAMETERS) { *out = VALUES[0] + Static<int>::value + once(); }''')
            text = f"""
                import ctypes, pathlib
                def header(value, fields, parameters):
                    pathlib.Path({name!r}, "value.h").write_text(f'''
                        #define VALUE {{value}}
                        #define PARAMETERS {{parameters}}
                        struct Named {{{{ {{fields}} }}}};
                        inline constexpr int VALUES[] = {{{{VALUE}}}};
                        template <class T> struct Static {{{{ static inline int value = VALUE; }}}};''')
                def one():
                    return peal.kernel(pathlib.Path({name!r}, "one.cu"), options=["-O0"], cache={name!r})
                with peal.job():
                    out = peal.zeros(1, np.int32)
                    for value, fields, more in (5, "int a;", [bytes(4)]), (6, "int a, b;", [bytes(8), 3]):
                        header(value, fields, ", Named, int" if len(more) > 1 else ", Named")
                        for turn in range(2):
                            one()[1, 1](out, *more)
                            assert out[0] == 3 * value, out[0]
                """
            self.assert_ends(run_text(1, text, CXX=counting_compiler(folder)), 0)
            self.assertEqual((folder / "log").read_text(), "\n" * 6)
            self.assertEqual(len(list(folder.glob("*/kernels-*.so"))), 2)  # another process may be loading the first
            shown = subprocess.run(["nm", "-D", "--defined-only", *folder.glob("*/kernels-*.so")], capture_output=True,
                                   text=True, check=True).stdout
            self.assertEqual(set(re.findall(r" [A-Za-z] (?!_ZN4peal4simt\d+(?:thread|block|grid)(?:Idx|Dim)E)(\S+)", shown)),
                             {"peal_kernel_table"})

    # Hazards: a header that was edited between the compiler's look and the hash was taken for the one that was read, for
    # good; a library that is half a file was blamed on the source; one process removed what another was about to load;
    # a cache that is filled and cannot be written to was of no use.
    def test_what_cannot_be_trusted_is_compiled_anew(self):
        edits, halves, compiled = [6], [], []

        class Tools(_toolchains.Toolchain):
            compiler, identity = lambda self: "one", lambda self: []

            def compile(self, source, folder, out):
                compiled.append(header.read_bytes())
                out.write_bytes(compiled[-1])
                (folder / "source.cu").touch()
                if edits:
                    header.write_text(f"VALUE = {edits.pop()}")
                return {str(header)}

        def load(path):
            if halves:
                raise _build.NotLoadable(halves.pop())
            return path

        with tempfile.TemporaryDirectory() as name:
            header = pathlib.Path(name, "value.h")
            header.write_text("VALUE = 5")
            def loaded():
                return _build.loaded(Tools(), _build.Source("", None, (), ()), load, name)
            first = loaded()
            self.assertFalse((first.parent / "built.json").exists())
            second = loaded()
            self.assertEqual((first.read_text(), second.read_text(), len(compiled)), ("VALUE = 5", "VALUE = 6", 2))
            os.utime(first, (0, 0))
            halves.append("half a file")
            self.assertEqual((loaded(), len(compiled), first.exists()), (second, 3, False))
            (second.parent / "lock").unlink()
            (second.parent / "lock").mkdir()  # a folder that cannot be written to, for root too
            self.assertEqual((loaded(), len(compiled)), (second, 3))
            header.write_text("VALUE = 7")
            with self.assertRaisesRegex(RuntimeError, f"{name}: .*; set XDG_CACHE_HOME to one that can be written to, or give kernels one by cache="):
                loaded()

    def test_places_are_nobody_elses(self):
        with tempfile.TemporaryDirectory() as name, unittest.mock.patch("tempfile.tempdir", name):
            link = pathlib.Path(name, f"peal-{os.geteuid()}")
            with unittest.mock.patch.dict(os.environ, HOME="no/home", XDG_CACHE_HOME="relative"):
                self.assertEqual(_build._places(None), [link])
            pathlib.Path(name, "other").mkdir(0o700)
            link.symlink_to("other")
            with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME="/dev/null/no"):
                with self.assertRaisesRegex(RuntimeError, f"others may write to {link}"):
                    kernel(ONE).compile()

    # Hazard: clang was told by its name.
    def test_refuses_clang_by_what_it_defines(self):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name, "c++")
            path.write_text("#!/bin/sh\necho '#define __clang__ 1'\n")
            path.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, CXX=str(path)), self.assertRaisesRegex(CompileError, "CXX=.*clang"):
                kernel(ONE, cache=name).compile()

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
        self.assertRegex(told, "peal.kernel: PEAL_TARGET=gpu, and which GPU .* is not known before peal.init..; call it first")

    @unittest.skipUnless(_toolchains.ForGpu("90").compiler(), "there is no nvcc")
    def test_nvcc_compiles_what_a_gpu_would_run(self):
        def table(path):
            library = ctypes.CDLL(str(path))
            library.peal_kernel_table.restype = ctypes.POINTER(_kernel._Table)
            found = library.peal_kernel_table().contents
            return found.version, [(one.name, one.parameter_count) for one in found.entries[:found.entry_count]]
        with tempfile.TemporaryDirectory() as name:
            one = kernel(PUT)
            self.assertEqual(_build.loaded(_toolchains.ForGpu("90"), one._source, table, name), (_kernel._VERSION, [(b"put", 4)]))
            broken = kernel("__global__ void k() { no_such_thing(); }")
            with self.assertRaisesRegex(CompileError, "<source>.1.: error: identifier .no_such_thing. is undefined"):
                _build.loaded(_toolchains.ForGpu("90"), broken._source, table, name)


CALLS = r"""
#include "device/api.h"
using namespace peal;
#define BY(scope)                                                                                             \
  extern "C" __global__ void calls_##scope(Context ctx, int* dst, const int* src, uint64_t* word, int pe) {    \
    (void)put(ctx, scope, dst, src, size_t{100}, pe);                                                          \
    (void)get_nbi(ctx, scope, dst, src, size_t{100}, pe);                                                      \
    (void)put_signal(ctx, scope, dst, src, size_t{100}, Signal{word, 1, pe, Signal::Kind::kAdd});              \
    (void)fence(ctx, scope);                                                                                   \
    (void)quiet(ctx, scope);                                                                                   \
    (void)barrier_all(ctx, scope);                                                                             \
  }
BY(thread)
BY(warp)
BY(block)
struct Pair { float a; double b; };
namespace mine {
template <class T> __global__ void meet(Context ctx, Team team, T* dst, const T* src, void* none, Pair pair, bool flag, double by) {
  (void)all_reduce(ctx, block, team, dst, src, size_t{4}, op::sum);
}
}
"""


@unittest.skipUnless(_nvrtc.is_there(), "there is no NVRTC with CUDA's headers")
class Nvrtc(unittest.TestCase):
    """Compiles; streams_of_torch.py launches, where a GPU is."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.tools = pathlib.Path(folder.name), _nvrtc.ForGpuByNvrtc("90")

    def made(self, source, expression, names=(), options=()):
        found = _kernel_source.Found(expression, list(names), False, False)
        text, file = (source.read_text(), source) if isinstance(source, pathlib.Path) else (source, None)
        return _build.loaded(self.tools, _build.Source(text, file, (expression,), tuple(options)),
                             lambda path: _nvrtc.Compiled(path, found, expression), self.folder / "cache")

    def test_takes_the_headers_and_tells_what_parameters_are(self):
        made = self.made(CALLS, "mine::meet<int>", ["ctx", "team", "dst", "src", "none", "pair", "flag", "by"])
        for name in b"calls_thread", b"calls_warp", b"calls_block":
            self.assertIn(name, made._code)
        self.assertRegex(made._name, "^_ZN4mine4meetIi")
        got = [(one.kind, one.passing, one.nbytes) for one in made.parameters]
        self.assertEqual((got[0][0], got[1]), (_kernel_arguments.CONTEXT, (_kernel_arguments.TEAM, _kernel_arguments.VALUE, 64)))
        self.assertEqual(got[2:], [(_kernel_arguments.SIGNED, _kernel_arguments.POINTER, 4),
                                   (_kernel_arguments.SIGNED, _kernel_arguments.CONST_POINTER, 4),
                                   (_kernel_arguments.VOID, _kernel_arguments.POINTER, 1), (_kernel_arguments.OTHER, _kernel_arguments.VALUE, 16),
                                   (_kernel_arguments.BOOL, _kernel_arguments.VALUE, 1), (_kernel_arguments.REAL, _kernel_arguments.VALUE, 8)])
        self.assertRegex(str(made.parameters[3]), r"^const int ?\* src$")

    def test_compiles_anew_what_a_source_includes(self):
        (self.folder / "mine.h").write_text('#include "its.h"\n')
        (self.folder / "its.h").write_text("#define VALUE 1\n")
        file = self.folder / "one.cu"
        file.write_text('#include "mine.h"\n' + ONE)
        codes = [self.made(file, "one")._code, self.made(file, "one")._code]
        (self.folder / "its.h").write_text("#define VALUE 77\n")
        codes.append(self.made(file, "one")._code)
        self.assertEqual((codes[0] == codes[1], codes[1] == codes[2]), (True, False))
        self.assertEqual(len(list((self.folder / "cache").glob("*/kernels-*.so"))), 2)

    def test_says_what_is_wrong(self):
        for source, options, words in ((ONE, (), r"(?s)the source does not compile:.<source>\(2\): error: identifier .VALUE. is undefined"),
                                       (ONE, ["-DVALUE=1", "-no-such"], "-no-such"), (ONE.replace("int*", "int&"), ["-DVALUE=1"], "error")):
            with self.subTest(words), self.assertRaisesRegex(CompileError, words):
                self.made(source, "one", options=options)
        library = self.folder / "half"
        library.write_bytes(b'{"kernels": {"one": ["one", 0]}}\nno ELF')
        with self.assertRaisesRegex(_build.NotLoadable, "half: .*remove it"):
            _nvrtc.Compiled(library, _kernel_source.Found("one", [], False, False), "one")

    def test_is_chosen_where_there_is_no_nvcc(self):
        with unittest.mock.patch.dict(os.environ, {"NVCC": "/no such nvcc"}):
            self.assertIsInstance(_toolchains.of("sm_90")[0], _nvrtc.ForGpuByNvrtc)
            with unittest.mock.patch.dict(os.environ, {"NVRTC": "/no such nvrtc"}):
                tools, _ = _toolchains.of("sm_90")
                self.assertRegex(str(tools.no_compiler()), "neither nvcc nor NVRTC.*for sm_90 .*pip install nvidia-cuda-nvrtc")
        self.assertIsInstance(_toolchains.of("cpu")[0], _toolchains.ForCpu)


if __name__ == "__main__":
    unittest.main()
