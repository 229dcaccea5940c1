#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf/compare's table from canned rows: the right rows beside one another, and bars that can be missed."""
import pathlib
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "perf/compare"))
import bars  # noqa: E402
import compare  # noqa: E402


def row(side, op, value, **other):
    name = {"put": "gbps", "get": "gbps", "add": "mops", "add_same": "mops"}.get(op, "usec")
    return {"side": side, "variant": "", "op": op, "scope": "block", "bytes": 8, "blocks": 1, "threads": 1024, "pes": 2,
            "usec": 1.0, "errors": 0, name: value} | other


def only(*rows):
    [line] = bars.compare(rows)
    return line


class Table(unittest.TestCase):
    def verdict(self, op, mine, theirs, **other):
        return only(row("peal", op, mine, **other), row("nvshmem", op, theirs, **other))["verdict"]

    def test_the_best_variant_of_the_other_side_counts(self):
        rows = [row("peal", "put", 100), row("nvshmem", "put", 90, variant="untyped"),
                row("nvshmem", "put", 120, variant="typed")]
        line = only(*rows)
        self.assertEqual((line["nvshmem"], line["nvshmem_variant"], line["verdict"]), (120, "typed", "MISSED"))

    def test_less_time_is_better(self):
        self.assertEqual(only(row("peal", "fetch_add", 1), row("nvshmem", "fetch_add", 3), row("nvshmem", "fetch_add", 2))[
            "nvshmem_ratio"], 0.5)

    def test_put_is_never_below_and_ahead_from_64_kib(self):
        self.assertEqual(self.verdict("put", 1.0, 1.0), "ok")
        self.assertEqual(self.verdict("put", 0.98, 1.0), "MISSED")
        self.assertEqual(self.verdict("put", 1.29, 1.0, bytes=32 << 10), "ok")
        self.assertEqual(self.verdict("put", 1.29, 1.0, bytes=64 << 10), "MISSED")
        self.assertEqual(self.verdict("put", 1.3, 1.0, bytes=64 << 10), "ok")

    def test_get_is_twice_as_fast_from_64_kib(self):
        self.assertEqual(self.verdict("get", 1.9, 1.0, bytes=64 << 10), "MISSED")
        self.assertEqual(self.verdict("get", 2.0, 1.0, bytes=1 << 20), "ok")

    def test_large_messages_of_32_blocks_stand_beside_the_plain_copy(self):
        def with_raw(mine, **other):
            shape = {"bytes": 16 << 20, "blocks": 32} | other
            return only(*(row(side, "put", value, **shape) for side, value in
                          (("peal", mine), ("nvshmem", 1.0), ("raw", 100.0))))["verdict"]
        self.assertEqual(with_raw(97.0), "ok")
        self.assertEqual(with_raw(96.0), "MISSED")
        self.assertEqual(with_raw(50.0, bytes=8 << 20), "ok")
        self.assertEqual(with_raw(50.0, blocks=1), "ok")

    def test_latencies_have_their_bars(self):
        for op, bar in (("put_quiet", 0.9), ("p_quiet", 0.9), ("fetch_add", 1.0), ("inc_quiet", 1.0), ("put_signal", 0.75),
                        ("barrier_all", 0.6), ("start_up", 0.5), ("compile", 0.25)):
            self.assertEqual(self.verdict(op, bar, 1.0), "ok", op)
            self.assertEqual(self.verdict(op, bar + 0.02, 1.0), "MISSED", op)

    def test_atomic_rates_are_never_worse(self):
        self.assertEqual(self.verdict("add", 10, 10), "ok")
        self.assertEqual(self.verdict("add_same", 9, 10), "MISSED")

    def test_one_missed_bar_of_two_is_a_missed_bar(self):
        shape = {"bytes": 64 << 20, "blocks": 32}
        line = only(row("peal", "get", 100, **shape), row("nvshmem", "get", 40, **shape), row("raw", "get", 200, **shape))
        self.assertEqual(line["verdict"], "MISSED")

    def test_a_side_that_is_missing_is_no_success(self):
        self.assertEqual(only(row("peal", "put", 1))["verdict"], "not measured")
        shape = {"bytes": 64 << 20, "blocks": 32}
        self.assertEqual(only(row("peal", "get", 9, **shape), row("nvshmem", "get", 1, **shape))["verdict"], "not measured")

    def test_wrong_data_on_any_side_is_no_success(self):
        self.assertEqual(only(row("peal", "put", 9), row("nvshmem", "put", 1, errors=1))["verdict"], "ERRORS")

    def test_other_shapes_do_not_mix(self):
        lines = bars.compare([row("peal", "put", 9), row("nvshmem", "put", 1, blocks=32), row("nvshmem", "put", 1, pes=4)])
        self.assertEqual([line["verdict"] for line in lines], ["not measured"])

    def test_the_ping_pong_of_plain_stores_stands_beside_put_signal(self):
        rows = [row("peal", "put_signal", 3.0), row("nvshmem", "put_signal", 6.0), row("raw", "put_signal", 2.5),
                row("raw", "ping_pong", 1.5)]
        [floor] = [line for line in bars.compare(rows) if line["op"] == "ping_pong"]
        self.assertEqual((floor["raw_ratio"], floor["verdict"]), (2.0, "-"))
        self.assertEqual([line["raw_ratio"] for line in bars.compare(rows) if line["op"] == "put_signal"], [1.2])

    def test_over_the_nic_figures_have_bars(self):
        for op, figure, verdict in (("ibgda_put_quiet", 5.5, "ok"), ("ibgda_put_quiet", 5.6, "MISSED")):
            self.assertEqual(only(row("peal", op, figure))["verdict"], verdict)
        for op, bar in (("ibgda_rate", 400), ("ibgda_rate_rung_one_by_one", 60)):
            rates = [row("peal", op, 0, blocks=0, variant=variant) | {"mops": rate}
                     for variant, rate in (("few", bar / 2), ("many", bar))]
            for one in rates:
                del one["usec"]
            self.assertEqual((only(*rates)["verdict"], only(*rates)["peal_variant"]), ("ok", "many"))
            self.assertEqual(only(rates[0])["verdict"], "MISSED")

    def test_the_file_keeps_what_the_table_is_made_of(self):
        rows = [row("peal", "put", 100, iters=7), row("nvshmem", "put", 90, variant="untyped"),
                row("nvshmem", "put", 120, variant="typed"), row("raw", "put", 130, errors=2), row("peal", "fetch_add", 1.5)]
        programs = [{"benchmark": "latency", "op": "put", "usec": 2.0}]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "new" / "rows.jsonl"
            bars.write(path, {"date": "today"}, rows, programs)
            self.assertEqual(len(path.read_text().splitlines()), 4)
            about, best, others = bars.read(path)
        self.assertEqual((about, others), ({"date": "today"}, programs))
        self.assertEqual(bars.compare(best), bars.compare(rows))

    def test_warps_have_no_bar(self):
        self.assertEqual(self.verdict("put", 0.1, 1.0, scope="warp"), "-")

    def test_the_text_shows_sizes_ratios_and_verdicts(self):
        shape = {"bytes": 64 << 10}
        text = bars.render(bars.compare([row("peal", "put", 21.04, **shape), row("nvshmem", "put", 10.0, **shape)]))
        self.assertIn("put block 1 x 1024 2 PEs", text)
        self.assertRegex(text, r"64 KiB +GB/s +21 +10 +2\.10 +>=1\.3 +ok")
        self.assertEqual(bars.size_text(1536), "1536 B")
        self.assertEqual(bars.summary([{"verdict": "ok"}, {"verdict": "ok"}, {"verdict": "MISSED"}]), "2 ok, 1 MISSED")


