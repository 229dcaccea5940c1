// SPDX-License-Identifier: Apache-2.0
//
// See matrix.h.
#include "tests/collectives/matrix.h"

namespace peal::api_test {

const std::vector<MatrixType> kIntegersOf8 = {
    {"int64_t", run_matrix<int64_t>},
    {"uint64_t", run_matrix<uint64_t>},
};

}  // namespace peal::api_test
