// SPDX-License-Identifier: Apache-2.0
//
// See matrix.h.
#include "tests/collectives/matrix.h"

namespace peal::api_test {

const std::vector<MatrixType> kFloatsOf2 = {
    {"Half", run_matrix<Half>},
    {"BFloat16", run_matrix<BFloat16>},
};

}  // namespace peal::api_test
