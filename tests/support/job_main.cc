// SPDX-License-Identifier: Apache-2.0
#include "tests/support/job.h"

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
