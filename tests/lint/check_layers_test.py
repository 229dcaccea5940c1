#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Planted violations: a checker that cannot fail checks nothing."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from check_layers import violations  # noqa: E402


class Layers(unittest.TestCase):
    def found(self, path, *includes):
        return list(violations(path, "".join(f"#include {i}\n" for i in includes)))

    def test_the_software_nic_may_see_the_wire_layout_only(self):
        self.assertFalse(self.found("softnic/engine/engine.h", '"device/mlx5/layout.h"', '"device/base/endian.h"'))
        self.assertTrue(self.found("softnic/engine/engine.h", '"device/mlx5/wqe.h"'))
        self.assertTrue(self.found("softnic/engine/engine.h", '"device/mlx5/nic.h"'))

    def test_the_preload_knows_the_presentation_and_no_abi(self):
        self.assertFalse(self.found("softnic/sysfs/tree.h", '"softnic/presentation/present.h"'))
        self.assertTrue(self.found("softnic/sysfs/tree.cc", '"softnic/abi/context.h"'))
        self.assertTrue(self.found("softnic/nic.cc", '"softnic/sysfs/tree.h"'))

    def test_the_core_of_the_libraries_knows_no_extras(self):
        self.assertTrue(self.found("softnic/abi/core/context.cc", '"softnic/abi/extras/extras.h"'))
        self.assertTrue(self.found("softnic/abi/core/context.cc", '"softnic/abi/open.h"'))
        self.assertFalse(self.found("softnic/abi/extras/verbs_wr.cc", '"softnic/abi/core/compose.h"'))
        self.assertFalse(self.found("softnic/abi/open.cc", '"softnic/abi/extras/extras.h"'))

    def test_the_host_never_includes_bootstrap_or_the_software_nic(self):
        self.assertTrue(self.found("host/runtime/runtime.cc", '"bootstrap/bootstraps.h"'))
        self.assertTrue(self.found("host/nic/verbs.cc", '"softnic/nic.h"'))

    def test_one_folder_of_the_host_knows_the_interface_of_a_model(self):
        self.assertTrue(self.found("host/nic/device.cc", "<infiniband/mlx5dv.h>"))
        self.assertTrue(self.found("doctor/probe.cc", "<infiniband/mlx5dv.h>"))
        self.assertFalse(self.found("host/nic/mlx5/calls.h", "<infiniband/mlx5dv.h>"))
        self.assertFalse(self.found("host/nic/device.cc", "<infiniband/verbs.h>"))

    def test_device_code_points_down(self):
        self.assertTrue(self.found("device/mlx5/wqe.h", '"device/context.h"'))
        self.assertTrue(self.found("device/base/order.h", '"device/mlx5/layout.h"'))
        self.assertTrue(self.found("device/rma.h", '"host/runtime.h"'))
        self.assertFalse(self.found("device/rma.h", '"device/transport/model.h"', '"device/detail/transfer.h"'))
        self.assertTrue(self.found("device/detail/transfer.h", '"device/rma.h"'))
        self.assertFalse(self.found("device/detail/transfer.h", '"device/context.h"', '"device/types.h"'))

    def test_only_device_base_sees_simt(self):
        self.assertTrue(self.found("device/rma.h", '"simt/lanes/lane.h"'))
        self.assertFalse(self.found("device/base/scope.h", '"simt/lanes/lane.h"'))

    def test_lanes_know_neither_the_simulation_nor_the_cuda_runtime(self):
        self.assertTrue(self.found("simt/lanes/block.cc", '"simt/simulation/memory.h"'))
        self.assertTrue(self.found("simt/lanes/launch.cc", '"simt/runtime/stream.h"'))
        self.assertTrue(self.found("simt/simulation/simulation.cc", '"simt/runtime/state.h"'))
        self.assertTrue(self.found("simt/runtime/state.cc", '"simt/cc/tokens.h"'))
        self.assertFalse(self.found("simt/runtime/stream.cc", '"simt/lanes/launch.h"', '"simt/simulation/simulated_process.h"'))
        self.assertFalse(self.found("simt/simulation/program/program.cc", '"simt/simulation/simulation.h"'))

    def test_no_file_lies_beside_the_folders_of_simt(self):
        self.assertTrue(self.found("simt/party.cc", '"simt/lanes/block.h"'))
        self.assertTrue(self.found("simt/simulation/simulation.cc", '"simt/simulated_process.h"'))

    def test_host_code_sees_no_lanes(self):
        self.assertTrue(self.found("host/runtime/runtime.cc", '"device/base/scope.h"'))

    def test_foreign_headers_stay_at_home(self):
        self.assertTrue(self.found("host/runtime/runtime.cc", "<mpi.h>"))
        self.assertFalse(self.found("bootstrap/mpi.cc", "<mpi.h>"))
        self.assertTrue(self.found("host/runtime.h", "<infiniband/verbs.h>"))
        self.assertTrue(self.found("device/rma.h", "<boost/context/fiber.hpp>"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
