#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the traces of a job's PEs (PEAL_RECORD_FILE) into one, which ui.perfetto.dev and chrome://tracing open.

  peal-trace FILE... > all.json

One process for each PE, one track for each lane that called, arrows from a signal to the wait that it ended. An arrow
is drawn where it is certain: the value that the wait saw was written by one recorded signal alone, or one lane alone
added to the word and its sum was that value after one recorded signal. PEs of a host whose kernels run on CPUs have one
clock. Other clocks are set by sync_all and barrier_all: those that two PEs have both ended are taken to have ended at
the same time. stderr says how far the PEs' barriers are apart then.
"""
import argparse
import collections
import json
import os
import statistics
import sys

BARRIERS = ("sync_all", "barrier_all")


class Refused(Exception):
    """A sentence for whoever called."""


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Refused(f"{path}: no trace: {error}") from error
    about = trace.get("peal") if isinstance(trace, dict) else None
    if not isinstance(about, dict) or not {"version", "pe", "pes", "clock"} <= about.keys() or "traceEvents" not in trace:
        raise Refused(f"{path}: no trace of a PE; give files that PEAL_RECORD_FILE names")
    if about["version"] != 1:
        raise Refused(f"{path}: version {about['version']} of the format; this peal-trace reads version 1")
    return trace


def load_all(paths):
    by_pe = {}
    for path in paths:
        trace = load(path)
        pe = trace["peal"]["pe"]
        if pe in by_pe:
            raise Refused(f"{path}: PE {pe} again; give one file of each PE, of one job")
        if by_pe and trace["peal"]["pes"] != next(iter(by_pe.values()))["peal"]["pes"]:
            raise Refused(f"{path}: of a job of {trace['peal']['pes']} PEs, the others are not; give files of one job")
        by_pe[pe] = trace
    return [by_pe[pe] for pe in sorted(by_pe)]


def calls_of(trace):
    return [event for event in trace["traceEvents"] if event["ph"] in "XB"]


def end_of(call):
    """When the call ended, or None."""
    return call["ts"] + call["dur"] if call["ph"] == "X" else None


def barrier_ends(trace):
    """(context, number) -> when it ended here."""
    return {(call["args"]["context"], call["args"]["number"]): end_of(call) for call in calls_of(trace)
            if call["name"] in BARRIERS and call["args"].get("status") == "ok" and "number" in call["args"]}


def align(traces, tell):
    """Moves the times of PEs with another clock than the first one's."""
    first = traces[0]
    ends = barrier_ends(first)
    for trace in traces[1:]:
        about = trace["peal"]
        if about["clock"] == first["peal"]["clock"]:
            continue
        own = barrier_ends(trace)
        apart = [ends[name] - own[name] for name in ends.keys() & own.keys()]
        if not apart:
            raise Refused(f"PE {about['pe']} and PE {first['peal']['pe']} have different clocks ({about['clock']}, "
                          f"{first['peal']['clock']}) and no sync_all or barrier_all that both have recorded: call one "
                          "near what you look for, or record more calls (PEAL_RECORD)")
        shift = statistics.median(apart)
        for call in calls_of(trace):
            call["ts"] += shift
        tell(f"PE {about['pe']}: its clock was set by {len(apart)} barriers, which then end up to "
             f"{max(abs(one - shift) for one in apart):.3f} us apart from PE {first['peal']['pe']}'s")


def signals_by_word(traces):
    """(PE, place of the word) -> signals to it, in the order in which they began."""
    found = collections.defaultdict(list)
    for trace in traces:
        for call in calls_of(trace):
            if "signal" in call["args"]:
                found[call["args"]["pe"], call["args"]["signal"]].append(call)
    for signals in found.values():
        signals.sort(key=lambda call: call["ts"])
    return found


def source_of(wait, signals, complete):
    """The signal that a wait saw, where one alone can be it. `complete`: all signals were recorded."""
    value = wait["args"]["saw"]
    signals = [one for one in signals if one["ts"] < end_of(wait)]
    if all(one["args"]["adds"] == 0 for one in signals):
        same = [one for one in signals if one["args"]["value"] == value]
        return same[0] if len(same) == 1 and complete else None
    lanes = {(one["pid"], one["tid"]) for one in signals}
    if len(lanes) != 1 or not complete or any(one["args"]["adds"] == 0 for one in signals):
        return None
    total = 0
    for one in signals:
        total += one["args"]["value"]
        if total == value:
            return one
    return None


def arrows(traces):
    complete = all(trace["peal"].get("overwritten") == 0 for trace in traces)
    complete = complete and len(traces) == traces[0]["peal"]["pes"]
    by_word = signals_by_word(traces)
    found = []
    for trace in traces:
        for call in calls_of(trace):
            args = call["args"]
            if call.get("name") != "signal_wait_until" or args.get("status") != "ok" or not {"at", "saw"} <= args.keys():
                continue
            source = source_of(call, by_word.get((trace["peal"]["pe"], args["at"]), []), complete)
            if source is None:
                continue
            arrow = {"name": "signal", "cat": "signal", "id": len(found) // 2 + 1}
            found.append({**arrow, "ph": "s", "pid": source["pid"], "tid": source["tid"], "ts": source["ts"]})
            found.append({**arrow, "ph": "f", "bp": "e", "pid": call["pid"], "tid": call["tid"], "ts": end_of(call)})
    return found


def merge(traces, tell):
    align(traces, tell)
    for trace in traces:
        about = trace["peal"]
        if about.get("overwritten"):
            tell(f"PE {about['pe']}: {about['overwritten']} calls had been overwritten; PEAL_RECORD keeps more")
    events = [event for trace in traces for event in trace["traceEvents"]]
    events.sort(key=lambda event: event.get("ts", -1))
    return {"displayTimeUnit": "ns", "peal": {"version": 1, "pes": traces[0]["peal"]["pes"]},
            "traceEvents": events + arrows(traces)}


def main():
    parser = argparse.ArgumentParser(prog="peal-trace", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="what a PE wrote")
    options = parser.parse_args()
    # None where it is closed, and print() takes that for standard output.
    complaints = sys.stderr or open(os.devnull, "w", encoding="utf-8")
    try:
        merged = merge(load_all(options.files), lambda line: print(f"peal-trace: {line}", file=complaints))
    except Refused as error:
        sys.exit(f"peal-trace: {error}")
    except (KeyError, TypeError) as error:
        sys.exit(f"peal-trace: a file is damaged: {error!r}; give files as the PEs wrote them")
    json.dump(merged, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
