// SPDX-License-Identifier: Apache-2.0
//
// See matrix.h.
#include "tests/collectives/matrix.h"

namespace peal::api_test {

const std::vector<MatrixType> kIntegersOf4 = {
    {"int32_t", run_matrix<int32_t>},
    {"uint32_t", run_matrix<uint32_t>},
};

}  // namespace peal::api_test
