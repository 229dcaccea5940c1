# SPDX-License-Identifier: Apache-2.0
"""From rows to the ratio table: which rows stand beside one another, and what the ratio has to be. And the file of results,
JSON: the first line is about the run and its machine, then come a line for each case and the rows of peal's own programs.

A row is what a side prints for one case. Where a side has several variants of a case, its best row counts. Ratios are
peal over the other side: of bytes or operations a second (more is better), or of time (less is better). A ratio is
rounded to two digits before it is held against its bar. Rows of peal over its NIC (op "ibgda_...") have nothing beside
them: their bars are figures.
"""
import json

KIB, MIB = 1 << 10, 1 << 20
CASE = ("op", "scope", "bytes", "blocks", "threads", "pes")
FLOOR_OF = {"ping_pong": "put_signal"}  # plain cases, and which of peal's and NVSHMEM's they are the floor of
UNITS = {"gbps": "GB/s", "mops": "M/s", "usec": "us"}


def quantity(row):
    """What the row is about: the name of the field that is compared."""
    return next(name for name in ("gbps", "mops", "usec") if name in row)


def best_rows(rows):
    """{case: {side: its best row}} in the order of first appearance."""
    cases = {}
    for row in rows:
        sides = cases.setdefault(tuple(row[name] for name in CASE), {})
        other = sides.get(row["side"])
        name = quantity(row)
        better = other is None or (row[name] < other[name] if name == "usec" else row[name] > other[name])
        if better:
            sides[row["side"]] = row
    return cases


def bar_against_nvshmem(row):
    """What the ratio to NVSHMEM must be: ('>=', x), ('<=', x), or None where no bar was set."""
    op, scope, size = row["op"], row["scope"], row["bytes"]
    if op in ("put", "get"):
        if scope != "block":
            return None
        return ">=", 1.0 if size < 64 * KIB else 1.3 if op == "put" else 2.0
    if op == "ping_pong":
        return None
    if op in ("put_quiet", "p_quiet"):
        return ("<=", 0.9) if size <= 64 else None
    if op in ("add", "add_same"):
        return ">=", 1.0
    return {"fetch_add": ("<=", 1.0), "inc_quiet": ("<=", 1.0), "put_signal": ("<=", 0.75), "barrier_all": ("<=", 0.6),
            "compile": ("<=", 0.25), "start_up": ("<=", 0.5)}.get(op)


def bar_against_raw(row):
    """What share of the plain copy kernel's speed peal must reach."""
    reaches = row["op"] in ("put", "get") and row["scope"] == "block"
    return (">=", 0.97) if reaches and row["blocks"] == 32 and row["bytes"] >= 16 * MIB else None


def bar_alone(row):
    """What peal's own figure must be."""
    if row["op"] == "ibgda_put_quiet":
        return ("<=", 5.5) if row["bytes"] <= 64 else None
    return {"ibgda_rate": (">=", 400.0), "ibgda_rate_rung_one_by_one": (">=", 60.0)}.get(row["op"])


def with_floors(rows):
    """The same, and rows for what stands beside a floor under the floor's name."""
    plain = {row["op"] for row in rows if row["side"] == "raw"}
    return [*rows] + [row | {"op": floor} for floor, op in FLOOR_OF.items() for row in rows
                   if floor in plain and row["op"] == op and row["side"] != "raw"]


def holds(ratio, bar):
    sign, limit = bar
    return round(ratio, 2) >= limit if sign == ">=" else round(ratio, 2) <= limit


def compare(rows):
    """One line of the table for each case that peal has a row of."""
    lines = []
    rows = with_floors(rows)
    for case, sides in best_rows(rows).items():
        if "peal" not in sides:
            continue
        mine = sides["peal"]
        name = quantity(mine)
        line = dict(zip(CASE, case)) | {"unit": UNITS[name], "peal": mine[name], "peal_variant": mine.get("variant", "")}
        line["peal_bar"] = "".join(str(part) for part in alone) if (alone := bar_alone(mine)) else None
        verdicts = ["ok" if holds(mine[name], alone) else "MISSED"] if alone else []
        for side, bar in (("nvshmem", bar_against_nvshmem(mine)), ("raw", bar_against_raw(mine))):
            line[side + "_bar"] = "".join(str(part) for part in bar) if bar else None
            if side not in sides:
                verdicts += ["not measured"] if bar else []
                continue
            line[side] = sides[side][name]
            line[side + "_variant"] = sides[side].get("variant", "")
            line[side + "_ratio"] = ratio = round(mine[name] / line[side], 4) if line[side] else 0.0
            if bar:
                verdicts.append("ok" if holds(ratio, bar) else "MISSED")
        errors = sum(row.get("errors", 0) for row in rows if tuple(row[n] for n in CASE) == case)
        order = ("not measured", "MISSED", "ok")
        line["errors"] = errors
        line["verdict"] = "ERRORS" if errors else next((v for v in order if v in verdicts), "-")
        lines.append(line)
    return lines


