#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a put on an owned queue does and in which order, read from the PTX: three 16-byte stores of its WQE, a fence, the
doorbell record, the doorbell; for hardware a second fence and the doorbell again. No atomic, no other fence. All fences
have GPU scope or all have system scope: the queue says which.

Fails at 438a779, where the record is a store with release and the doorbell follows with nothing between: a NIC that
takes the index from the doorbell may read WQEs that are not there yet.

    post_path_test.py FILE.ptx

Looks at every path through a kernel that rings the doorbell and calls nothing: what waits for room or reports an error
is out of line, so such a path is the one that posts. A loop on it is a failure of its own.
"""
import re
import sys
import unittest

KERNELS = ("post_write", "post_inline")
COST = {"atomics": 0, "16-byte stores": 3}
ONCE = ["line", "line", "line", "fence", "record", "doorbell"]
ORDERS = [ONCE, [*ONCE, "fence", "doorbell"]]  # the second for hardware
LINE = r"st\b.*\.v(2\.[bu]64|4\.[bu]32)"


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
        "16-byte stores": sum(bool(re.match(LINE, name)) for name in names),
    }


def events(path):
    """[(what, scope)] of all on a path that the NIC may see, in order. A store with release and a load with acquire
    are a plain one and a fence, and count as a fence."""
    found = []
    for line in path:
        name = re.sub(r"^@!?%p\d+\s+", "", line).split()[0]
        scope = next((scope for scope in ("cta", "gpu", "sys") if f".{scope}" in name), "")
        if re.match(LINE, name):
            found.append(("line", ""))
        elif name.startswith("st.mmio"):
            found.append(("doorbell", scope))
        elif re.match(r"fence|membar", name) or re.search(r"\.(release|acquire|acq_rel)\b", name):
            found.append(("fence", scope))
        elif name.startswith("st.relaxed"):
            found.append(("record", scope))
    return found


def posting_paths(ptx, kernel):
    every = list(paths(blocks_of(ptx, kernel)))
    return [path for path in every if any("st.mmio" in line for line in path)
            and not any(line.startswith("call") for line in path)]


class PostPath(unittest.TestCase):
    ptx = ""

    def each_path(self):
        for kernel in KERNELS:
            posting = posting_paths(self.ptx, kernel)
            self.assertTrue(posting, f"{kernel}: no path rings the doorbell")
            for path in posting:
                yield f"{kernel}:\n  " + "\n  ".join(path), path

    def test_costs_what_it_must(self):
        for text, path in self.each_path():
            self.assertEqual(cost(path), COST, text)

    def test_the_nic_hears_behind_a_fence(self):
        for text, path in self.each_path():
            self.assertIn([what for what, _ in events(path)], ORDERS, text)
            self.assertTrue(all(scope == "sys" for what, scope in events(path) if what in ("record", "doorbell")), text)

    def test_all_fences_of_a_path_have_one_scope(self):
        kinds = set()
        for text, path in self.each_path():
            scopes = {scope for what, scope in events(path) if what == "fence"}
            self.assertEqual(len(scopes), 1, text)
            kinds.add((scopes.pop(), len(events(path)) == len(ORDERS[1])))
        self.assertEqual(kinds, {(scope, twice) for scope in ("gpu", "sys") for twice in (False, True)})


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
	fence.acq_rel.gpu; st.relaxed.sys.global.b32 [%rd1], %r1; st.mmio.relaxed.sys.b64 [%rd1], %rd2;
	ret;
}
"""

    def test_counts_on_the_path_without_a_call(self):
        [path] = posting_paths(self.TEXT, "k")
        self.assertEqual(cost(path), {"atomics": 1, "16-byte stores": 1})

    def test_tells_order_and_scope(self):
        [path] = posting_paths(self.TEXT, "k")
        self.assertEqual(events(path), [("line", ""), ("fence", "sys"), ("fence", "gpu"), ("record", "sys"),
                                        ("doorbell", "sys")])

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
