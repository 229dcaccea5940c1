# SPDX-License-Identifier: Apache-2.0
"""Lanes and their frames. A lane is a fiber: while it is suspended its registers lie on its stack and no thread shows it.
The unwinder says that the frame below the selected thread's is the lane's, so that all of gdb's commands on frames work
on lanes. Names of functions and lines are what the program's debug information has."""
import re

import gdb
import gdb.unwinder

# What boost.context's jump_fcontext leaves at the stack pointer that it saves, and its first instruction.
SAVED = {"r12": 8, "r13": 16, "r14": 24, "r15": 32, "rbx": 40, "rbp": 48, "rip": 56}
SAVED_BYTES = 64
JUMP = bytes.fromhex("488d6424c8")  # lea -0x38(%rsp),%rsp
ENDBR = bytes.fromhex("f30f1efa")


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class LaneUnwinder(gdb.unwinder.Unwinder):
    """Puts a lane's frames below the newest of the thread that was selected when it was shown."""

    def __init__(self):
        super().__init__("peal")
        self.saved, self.at = None, None

    def show(self, saved):
        self.hide()
        frame = gdb.newest_frame()
        self.at = (int(frame.read_register("rsp")), frame.pc())
        self.saved = saved
        gdb.invalidate_cached_frames()

    def hide(self, _=None):
        if self.saved is not None:
            self.saved = None
            gdb.invalidate_cached_frames()

    def __call__(self, frame):
        if self.saved is None:
            return None
        sp, pc = frame.read_register("rsp"), frame.read_register("rip")
        if (int(sp), int(pc)) != self.at:
            return None
        data = read(self.saved, SAVED_BYTES)
        info = frame.create_unwind_info(FrameId(gdb.Value(self.saved).cast(sp.type), pc))
        for name, offset in SAVED.items():
            info.add_saved_register(
                name, gdb.Value(number(data[offset:offset + 8])).cast(frame.read_register(name).type))
        info.add_saved_register("rsp", gdb.Value(self.saved + SAVED_BYTES).cast(sp.type))
        return info


unwinder = LaneUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
gdb.events.cont.connect(unwinder.hide)


def check_machine():
    if not gdb.selected_frame().architecture().name().startswith("i386:x86-64"):
        fail("stacks of lanes are known on x86-64 only")
    start = read(int(gdb.parse_and_eval("(unsigned long)&jump_fcontext")), 16)
    if not start.removeprefix(ENDBR).startswith(JUMP):
        fail("this libboost_context saves registers in another order than that of Boost 1.74: lanes that do not run "
             "cannot be shown")


def begin_of(mangled):
    """Namespaces and name of what gdb cannot demangle, such as templates of lambdas with constraints."""
    rest, parts = mangled.lstrip("_ZNK"), []
    while found := re.match(r"(\d+)", rest):
        end = found.end() + int(found[1])
        parts.append(rest[found.end():end])
        rest = rest[end:]
    return "::".join(parts) or mangled


def plain(name):
    """A function's name without template arguments and parameters."""
    if name.startswith("_Z"):
        return begin_of(name)
    name = name.replace("(anonymous namespace)", "{anonymous}").replace("operator()", "{call}")
    depth, kept = 0, ""
    for i, c in enumerate(name):
        if c == "<":
            depth += 1
        elif c == ">" and name[i - 1] != "-":
            depth -= 1
        elif c == "(" and depth == 0:
            break
        elif depth == 0:
            kept += c
    kept = kept.split(" ")[-1]
    return kept.replace("{anonymous}::", "").replace("{call}", "operator()")


class Frame:
    """What is told of a frame; `frame` itself is good until the process or the unwinder moves."""

    def __init__(self, frame):
        self.frame, self.pc = frame, frame.pc()
        self.function = plain(self.name(frame))
        sal = frame.find_sal()
        self.file = sal.symtab.filename if sal.symtab else ""
        self.line = f"{self.file.split('/')[-1]}:{sal.line}" if sal.symtab else ""
        # Where the address is by which it was called back; an inlined function has none.
        self.slot = None if frame.type() == gdb.INLINE_FRAME else int(frame.read_register("rsp")) - 8

    @staticmethod
    def name(frame):
        """Line tables alone (-g1) do not tell the namespace of a file's own functions; the linker's symbol does."""
        name = frame.name() or ""
        if "::" in name or frame.type() == gdb.INLINE_FRAME:
            return name
        symbol = gdb.execute(f"info symbol {frame.pc():#x}", to_string=True)
        return symbol if symbol.startswith("peal::") else name

    def ours(self):
        """Part of peal, or of what a kernel gets from CUDA or NVSHMEM."""
        return (self.function.startswith(("peal::", "std::", "__", "nvshmem", "jump_fcontext"))
                or self.file.endswith("simt/lanes/lane.cc"))

    def beyond(self):
        """Beneath the kernel."""
        return (self.function.startswith(("peal::simt::", "std::", "peal::launch"))
                or self.file.endswith("simt/lanes/lane.cc"))


def frames_from(frame):
    """To the end of the lane."""
    found = []
    while frame is not None and len(found) < 200:
        told = Frame(frame)
        if told.pc == 0 or told.function in ("peal::simt::Fiber::begin", "make_fcontext"):
            break
        found.append(told)
        frame = frame.older()
    return found


