// SPDX-License-Identifier: Apache-2.0
#include "tests/support/nvshmem_job.h"

int main(int argc, char** argv) { return peal::compat_test::run_tests(argc, argv); }
