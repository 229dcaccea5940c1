# SPDX-License-Identifier: Apache-2.0
"""The commands: peal lanes, peal lane, peal waits, peal queues. Their docstrings are gdb's help."""
import re

import gdb


def ranks(lanes, most=3):
    """Their numbers: 0..31, 64 or, where there is no end of it, 0, 2, 4, ... (512 lanes)."""
    runs = []
    for lane in lanes:
        if runs and runs[-1][1] == lane.rank - 1:
            runs[-1][1] = lane.rank
        else:
            runs.append([lane.rank, lane.rank])
    told = [str(first) if first == last else f"{first}..{last}" for first, last in runs[:most]]
    return ", ".join(told) + (f", ... ({len(lanes)} lanes)" if len(runs) > most else "")


def triple(first, last):
    told = lambda dim: f"({dim[0]},{dim[1]},{dim[2]})"
    return told(first) if first == last else f"{told(first)}..{told(last)}"


def call_of(lane, place):
    """The call of peal or CUDA that a lane is in; empty for one that runs elsewhere."""
    if lane.runs_on is not None:
        return place.inside
    call = lane.asked()
    if call == "yield":
        return place.inside or call
    if not place.inside or place.inside.startswith("peal::simt::"):
        return call
    return place.inside if place.inside == call else f"{place.inside} ({call})"


def state(lane):
    """What a lane is in, and where."""
    if not lane.alive():
        return ("has ended" if lane.ended else "not started", "")
    place = lane.grid.place(lane)
    inside = call_of(lane, place)
    if lane.runs_on is not None:
        inside = f"in {inside}, " if inside else ""
        return (f"{inside}runs on thread {lane.runs_on.num}", place.where())
    mask = f" mask {lane.mask:#010x}" if lane.mask != 0 else ""
    return (f"in {inside}{mask}", place.where())


def table(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def groups(lanes, key):
    """Lanes that are alike, by what they have in common."""
    found = {}
    for lane in lanes:
        found.setdefault(key(lane), []).append(lane)
    return found.items()


class Peal(gdb.Command):
    """Lanes of kernels on a CPU, queues to the NIC, waits."""

    def __init__(self):
        super().__init__("peal", gdb.COMMAND_STATUS, prefix=True)


class Lanes(gdb.Command):
    """Lanes of the grids that run, and where they are: of blocks that have begun and not ended.
Number, block and thread, the call of peal or CUDA, and the kernel's line. Lanes that are alike share a line, with the
block and thread of the first and the last; after peal lanes all each has its own."""

    def __init__(self):
        super().__init__("peal lanes", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        with Selection():
            for grid in grids():
                print(grid.title())
                lines = [("lane", "block", "thread", "", "")]
                key = (lambda lane: (*state(lane), lane.rank)) if argument == "all" else state
                for told, lanes in groups(grid.lanes, key):
                    lines.append((ranks(lanes), triple(lanes[0].block, lanes[-1].block),
                                  triple(lanes[0].thread, lanes[-1].thread), *told[:2]))
                table(lines)


class OneLane(gdb.Command):
    """A command on one lane: peal lane N bt.
peal lane N COMMAND: bt, info locals, up or another of gdb's commands, on lane N of peal lanes.
peal lane N: that lane for all that follows, until the process goes on or peal lane off.
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
        lane = found[0].lane(int(match[2])) if found else None
        if lane is None:
            fail(f"peal lane {name}: there is no such lane; see peal lanes")
        if not lane.alive():
            fail(f"peal lane {name}: it {'has ended' if lane.ended else 'has not started'}")
        return lane

    def select(self, lane):
        """Its frame in the kernel; answers the levels that are the lane's, up to the kernel."""
        place = lane.grid.place(lane)
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


def is_unlinked(published, completed, unconnected):
    """Counts are of 64 bits, and wrap: one that was never linked has completed so many less than none."""
    return unconnected <= (published - completed) % 2**64 < 2**63


class Queues(gdb.Command):
    """The queues of all contexts, as Runtime::dump() has them.
Counts of 64-byte blocks that kernels reserved, published and rang, and that the NIC completed; the first error."""

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
        published = queue["posted"] & numbers["posted_count"][0]
        unlinked = is_unlinked(published, queue["completed"], numbers["unconnected"][0])
        # Counted by the first block of the last completed request, which may have several.
        last_blocks = (queue["posted"] >> numbers["posted_last_shift"][0] & numbers["most_blocks"][0] - 1) + 1
        done = unlinked or (queue["completed"] - (published - last_blocks) - 1) % 2**64 < 2**63
        completed = published if done else queue["completed"]
        status = listed.name("Status", queue["status"])
        if queue["status"] == 0 and unlinked:
            status = "not linked"
        elif queue["syndrome"] != 0:
            status += f", syndrome {queue['syndrome']:#04x} at {queue['wqe_index']}"
        counts = (queue["reserved"] & numbers["reserved_count"][0], published, queue["rung"], completed)
        return (str(i // context["n_pes"]), str(i % context["n_pes"]), f"{qpn:#x}", *map(str, counts), status)


class Waits(gdb.Command):
    """The waits in progress.
Lanes that spin inside a call of peal, or stand in a collective of their warp or block, and threads of the host inside a
call of peal. With full debug information (-g) the call's arguments, too."""

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
        if not place.spins and (lane.runs_on is not None or lane.asked() == "yield"):
            return None
        return (call_of(lane, place), place.where())

    def invoke(self, argument, from_tty):
        with Selection():
            waits = 0
            listed = Listed("peal_debug_grids")
            running = grids() if listed.objects else []
            for grid in running:
                for wait, lanes in groups(grid.lanes, self.wait_of):
                    if wait is None:
                        continue
                    waits += 1
                    frame = self.frame_of(lanes[0])
                    print(f"grid {grid.number} lane {ranks(lanes)}: {wait[0]}{self.arguments(frame)} of {wait[1]}")
            unwinder.hide()
            busy = {lane.runs_on.num for grid in running for lane in grid.lanes if lane.runs_on}
            for thread in gdb.selected_inferior().threads():
                waits += thread.num not in busy and self.host(thread)
            if waits == 0:
                print("nothing waits")

    def frame_of(self, lane):
        """That of the call of peal."""
        user = lane.grid.place(lane).user
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