class Programs(unittest.TestCase):
    def test_what_hangs_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            pid = pathlib.Path(folder) / "pid"
            begin = time.monotonic()
            with self.assertRaisesRegex(compare.Failed, "was stopped after 0.5 s"):
                compare.output_of(["sh", "-c", f"sleep 60 & echo $! >{pid}; wait"], 0.5)
            self.assertLess(time.monotonic() - begin, 20)
            deadline = time.monotonic() + 10
            while self.runs(pid.read_text().strip()):
                self.assertLess(time.monotonic(), deadline, "its child still runs")

    @staticmethod
    def runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def test_a_request_to_stop_ends_what_runs(self):
        with self.assertRaisesRegex(compare.Failed, "ended with -15"):
            alarm = threading.Timer(0.3, compare.Stop.on_signal, (15, None))
            alarm.start()
            compare.output_of(["sleep", "60"], 50)
        self.assertTrue(compare.Stop.asked)
        compare.Stop.asked = False

    def test_what_fails_says_so_and_keeps_its_rows(self):
        with self.assertRaisesRegex(compare.Failed, "ended with 3") as failure:
            compare.output_of(["sh", "-c", 'echo \'{"op": "put"}\'; echo why >&2; exit 3'], 10)
        self.assertIn("why", failure.exception.args[0])
        self.assertEqual(compare.rows_in(failure.exception.args[1]), [{"op": "put"}])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
