#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what perf/compare/compare.py measured, as SVG, with matplotlib.

    perf/plot.py perf/results/NAME.jsonl perf/results     writes NAME_bandwidth.svg, NAME_ratio.svg, NAME_latency.svg
"""
import pathlib
import sys

import matplotlib

sys.path.insert(0, str(pathlib.Path(__file__).parent / "compare"))
import bars  # noqa: E402

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

COLORS = {"peal": "#0072b2", "nvshmem": "#d55e00", "raw": "#777777"}
NAMES = {"peal": "peal", "nvshmem": "NVSHMEM", "raw": "plain kernel"}
STYLE = {"svg.hashsalt": "peal", "svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.color": "#e4e4e4",
         "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True}
SHAPES = (("block", 1), ("block", 32))
LATENCIES = ("put_quiet", "p_quiet", "inc_quiet", "fetch_add", "put_signal", "barrier_all")


def lines_of(table, op, scope, blocks):
    return [line for line in table if (line["op"], line["scope"], line["blocks"]) == (op, scope, blocks)]


def size_axis(axes):
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda count, _position: bars.size_text(int(count)))
    axes.set_xlabel("bytes of a message")


def caption(figure, result):
    gpus = result["machine"]["gpus"]
    name = f"{len(gpus)} x {gpus[0]['name']}, driver {gpus[0]['driver_version']}" if gpus else result["machine"]["cpu"]
    figure.text(0.01, 0.005, f"{name}, {result['nvshmem'] or 'no NVSHMEM'}, {result['date']}", color="#666666", fontsize=7)


def draw_bandwidth(result):
    figure, grid = plt.subplots(2, 2, figsize=(9, 6.4), sharex=True, sharey=True)
    for row, op in zip(grid, ("put", "get")):
        for axes, (scope, blocks) in zip(row, SHAPES):
            lines = lines_of(result["table"], op, scope, blocks)
            for side in ("raw", "nvshmem", "peal"):
                points = [(line["bytes"], line[side]) for line in lines if line.get(side)]
                if points:
                    axes.plot(*zip(*points), color=COLORS[side], label=NAMES[side], marker=".",
                              linestyle="--" if side == "raw" else "-")
            axes.set_title(f"{op}, {blocks} block{'s' if blocks > 1 else ''} x 1024 threads")
            axes.set_yscale("log")
            size_axis(axes)
            axes.label_outer()
        row[0].set_ylabel("GB/s")
    grid[0][0].legend(frameon=False)
    return figure


def draw_ratio(result):
    figure, row = plt.subplots(1, 2, figsize=(9, 3.8))
    for axes, op in zip(row, ("put", "get")):
        for (scope, blocks), mark in zip(SHAPES, ("o", "s")):
            lines = [line for line in lines_of(result["table"], op, scope, blocks) if line.get("nvshmem_ratio")]
            if lines:
                axes.plot([line["bytes"] for line in lines], [line["nvshmem_ratio"] for line in lines], marker=mark,
                          markersize=3, color=COLORS["peal"], alpha=1.0 if blocks > 1 else 0.5,
                          label=f"{blocks} block{'s' if blocks > 1 else ''}")
            # What no kernel can exceed: without it a bar above the link looks like a failure of the code.
            plain = [(line["bytes"], line["raw"] / line["nvshmem"]) for line in lines if line.get("raw")]
            if plain:
                axes.plot(*zip(*plain), color=COLORS["raw"], alpha=1.0 if blocks > 1 else 0.5, linestyle="--", linewidth=1,
                          label=f"plain kernel, {blocks} block{'s' if blocks > 1 else ''}")
        limits = [(line["bytes"], float(line["nvshmem_bar"][2:])) for line in lines_of(result["table"], op, "block", 32)
                  if line["nvshmem_bar"]]
        if limits:
            axes.step(*zip(*limits), where="post", color="#333333", linewidth=1, linestyle=":", label="bar")
        axes.set_title(f"{op}: peal's bandwidth over NVSHMEM's")
        axes.set_ylim(bottom=0)
        size_axis(axes)
        axes.legend(frameon=False)
    return figure


def draw_latency(result):
    lines = [line for line in result["table"] if line["op"] in LATENCIES]
    sides = ("peal", "nvshmem", "raw")
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.42 * max(len(lines), 1)))
    height = 0.26
    for k, side in enumerate(sides):
        points = [(i, line[side]) for i, line in enumerate(lines) if line.get(side)]
        axes.barh([i + (k - 1) * height for i, _ in points], [value for _, value in points], height, color=COLORS[side],
                  label=NAMES[side])
    axes.set_yticks(range(len(lines)), [latency_name(line) for line in lines])
    axes.invert_yaxis()
    axes.set_xlabel("microseconds, less is better")
    axes.grid(axis="y", visible=False)
    axes.legend(frameon=False)
    return figure


def latency_name(line):
    what = bars.size_text(line["bytes"]) if line["bytes"] else f"{line['scope']}, {line['pes']} PEs"
    return f"{line['op']} {what}"


def main(source, folder):
    about, rows, _programs = bars.read(pathlib.Path(source))
    result = about | {"table": bars.compare(rows)}
    folder = pathlib.Path(folder)
    with plt.rc_context(STYLE):
        for name, draw in (("bandwidth", draw_bandwidth), ("ratio", draw_ratio), ("latency", draw_latency)):
            figure = draw(result)
            caption(figure, result)
            figure.tight_layout(rect=(0, 0.02, 1, 1))
            path = folder / f"{pathlib.Path(source).stem}_{name}.svg"
            figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
            plt.close(figure)
            print(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
