# SPDX-License-Identifier: Apache-2.0
"""gdb commands for programs that use peal: peal lanes, peal lane, peal queues, peal waits (docs/gdb.md).

A lane is a fiber: while it is suspended its registers lie on its stack and no thread shows it. Here an unwinder says that
the frame below the selected thread's is the lane's, so that all of gdb's commands on frames work on lanes. Nothing is
written to the process: cores do as well. Where things lie the process tells itself (base/debug_list.h), so that it may
be stripped; names of functions and lines are what its debug information has."""
import re

import gdb
import gdb.unwinder


def fail(text):
    raise gdb.GdbError("peal: " + text)


# ---- memory

def read(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def number(data):
    return int.from_bytes(data, "little")


def word(address):
    return number(read(address, 8))


def text(address):
    data = b""
    while b"\0" not in data:
        data += read(address + len(data), 1)
    return data[:-1].decode()


def rows(address):
    """The (name, word, word) entries of a table that a null name ends."""
    found = []
    while word(address) != 0:
        found.append((text(word(address)), word(address + 8), word(address + 16)))
        address += 24
    return found


class Object:
    """A struct of the process by the table of its fields."""

    def __init__(self, kind, data):
        self.fields, self.data = kind[1], data

    def bytes(self, name):
        offset, size = self.fields[name]
        return self.data[offset:offset + size]

    def __getitem__(self, name):
        return number(self.bytes(name))

    def dim(self, name):
        data = self.bytes(name)
        return tuple(number(data[i:i + 4]) for i in (0, 4, 8))


def check_process():
    if not gdb.selected_inferior().threads():
        fail("no process: run the program first, or attach to one")


class Listed:
    """A DebugList: its types by name, and its objects' addresses, the oldest first."""

    def __init__(self, symbol):
        check_process()
        try:
            self.address = int(gdb.parse_and_eval(f"(unsigned long)&{symbol}"))
        except gdb.error:
            fail(f"no {symbol} in this program: nothing of peal is linked or loaded yet")
        self.types = {}
        for name, size, fields in rows(word(self.address)):
            self.types[name] = (size, {n: (a, b) for n, a, b in rows(fields)})
        self.objects, item = [], word(self.address + 8)
        while item != 0 and len(self.objects) < 1 << 20:
            self.objects.insert(0, word(item))
            item = word(item + 8)

    def object(self, kind, address):
        return Object(self.types[kind], read(address, self.types[kind][0]))

    def name(self, kind, value):
        """Of a number."""
        return next((n for n, (at, _) in self.types[kind][1].items() if at == value), f"{kind} {value}")


# ---- lanes and their frames

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


def plain(name):
    """A function's name without template arguments and parameters."""
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
                or self.file.endswith("simt/lane.cc"))

    def beyond(self):
        """Beneath the kernel."""
        return self.function.startswith(("peal::simt::", "std::", "peal::launch", "make_fcontext"))


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


class Place:
    """Where lanes are: the same return addresses at the same depths of their stacks."""

    def __init__(self, frames, saved):
        self.frames = frames
        self.words = [(f.slot - saved, f.pc) for f in frames if saved is not None and f.slot is not None]
        while self.frames and self.frames[-1].beyond():
            self.frames = self.frames[:-1]
        users = [i for i, f in enumerate(self.frames) if not f.ours()]
        self.user = users[0] if users else len(self.frames) - 1
        self.kernel = self.frames[-1].function if self.frames else ""
        self.inside = self.frames[self.user - 1].function if self.user > 0 else ""
        waits = ("peal::spin_until", "peal::simt::yield")
        self.spins = any(f.function.startswith(waits) for f in self.frames)

    def holds(self, stack):
        return bool(self.words) and all(
            number(stack[at:at + 8]) == pc for at, pc in self.words if at >= 0)

    def where(self):
        if not self.frames:
            return "?"
        frame = self.frames[self.user]
        return f"{frame.function or hex(frame.pc)} at {frame.line}" if frame.line else frame.function or hex(frame.pc)


