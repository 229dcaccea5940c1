// SPDX-License-Identifier: Apache-2.0
//
// The comparison's cases on peal. Started by compare.py; alone:
//
//   mpirun -np 2 bazel-bin/perf/compare/peal_side --ops put_signal,barrier_all
#include <optional>

#include "perf/common/peal_side.h"
#include "perf/compare/comparison.h"

namespace peal::perf {
namespace {

class ComparedPeal : public PealSide {
 public:
  static constexpr const char* kName = "peal";

  /// One more context where there are queues: its one thread owns them.
  ComparedPeal() {
    if (transport() == "ibgda") owned_.emplace(runtime().make_context<Reach::kLane>({1}));
  }

  template <class Visit>
  void for_each_api(const Case&, const Visit& visit) {
    visit("nbi", PealApi<Reach::kGpu, Everything>{context()});
    if (owned_) visit("exclusive", PealApi<Reach::kLane, OneThread>{owned_->value()});
  }

 private:
  std::optional<OwnedContext<Reach::kLane>> owned_;
};

}  // namespace
}  // namespace peal::perf

int main(int argc, char** argv) {
  return peal::run_main([&] { return peal::perf::run_side<peal::perf::ComparedPeal>(argc, argv); });
}
