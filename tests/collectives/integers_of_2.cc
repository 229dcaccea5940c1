// SPDX-License-Identifier: Apache-2.0
//
// See matrix.h.
#include "tests/collectives/matrix.h"

namespace peal::api_test {

const std::vector<MatrixType> kIntegersOf2 = {
    {"int16_t", run_matrix<int16_t>},
    {"uint16_t", run_matrix<uint16_t>},
};

}  // namespace peal::api_test
