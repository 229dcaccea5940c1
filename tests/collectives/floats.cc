// SPDX-License-Identifier: Apache-2.0
//
// See matrix.h.
#include "tests/collectives/matrix.h"

namespace peal::api_test {

const std::vector<MatrixType> kFloats = {
    {"float", run_matrix<float>},
    {"double", run_matrix<double>},
};

}  // namespace peal::api_test