class LaneFrames:
    """Where lanes are: the same return addresses at the same depths of their stacks."""

    def __init__(self, frames, saved):
        self.words = [(f.slot - saved, f.pc) for f in frames if saved is not None and f.slot is not None]
        kept = len(frames)
        while kept > 0 and frames[kept - 1].beyond():
            kept -= 1
        # None is kept where the kernel's last call took the place of its frame.
        self.frames = frames[:kept] or frames
        self.kernel = self.frames[-1].function if kept > 0 else ""
        users = [i for i, f in enumerate(self.frames) if not f.ours()]
        self.user = users[0] if users and kept > 0 else len(self.frames) - 1
        self.inside = self.frames[self.user - 1].function if self.user > 0 and kept > 0 else ""
        waits = ("peal::spin_until", "peal::simt::yield")
        self.spins = any(f.function.startswith(waits) for f in self.frames)

    def holds(self, stack):
        return bool(self.words) and all(
            number(stack[at:at + 8]) == pc for at, pc in self.words if at >= 0)

    def where(self):
        if not self.kernel:
            return "?"
        frame = self.frames[self.user]
        return f"{frame.function or hex(frame.pc)} at {frame.line}" if frame.line else frame.function or hex(frame.pc)


class Lane:
    def __init__(self, grid, rank, block, data):
        self.grid, self.rank, self.block = grid, rank, block
        self.call, self.mask = data["call"], data["mask"]
        self.thread = data.dim("thread")
        self.started, self.ended = data["started"] != 0, data["ended"] != 0
        self.runs_on = None  # a thread of gdb's
        if self.alive():
            fiber = grid.listed.object("Fiber", data["fiber"])
            self.saved, self.stack = fiber["saved"], fiber["stack"]
            self.top = self.stack + fiber["stack_bytes"]

    def alive(self):
        return self.started and not self.ended

    def asked(self):
        """What it asked of its worker last."""
        return self.grid.listed.name("Call", self.call)


class Grid:
    def __init__(self, listed, address):
        data = listed.object("Grid", address)
        self.listed, self.number = listed, data["number"]
        self.blocks, self.threads = data.dim("blocks"), data.dim("threads")
        self.places = {}
        self.lanes = []  # of blocks that have begun and not ended
        self.resident = 0
        self.begun = word(data["begun"])
        size, _ = listed.types["Lane"]
        x, y, z = self.threads
        for block in sorted(self.residents(data), key=lambda block: block["number"]):
            stored, b = read(block["lanes"], x * y * z * size), block["number"]
            index = (b % self.blocks[0], b // self.blocks[0] % self.blocks[1], b // self.blocks[0] // self.blocks[1])
            self.resident += 1
            for t in range(x * y * z):
                lane = Object(listed.types["Lane"], stored[t * size:(t + 1) * size])
                self.lanes.append(Lane(self, b * x * y * z + t, index, lane))

    def residents(self, data):
        size, _ = self.listed.types["Residents"]
        for i in range(data["worker_count"]):
            at = self.listed.object("Residents", data["residents"] + i * size)["first"]
            while at != 0:
                block = self.listed.object("Block", at)
                yield block
                at = block["next"]

    def lane(self, rank):
        return next((lane for lane in self.lanes if lane.rank == rank), None)

    def find_running(self, stack_pointers):
        spans = sorted((lane.stack, lane.top, i) for i, lane in enumerate(self.lanes) if lane.alive())
        for thread, sp in stack_pointers:
            for bottom, top, i in spans:
                if bottom <= sp < top:
                    self.lanes[i].runs_on = thread

    def place(self, lane):
        if lane.runs_on is not None:
            return LaneFrames(frames_from(lane_frame(lane)), None)
        stack = read(lane.saved, lane.top - lane.saved)
        known = self.places.setdefault((lane.call, stack[SAVED["rip"]:SAVED_BYTES]), [])
        for place in known:
            if place.holds(stack):
                return place
        known.insert(0, LaneFrames(frames_from(lane_frame(lane)), lane.saved))
        return known[0]

    def kernel(self):
        found = (self.place(lane).kernel for lane in self.lanes if lane.alive())
        return next((kernel for kernel in found if kernel), "?")

    def title(self):
        extent = lambda dim: str(dim[0]) if dim[1:] == (1, 1) else f"({dim[0]},{dim[1]},{dim[2]})"
        x, y, z = self.blocks
        others = "" if self.resident == x * y * z else f", {self.resident} of them resident"
        if self.begun < x * y * z:
            others += f", {x * y * z - self.begun} not begun"
        return (f"grid {self.number}: kernel {self.kernel()}, {extent(self.blocks)} blocks of {extent(self.threads)} "
                f"threads{others}")


def lane_frame(lane):
    """A lane's innermost frame, from which frame.older() goes on."""
    if lane.runs_on is not None:
        unwinder.hide()  # below the thread's newest frame is its own again
        lane.runs_on.switch()
        return gdb.newest_frame()
    unwinder.show(lane.saved)
    frame = gdb.newest_frame()
    while frame.type() == gdb.INLINE_FRAME:
        frame = frame.older()
    return frame.older()


class Selection:
    """Leaves gdb's thread and frame as they were."""

    def __enter__(self):
        check_process()
        self.thread, self.frame = gdb.selected_thread(), gdb.selected_frame()

    def __exit__(self, *_):
        unwinder.hide()
        self.thread.switch()
        if self.frame.is_valid():
            self.frame.select()


def grids():
    listed = Listed("peal_debug_grids")
    check_machine()
    if not listed.objects:
        fail("no grid runs")
    before, pointers = gdb.selected_thread(), []
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        pointers.append((thread, int(gdb.newest_frame().read_register("rsp"))))
    before.switch()
    found = [Grid(listed, address) for address in listed.objects]
    for grid in found:
        grid.find_running(pointers)
    return found
