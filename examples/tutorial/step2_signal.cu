// SPDX-License-Identifier: Apache-2.0
//
// Tutorial, step 2: signals. Every PE sends eight messages to the next PE and tells it of each; the
// receiver works on a message as soon as it is there. No PE waits for all others.
//
//   peal-run -n 2 bazel-bin/examples/tutorial/step2_signal        prints ok
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include "peal/peal.h"

namespace {

constexpr uint64_t kMessages = 8;
constexpr size_t kLength = 32;  // doubles of a message

struct Mail {
  double* inbox;     // [kMessages][kLength], symmetric
  double* outbox;    // the same
  uint64_t* signal;  // how many messages have arrived, symmetric
  double* sum;       // of all that was received
  peal::Status* status;
};

}  // namespace

PEAL_KERNEL send_and_receive(peal::Context ctx, Mail mail) {
  using peal::Status;
  const int next = (ctx.pe + 1) % ctx.n_pes;
  Status status = Status::kOk;
  for (uint64_t m = 0; m < kMessages && status == Status::kOk; ++m) {
    double* message = mail.outbox + m * kLength;
    for (size_t i = 0; i < kLength; ++i) message[i] = ctx.pe + 1;
    // The signal is set behind the data: who sees m + 1 sees message m.
    const auto arrived = peal::Signal::set(mail.signal, m + 1, next);
    status = peal::put_signal(ctx, mail.inbox + m * kLength, message, kLength, arrived);
  }
  for (uint64_t m = 0; m < kMessages && status == Status::kOk; ++m) {
    status = peal::signal_wait_until(ctx, mail.signal, peal::Compare::kGe, m + 1).status;
    if (status != Status::kOk) break;
    for (size_t i = 0; i < kLength; ++i) *mail.sum += mail.inbox[m * kLength + i];
  }
  *mail.status = status;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const Mail mail{.inbox = pe.allocate<double>(kMessages * kLength),
                    .outbox = pe.allocate<double>(kMessages * kLength),
                    .signal = pe.allocate<uint64_t>(1),
                    .sum = pe.allocate<double>(1),
                    .status = pe.allocate<peal::Status>(1)};
    peal::launch({}, send_and_receive, pe.context(), mail).wait();
    pe.check();

    peal::Status ended{};
    double sum = 0;
    pe.copy_out(&ended, mail.status, sizeof ended);
    pe.copy_out(&sum, mail.sum, sizeof sum);
    if (ended != peal::Status::kOk) throw std::runtime_error(to_string(ended));
    const int before = (pe.my_pe() + pe.n_pes() - 1) % pe.n_pes();
    const double wanted = static_cast<double>(kMessages * kLength) * (before + 1);
    if (sum != wanted) throw std::runtime_error("wrong sum");
    pe.barrier();
    if (pe.my_pe() == 0) std::printf("ok\n");
    return 0;
  });
}