def size_text(count):
    if count == 0:
        return ""
    return next(f"{count >> shift} {unit}" for shift, unit in ((20, "MiB"), (10, "KiB"), (0, "B"))
                if count >> shift and count % (1 << shift) == 0)


def number_text(value):
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.3g}"


def ratio_text(value):
    return "" if value is None else f"{value:.2f}"


def title(line):
    """What the lines of one group have in common."""
    if line["op"] == "compile":
        return "compile"
    shape = f"{line['scope']} {line['blocks']} x {line['threads']}" if line["scope"] and line["blocks"] else ""
    return " ".join(part for part in (line["op"], shape, f"{line['pes']} PEs") if part)


def render(lines):
    """The table as text, one group of lines for each title."""
    head = ("", "unit", "peal", "bar", "NVSHMEM", "ratio", "bar", "raw", "ratio", "bar", "")
    widths = (10, 5, 8, 7, 8, 6, 7, 8, 6, 7, 12)
    text, last = [], None
    for line in lines:
        slow = line["op"] in ("compile", "start_up")  # in milliseconds, for the eye
        shown = {side: line[side] / 1000 if slow else line[side] for side in ("peal", "nvshmem", "raw") if side in line}
        if title(line) != last:
            last = title(line)
            text += ["", last, " ".join(cell.rjust(width) for cell, width in zip(head, widths)).rstrip()]
        cells = (size_text(line["bytes"]), "ms" if slow else line["unit"], number_text(shown["peal"]),
                 line["peal_bar"] or "", number_text(shown.get("nvshmem")), ratio_text(line.get("nvshmem_ratio")),
                 line["nvshmem_bar"] or "", number_text(shown.get("raw")), ratio_text(line.get("raw_ratio")),
                 line["raw_bar"] or "", line["verdict"])
        text.append(" ".join(cell.rjust(width) for cell, width in zip(cells, widths)).rstrip())
    return "\n".join(text[1:])


def summary(lines):
    counts = {}
    for line in lines:
        counts[line["verdict"]] = counts.get(line["verdict"], 0) + 1
    names = ("ok", "MISSED", "not measured", "ERRORS")
    return ", ".join(f"{counts[name]} {name}" for name in names if name in counts) or "nothing compared"


def kept(rows):
    """A line for each case: each side's best figure, which of its variants that was, and what was wrong on it."""
    lines = []
    for case, sides in best_rows(rows).items():
        name = quantity(next(iter(sides.values())))
        line = dict(zip(CASE, case)) | {name: {side: row[name] for side, row in sides.items()}}
        variants = {side: row["variant"] for side, row in sides.items() if row.get("variant")}
        errors = {side: count for side in sides if (count := sum(
            row.get("errors", 0) for row in rows if row["side"] == side and tuple(row[n] for n in CASE) == case))}
        lines.append(line | ({"variant": variants} if variants else {}) | ({"errors": errors} if errors else {}))
    return lines


def rows_of(line):
    """The rows that a line of kept() tells of."""
    name = quantity(line)
    return [{field: line[field] for field in CASE} | {"side": side, name: value} | {
        field: line[field][side] for field in ("variant", "errors") if side in line.get(field, {})
    } for side, value in line[name].items()]


def write(path, about, rows, programs):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in [about, *kept(rows), *programs]))


def read(path):
    """The best rows of what write() was given, and the rest as it was."""
    about, *lines = map(json.loads, path.read_text().splitlines())
    cases = [line for line in lines if "benchmark" not in line]
    return about, [row for line in cases for row in rows_of(line)], [line for line in lines if "benchmark" in line]
