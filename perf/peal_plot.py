#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what peal's benchmarks print with --json or --csv: each benchmark a panel, a line a series, by bytes.

  peal-latency --sizes 8:64K --repeats 5 --json > rows.jsonl
  peal-plot rows.jsonl more.csv -o latency.svg

The line is the median repeat, the band about it reaches from the least to the largest, dashes are the 99th percentile of
latencies. Series are named by what differs between them. The end of OUT says what it becomes: .svg, .png, .pdf. Needs
matplotlib.
"""
import argparse
import csv
import json
import pathlib
import sys

# Of each benchmark: what is drawn, the axis' name, whether the axis is logarithmic.
FIGURES = {"latency": ("usec_median", "microseconds, median", True), "bandwidth": ("gbytes_per_s", "GB/s", True),
           "message_rate": ("mops", "million operations a second", False), "collectives": ("usec", "microseconds a call", True)}
# What makes rows those of different series; a name is shown where its values differ.
SERIES = ("op", "scope", "blocks", "threads", "pes", "pairs", "bidirectional", "qps", "transport", "nic", "version", "host")
WHERE = ("version", "host", "cpu", "gpu", "transport", "nic")
FORMATS = (".svg", ".png", ".pdf")


class Refused(Exception):
    """A sentence for whoever called."""


def values_of(line):
    """A row's numbers and switches, which CSV has as text."""
    row = {}
    for name, value in line.items():
        try:
            row[name] = json.loads(value) if isinstance(value, str) and name not in WHERE else value
        except ValueError:
            row[name] = value
    return row


def parsed(name, text):
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise Refused(f"{name}: no rows; give what a benchmark printed with --json or --csv")
    if lines[0].startswith("{"):
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise Refused(f"{name}: a line is no JSON: {error}") from error
    # The names come again where several runs were written to one file.
    return [values_of(line) for line in csv.DictReader(lines) if line.get("benchmark") != "benchmark"]


def checked(name, rows):
    for row in rows:
        benchmark = row.get("benchmark") if isinstance(row, dict) else None
        if benchmark not in FIGURES:
            raise Refused(f"{name}: no row of peal-{', peal-'.join(key.replace('_', '-') for key in FIGURES)}; give what one "
                          "printed with --json or --csv")
        figure = FIGURES[benchmark][0]
        if not all(isinstance(row.get(key), (int, float)) for key in ("bytes", figure)):
            raise Refused(f"{name}: a row of {benchmark} without bytes or {figure}; it was cut off, or is of another version")
        if row.get("verified") is not True:
            raise Refused(f"{name}: a row of {benchmark} found errors in its data; what it measured is not drawn")
    return rows


def read(path):
    try:
        text = sys.stdin.read() if path == "-" else pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: no text: {error}") from error
    return [row | {"file": path} for row in checked(path, parsed(path, text))]


def repeated(rows):
    """Whether two files have the same row: two runs of one thing, else parts of one."""
    files = {}
    for row in rows:
        files.setdefault(tuple(str(row.get(key)) for key in (*SERIES, "bytes")), set()).add(row.get("file"))
    return any(len(names) > 1 for names in files.values())


def series_of(rows):
    """{name: its rows by bytes}; the name is made of what differs among all of them, and always of the operation."""
    differs = [key for key in SERIES if key == "op" or len({str(row.get(key)) for row in rows}) > 1]
    differs += ["file"] if repeated(rows) else []
    series = {}
    for row in rows:
        shown = [str(row[key]) if key in ("op", "scope", "transport", "nic", "host", "file") else f"{key} {row[key]}"
                 for key in differs if row.get(key) is not None and not (key in ("blocks", "threads") and row[key] == 0)]
        series.setdefault(", ".join(shown), []).append(row)
    return {name: sorted(points, key=lambda row: row["bytes"]) for name, points in series.items()}


def size_text(size):
    for unit, bytes_of in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size >= bytes_of and size % bytes_of == 0:
            return f"{size // bytes_of}{unit}"
    return str(size)


def draw_series(axes, name, points, figure):
    if points[-1]["bytes"] == 0:  # a barrier: beside messages of any size
        [line] = axes.plot([], [], label=name, linestyle="-.", linewidth=1)
        axes.axhline(points[-1][figure], color=line.get_color(), linestyle="-.", linewidth=1)
        return
    points = [row for row in points if row["bytes"] > 0]
    sizes = [row["bytes"] for row in points]
    [line] = axes.plot(sizes, [row[figure] for row in points], label=name, marker=".")
    if any(row.get("repeats", 1) > 1 for row in points):
        least, most = ([row.get(f"{figure}_repeats_{end}", row[figure]) for row in points] for end in ("min", "max"))
        axes.fill_between(sizes, least, most, color=line.get_color(), alpha=0.2, linewidth=0)
    if all("usec_p99" in row for row in points):
        axes.plot(sizes, [row["usec_p99"] for row in points], color=line.get_color(), linestyle="--", linewidth=1)


def draw_panel(axes, benchmark, rows):
    figure, unit, logarithmic = FIGURES[benchmark]
    for name, points in series_of(rows).items():
        draw_series(axes, name, points, figure)
    if any(row["bytes"] > 0 for row in rows):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda size, _position: size_text(int(size)))
    axes.set_xlabel("bytes of a message")
    if logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel(unit)
    axes.set_title(benchmark.replace("_", " "))
    axes.grid(color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8)


def caption(rows):
    """Where the rows come from, each place once."""
    places = {}
    for row in rows:
        place = ", ".join(f"peal {row[key]}" if key == "version" else str(row[key]) for key in WHERE if row.get(key))
        places.setdefault(place, set()).add(str(row.get("date", ""))[:10])
    return "\n".join(f"{place}, {min(dates)}" for place, dates in places.items())


def draw(rows, out):
    try:
        import matplotlib
        matplotlib.use("agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise Refused(f"needs matplotlib ({error}): apt-get install python3-matplotlib, or pip install matplotlib") from error
    benchmarks = [name for name in FIGURES if any(row["benchmark"] == name for row in rows)]
    with pyplot.rc_context({"svg.hashsalt": "peal", "svg.fonttype": "none", "font.size": 9}):
        figure, panels = pyplot.subplots(1, len(benchmarks), figsize=(5.5 * len(benchmarks), 4), squeeze=False)
        for axes, benchmark in zip(panels[0], benchmarks):
            draw_panel(axes, benchmark, [row for row in rows if row["benchmark"] == benchmark])
        figure.tight_layout()
        figure.text(0.01, -0.01, caption(rows), color="#666666", fontsize=7, va="top")
        try:
            figure.savefig(out, bbox_inches="tight", metadata={"Date": None} if out.suffix == ".svg" else None)
        except OSError as error:
            raise Refused(f"{out}: {error.strerror}") from error


def main():
    parser = argparse.ArgumentParser(prog="peal-plot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="rows of --json or --csv; - is standard input")
    parser.add_argument("-o", "--out", type=pathlib.Path, default=pathlib.Path("peal-plot.svg"), help="default: peal-plot.svg")
    options = parser.parse_args()
    if options.out.suffix not in FORMATS:
        parser.error(f"--out {options.out}: its name must end with one of {', '.join(FORMATS)}")
    try:
        draw([row for path in options.files for row in read(path)], options.out)
    except Refused as error:
        sys.exit(f"peal-plot: {error}")
    print(options.out)


if __name__ == "__main__":
    main()