class Lane:
    def __init__(self, grid, rank, block, data):
        self.grid, self.rank, self.block = grid, rank, block
        self.saved, self.call, self.mask = data["saved"], data["call"], data["mask"]
        self.stack, self.top = data["stack"], data["stack"] + data["stack_bytes"]
        self.thread = data.dim("thread")
        self.started, self.ended = data["started"] != 0, data["ended"] != 0
        self.runs_on = None  # a thread of gdb's

    def alive(self):
        return self.started and not self.ended


class Grid:
    def __init__(self, listed, address):
        data = listed.object("Grid", address)
        self.listed, self.number = listed, data["number"]
        self.blocks, self.threads = data.dim("blocks"), data.dim("threads")
        self.places = {}
        self.lanes = []
        size, _ = listed.types["Lane"]
        x, y, z = self.threads
        for b in range(data["block_count"]):
            stored = read(word(data["first_lanes"] + 8 * b), x * y * z * size)
            block = (b % self.blocks[0], b // self.blocks[0] % self.blocks[1], b // self.blocks[0] // self.blocks[1])
            for t in range(x * y * z):
                lane = Object(listed.types["Lane"], stored[t * size:(t + 1) * size])
                self.lanes.append(Lane(self, len(self.lanes), block, lane))

    def find_running(self, stack_pointers):
        spans = sorted((lane.stack, lane.top, i) for i, lane in enumerate(self.lanes) if lane.alive())
        for thread, sp in stack_pointers:
            for bottom, top, i in spans:
                if bottom <= sp < top:
                    self.lanes[i].runs_on = thread

    def place(self, lane):
        if lane.runs_on is not None:
            lane.runs_on.switch()
            return Place(frames_from(gdb.newest_frame()), None)
        stack = read(lane.saved, lane.top - lane.saved)
        known = self.places.setdefault((lane.call, stack[SAVED["rip"]:SAVED_BYTES]), [])
        for place in known:
            if place.holds(stack):
                return place
        known.insert(0, Place(frames_from(lane_frame(lane)), lane.saved))
        return known[0]

    def kernel(self):
        lane = next((lane for lane in self.lanes if lane.alive()), None)
        return self.place(lane).kernel if lane else "which no lane has begun or all have ended"

    def title(self):
        extent = lambda dim: str(dim[0]) if dim[1:] == (1, 1) else f"({dim[0]},{dim[1]},{dim[2]})"
        return f"grid {self.number}: kernel {self.kernel()}, {extent(self.blocks)} blocks of {extent(self.threads)} threads"


def lane_frame(lane):
    """The innermost frame of a lane that does not run; behind it frame.older() goes on."""
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


# ---- what is printed

def span(first, last):
    return str(first) if first == last else f"{first}..{last}"


def triple(first, last):
    told = lambda dim: f"({dim[0]},{dim[1]},{dim[2]})"
    return told(first) if first == last else f"{told(first)}..{told(last)}"


def state(lane):
    """What a lane is in, and where."""
    if not lane.alive():
        return ("has ended" if lane.ended else "not started", "")
    place = lane.grid.place(lane)
    if lane.runs_on is not None:
        inside = f"in {place.inside}, " if place.inside else ""
        return (f"{inside}runs on thread {lane.runs_on.num}", place.where())
    call = lane.grid.listed.name("Call", lane.call)
    inside = place.inside or call
    if call != "yield" and call != inside:
        inside += f" ({call})"
    if lane.mask != 0:
        inside += f" mask {lane.mask:#010x}"
    return (f"in {inside}", place.where())


def table(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def groups(lanes, key):
    """Runs of lanes that are alike."""
    found = []
    for lane in lanes:
        told = key(lane)
        if found and found[-1][2] == told:
            found[-1][1] = lane
        else:
            found.append([lane, lane, told])
    return found


class Peal(gdb.Command):
    """Lanes of kernels on a CPU, queues to the NIC, and waits of peal: see help peal."""

    def __init__(self):
        super().__init__("peal", gdb.COMMAND_STATUS, prefix=True)


class Lanes(gdb.Command):
    """Each lane of the grids that run: its number, block and thread, the call it is in, and the kernel's line. Lanes in a
row that are alike share a line."""

    def __init__(self):
        super().__init__("peal lanes", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        with Selection():
            for grid in grids():
                print(grid.title())
                lines = [("lane", "block", "thread", "", "")]
                for first, last, told in groups(grid.lanes, state):
                    lines.append((span(first.rank, last.rank), triple(first.block, last.block),
                                  triple(first.thread, last.thread), *told))
                table(lines)


class OneLane(gdb.Command):
    """peal lane N COMMAND: a gdb command such as bt, info locals or up, on lane N of peal lanes.
peal lane N: the same for all that follows, until the process goes on or peal lane off.
With several grids lane N of grid G is G.N."""

    def __init__(self):
        super().__init__("peal lane", gdb.COMMAND_STACK)

    def find(self, name):
        match = re.fullmatch(r"(?:(\d+)\.)?(\d+)", name)
        if not match:
            fail(f"peal lane {name}: give the number of a lane, as peal lanes shows it, and a command")
        found = [grid for grid in grids() if match[1] is None or grid.number == int(match[1])]
        if len(found) > 1:
            fail(f"peal lane {name}: {len(found)} grids run, say {found[0].number}.{name} or another's")
        if not found or int(match[2]) >= len(found[0].lanes):
            fail(f"peal lane {name}: there is no such lane; see peal lanes")
        lane = found[0].lanes[int(match[2])]
        if not lane.alive():
            fail(f"peal lane {name}: it {'has ended' if lane.ended else 'has not started'}")
        return lane

    def select(self, lane):
        """Its frame in the kernel; answers the levels that are the lane's, up to the kernel."""
        place = lane.grid.place(lane)
        if lane.runs_on is not None:
            lane.runs_on.switch()
            frame, before = gdb.newest_frame(), 0
        else:
            frame = lane_frame(lane)
            before = frame.level()
        for _ in range(place.user):
            frame = frame.older()
        frame.select()
        return range(before, before + len(place.frames))

    def invoke(self, argument, from_tty):
        name, _, command = argument.strip().partition(" ")
        if name == "off":
            unwinder.hide()
            return
        if command:
            with Selection():
                self.run(self.select(self.find(name)), command.strip())
            return
        self.select(self.find(name))
        gdb.execute("frame")

    def run(self, levels, command):
        backtrace = re.fullmatch(r"((?:bt|backtrace|where)\b.*?)(-?\d+)?", command)
        if not backtrace:
            gdb.execute(command)
            return
        count, wanted = int(backtrace[2] or len(levels)), False
        shown = levels[:count] if count > 0 else levels[count:]
        for line in gdb.execute(backtrace[1], to_string=True).splitlines():
            level = re.match(r"#(\d+)\s+", line)
            if level:
                wanted = int(level[1]) in shown
                line = f"#{int(level[1]) - levels.start}".ljust(len(level[0])) + line[level.end():]
            if wanted:
                print(line)


class Queues(gdb.Command):
    """The queues of all contexts, as Runtime::dump() has them: counts of 64-byte blocks that kernels reserved, published
and rang, and that the NIC completed; the first error."""

    def __init__(self):
        super().__init__("peal queues", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        listed = Listed("peal_debug_contexts")
        if not listed.objects:
            fail("no context: peal::start() has not come so far")
        for address in listed.objects:
            self.context(listed, listed.object("Context", address))

    def context(self, listed, context):
        print(f"context {context['slot']} of PE {context['pe']} of {context['n_pes']}")
        try:
            stopped = number(read(context["stop"], 4))
        except gdb.MemoryError:
            stopped = 0
        if stopped:
            print(f"  its waits were ended: {listed.name('Status', stopped)}")
        if context["queues"] == 0:
            print("  no queues: every peer's memory is mapped")
            return
        lines = [("queue", "to pe", "qpn", "reserved", "published", "rung", "completed", "status")]
        try:
            for i in range(context["queues_per_peer"] * context["n_pes"]):
                at = context["queues"] + i * context["queue_stride"]
                lines.append(self.queue(listed, context, i, listed.object("SendQueue", at)))
        except gdb.MemoryError:
            print("  its queues are in the GPU's memory, which gdb cannot read: Runtime::dump() does")
            return
        table(lines)

    def queue(self, listed, context, i, queue):
        numbers = listed.types["Number"][1]
        qpn = int.from_bytes(queue.bytes("qpn_shifted"), "big") >> 8
        unlinked = queue["published"] - queue["completed"] >= numbers["unconnected"][0]
        completed = queue["published"] if unlinked else queue["completed"]
        status = listed.name("Status", queue["status"])
        if queue["status"] == 0 and unlinked:
            status = "not linked"
        elif queue["syndrome"] != 0:
            status += f", syndrome {queue['syndrome']:#04x} at {queue['wqe_index']}"
        counts = (queue["reserved"] & numbers["reserved_count"][0], queue["published"], queue["rung"], completed)
        return (str(i // context["n_pes"]), str(i % context["n_pes"]), f"{qpn:#x}", *map(str, counts), status)


class Waits(gdb.Command):
    """The waits in progress: lanes that spin inside a call of peal, or stand in a collective of their warp or block, and
threads of the host inside a call of peal. With full debug information (-g) the call's arguments, too."""

    def __init__(self):
        super().__init__("peal waits", gdb.COMMAND_STATUS)

    def arguments(self, frame):
        told = []
        try:
            block = frame.block()
            while block is not None and block.function is None:
                block = block.superblock
            for symbol in block or []:
                if symbol.is_argument:
                    value = symbol.value(frame)
                    kind = value.type.strip_typedefs()
                    if kind.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_STRUCT):
                        continue  # the context and the scope
                    shown = str(value) if len(str(value)) < 60 else "..."
                    if kind.code == gdb.TYPE_CODE_PTR:
                        shown += f" -> {value.dereference()}"
                    told.append(f"{symbol.print_name}={shown}")
        except (gdb.error, RuntimeError):
            pass  # no debug information of variables here
        return f"({', '.join(told)})" if told else ""

    def wait_of(self, lane):
        if not lane.alive():
            return None
        place = lane.grid.place(lane)
        if not place.inside or lane.runs_on is not None and not place.spins:
            return None
        return (place.inside, place.where())

    def invoke(self, argument, from_tty):
        with Selection():
            waits = 0
            listed = Listed("peal_debug_grids")
            running = grids() if listed.objects else []
            for grid in running:
                for first, last, wait in groups(grid.lanes, self.wait_of):
                    if wait is None:
                        continue
                    waits += 1
                    frame = self.frame_of(first)
                    print(f"grid {grid.number} lane {span(first.rank, last.rank)}: "
                          f"{wait[0]}{self.arguments(frame)} of {wait[1]}")
            unwinder.hide()
            busy = {lane.runs_on.num for grid in running for lane in grid.lanes if lane.runs_on}
            for thread in gdb.selected_inferior().threads():
                waits += thread.num not in busy and self.host(thread)
            if waits == 0:
                print("nothing waits")

    def frame_of(self, lane):
        """That of the call of peal."""
        user = lane.grid.place(lane).user
        if lane.runs_on is not None:
            lane.runs_on.switch()
            frame = gdb.newest_frame()
        else:
            frame = lane_frame(lane)
        for _ in range(user - 1):
            frame = frame.older()
        return frame

    def host(self, thread):
        thread.switch()
        frames = frames_from(gdb.newest_frame())
        for call, user in zip(frames, frames[1:]):
            if call.function.startswith("peal::") and not user.ours() and user.line:
                print(f"thread {thread.num}: {call.function} of {user.function} at {user.line}")
                return True
        return False  # not in peal, or a thread of peal's own


for command in (Peal, Lanes, OneLane, Queues, Waits):
    command()
