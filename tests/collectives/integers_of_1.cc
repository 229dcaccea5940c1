// SPDX-License-Identifier: Apache-2.0
//
// See matrix.h.
#include "tests/collectives/matrix.h"

namespace peal::api_test {

const std::vector<MatrixType> kIntegersOf1 = {
    {"int8_t", run_matrix<int8_t>},
    {"uint8_t", run_matrix<uint8_t>},
};

}  // namespace peal::api_test
