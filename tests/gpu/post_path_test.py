#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A put on an owned queue has no atomic, one fence, one doorbell store and three 16-byte stores: read from the PTX.

    post_path_test.py FILE.ptx

Looks at every path through a kernel that rings the doorbell and calls nothing: what waits for room or reports an error
is out of line, so such a path is the one that posts. A loop on it is a failure of its own.
"""
import re
import sys
import unittest

KERNELS = ("post_write", "post_inline")
COST = {"atomics": 0, "fences": 1, "doorbell stores": 1, "16-byte stores": 3}
ENDS = ("ret", "exit", "trap")


def blocks_of(ptx, kernel):
    """{label: (instructions, labels that may follow)} of one kernel; it begins at ''."""
    found = re.search(rf"\.entry {kernel}\(.*?\n\{{\n(.*?)\n\}}", ptx, re.S)
    if not found:
        raise ValueError(f"no kernel {kernel}")
    # Inline assembly puts several statements into one line, a call spreads one over several.
    text = re.sub(r"//[^\n]*", "", found.group(1))
    label, order, body = "", [""], {"": []}
    for part in re.split(r"[;\n{}]|(?<=:)", text):
        statement = part.strip()
        if re.fullmatch(r"[$\w]+:", statement):
            label = statement[:-1]
            order.append(label)
            body[label] = []
        elif statement and not statement.startswith("."):
            body[label].append(statement)
            if re.search(r"\bbra\b", statement) and statement.startswith("@"):
                label = f"{label}'"  # what follows a branch not taken
                order.append(label)
                body[label] = []
    blocks = {}
    for name, following in zip(order, [*order[1:], None]):
        jumps = [re.search(r"bra(?:\.uni)?\s+([$\w]+)", line) for line in body[name]]
        follow = [jump.group(1) for jump in jumps if jump]
        last = body[name][-1] if body[name] else ""
        goes_on = not re.match(r"(bra|ret|exit|trap)\b", last)
        blocks[name] = (body[name], follow + ([following] if goes_on and following else []))
    return blocks


def paths(blocks, path=("",)):
    """Every way from the kernel's begin to its end, as lists of instructions."""
    instructions, following = blocks[path[-1]]
    if not following:
        yield [line for label in path for line in blocks[label][0]]
    for label in following:
        if label in path:
            if any("st.mmio" in line for done in path for line in blocks[done][0]):
                raise ValueError(f"a loop at {label} after the doorbell")
            raise ValueError(f"a loop at {label}")
        yield from paths(blocks, (*path, label))


def cost(path):
    names = [re.sub(r"^@!?%p\d+\s+", "", line).split()[0] for line in path]
    return {
        "atomics": sum(name.startswith(("atom", "red")) for name in names),
        # A store with release and a load with acquire are a plain one and a fence.
        "fences": sum(bool(re.match(r"fence|membar", name) or re.search(r"\.(release|acquire|acq_rel)\b", name))
                      and not name.startswith(("atom", "red")) for name in names),
        "doorbell stores": sum(name.startswith("st.mmio") for name in names),
        "16-byte stores": sum(bool(re.match(r"st\b.*\.v(2\.[bu]64|4\.[bu]32)", name)) for name in names),
    }


def posting_paths(ptx, kernel):
    every = list(paths(blocks_of(ptx, kernel)))
    return [path for path in every if any("st.mmio" in line for line in path)
            and not any(line.startswith("call") for line in path)]


class PostPath(unittest.TestCase):
    ptx = ""

    def test_costs_what_it_must(self):
        for kernel in KERNELS:
            posting = posting_paths(self.ptx, kernel)
            self.assertTrue(posting, f"{kernel}: no path rings the doorbell")
            for path in posting:
                self.assertEqual(cost(path), COST, f"{kernel}:\n  " + "\n  ".join(path))


class Reader(unittest.TestCase):
    """The reader itself, on PTX that costs too much."""
    TEXT = """
.visible .entry k(
	.param .u64 p
)
{
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [p];
	setp.gt.u64 %p1, %rd1, 3;
	@%p1 bra 	$L__BB0_2;
	bra.uni 	$L__BB0_1;
$L__BB0_2:
	{ // callseq 0, 0
	call.uni (retval0),
	slow,
	(
	param0
	);
	} // callseq 0
	bra.uni 	$L__BB0_3;
$L__BB0_1:
	atom.relaxed.gpu.add.u64 %rd2, [%rd1], 1;
	st.global.v2.b64 [%rd1], {%rd2, %rd2};
$L__BB0_3:
	st.release.sys.b32 [%rd1], %r1;
	fence.acq_rel.sys; st.mmio.relaxed.sys.b64 [%rd1], %rd2;
	ret;
}
"""

    def test_counts_on_the_path_without_a_call(self):
        [path] = posting_paths(self.TEXT, "k")
        self.assertEqual(cost(path), {"atomics": 1, "fences": 2, "doorbell stores": 1, "16-byte stores": 1})

    def test_a_loop_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "a loop"):
            posting_paths(self.TEXT.replace("\tret;", "\t@%p1 bra $L__BB0_1;\n\tret;"), "k")

    def test_a_missing_kernel_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no kernel other"):
            posting_paths(self.TEXT, "other")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    PostPath.ptx = open(sys.argv[1], encoding="utf-8").read()
    unittest.main(argv=sys.argv[:1])
