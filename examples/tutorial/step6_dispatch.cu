// SPDX-License-Identifier: Apache-2.0
//
// Tutorial, step 6: MoE dispatch. Each PE has tokens and one expert. A token goes to the PE of its
// expert (dispatch), is worked on there, and comes back (combine). Block b serves PE b: it begins
// as soon as the tokens of PE b are there, and waits for no other PE.
//
//   peal-run -n 4 bazel-bin/examples/tutorial/step6_dispatch        prints ok
//
//   PE p, block q                                   PE q, block p
//   tokens for q --put_signal--> inbox, dispatched  waits, works on the tokens from p
//   answers from q  <--put_signal-- answers, combined
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "peal/peal.h"

namespace {

constexpr int kTokens = 40;  // of each PE
constexpr int kWidth = 16;   // floats of a token

struct Token {
  float value[kWidth];
};

// All symmetric; lists have an entry for each PE.
struct Layer {
  Token* tokens;         // [kTokens], sorted by the PE of their expert
  Token* inbox;          // [n * kTokens], what this PE's expert works on
  Token* answers;        // [kTokens], as `tokens`
  int64_t* sent;         // tokens for it
  int64_t* sent_at;      // where they begin in `tokens`
  int64_t* received;     // tokens from it
  int64_t* received_at;  // where they begin in the inbox
  int64_t* there;        // where tokens for it begin in its inbox
  int64_t* home;         // where tokens from it begin in its `tokens`
  uint64_t* dispatched;  // signals: tokens from it are here
  uint64_t* combined;    // signals: answers from it are here
  peal::Status* status;
};

}  // namespace

// Step 5, and where the tokens come from, for the way back. One block.
PEAL_KERNEL make_plan(peal::Context ctx, peal::Team team, Layer layer) {
  using peal::block;
  using peal::Status;
  Status status = peal::all_to_all(ctx, block, team, layer.received, layer.sent, 1);
  if (block.leader() && status == Status::kOk) {
    int64_t sent = 0;
    int64_t received = 0;
    for (int pe = 0; pe < ctx.n_pes; ++pe) {
      layer.sent_at[pe] = sent;
      layer.received_at[pe] = received;
      sent += layer.sent[pe];
      received += layer.received[pe];
    }
  }
  block.sync();
  if (status == Status::kOk) {
    status = peal::all_to_all(ctx, block, team, layer.there, layer.received_at, 1);
  }
  if (status == Status::kOk) {
    status = peal::all_to_all(ctx, block, team, layer.home, layer.sent_at, 1);
  }
  if (block.leader()) *layer.status = status;
}

// As many blocks as PEs. The expert of PE p adds p + 1 to every value.
PEAL_KERNEL dispatch_and_combine(peal::Context ctx, Layer layer) {
  using peal::block;
  using peal::Compare;
  using peal::Signal;
  using peal::Status;
  const int pe = static_cast<int>(blockIdx.x);

  Status status = peal::put_signal(
      ctx, block, layer.inbox + layer.there[pe], layer.tokens + layer.sent_at[pe],
      static_cast<size_t>(layer.sent[pe]), Signal::set(layer.dispatched + ctx.pe, 1, pe));
  if (status == Status::kOk) {
    status = peal::signal_wait_until(ctx, block, layer.dispatched + pe, Compare::kGe, 1).status;
  }
  if (status == Status::kOk) {
    Token* const work = layer.inbox + layer.received_at[pe];
    for (int64_t i = threadIdx.x; i < layer.received[pe] * kWidth; i += blockDim.x) {
      work[i / kWidth].value[i % kWidth] += static_cast<float>(ctx.pe + 1);
    }
    // The call waits for all threads of the block first: all values are written.
    status = peal::put_signal(ctx, block, layer.answers + layer.home[pe], work,
                              static_cast<size_t>(layer.received[pe]),
                              Signal::set(layer.combined + ctx.pe, 1, pe));
  }
  if (status == Status::kOk) {
    status = peal::signal_wait_until(ctx, block, layer.combined + pe, Compare::kGe, 1).status;
  }
  if (block.leader()) layer.status[1 + pe] = status;
}

namespace {

Layer allocate(peal::Runtime& pe) {
  const auto n = static_cast<size_t>(pe.n_pes());
  return {.tokens = pe.allocate<Token>(kTokens),
          .inbox = pe.allocate<Token>(n * kTokens),
          .answers = pe.allocate<Token>(kTokens),
          .sent = pe.allocate<int64_t>(n),
          .sent_at = pe.allocate<int64_t>(n),
          .received = pe.allocate<int64_t>(n),
          .received_at = pe.allocate<int64_t>(n),
          .there = pe.allocate<int64_t>(n),
          .home = pe.allocate<int64_t>(n),
          .dispatched = pe.allocate<uint64_t>(n),
          .combined = pe.allocate<uint64_t>(n),
          .status = pe.allocate<peal::Status>(1 + n)};
}

void check_statuses(peal::Runtime& pe, const Layer& layer) {
  pe.check();
  std::vector<peal::Status> ended(1 + static_cast<size_t>(pe.n_pes()));
  pe.copy_out(ended.data(), layer.status, ended.size() * sizeof(peal::Status));
  for (const peal::Status status : ended) {
    if (status != peal::Status::kOk) throw std::runtime_error(to_string(status));
  }
}

}  // namespace

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const int n = pe.n_pes();
    const Layer layer = allocate(pe);

    // The router: token i of PE p is for the expert of PE (i * i + p) % n.
    std::vector<int64_t> sent(static_cast<size_t>(n));
    std::vector<Token> mine;
    std::vector<int> expert;
    for (int to = 0; to < n; ++to) {
      for (int i = 0; i < kTokens; ++i) {
        if ((i * i + pe.my_pe()) % n != to) continue;
        Token token{};
        for (int k = 0; k < kWidth; ++k) {
          token.value[k] = static_cast<float>(1000 * pe.my_pe() + 10 * i + k);
        }
        ++sent[static_cast<size_t>(to)];
        mine.push_back(token);
        expert.push_back(to);
      }
    }
    pe.copy_in(layer.tokens, mine.data(), kTokens * sizeof(Token));
    pe.copy_in(layer.sent, sent.data(), sent.size() * sizeof(int64_t));

    peal::launch({.threads = 64}, make_plan, pe.context(), pe.world(), layer).wait();
    const peal::Grid grid{.blocks = static_cast<uint32_t>(n), .threads = 64};
    peal::launch(grid, dispatch_and_combine, pe.context(), layer).wait();
    check_statuses(pe, layer);

    std::vector<Token> answers(kTokens);
    pe.copy_out(answers.data(), layer.answers, kTokens * sizeof(Token));
    for (size_t i = 0; i < answers.size(); ++i) {
      for (int k = 0; k < kWidth; ++k) {
        const float wanted = mine[i].value[k] + static_cast<float>(expert[i] + 1);
        if (answers[i].value[k] != wanted) throw std::runtime_error("wrong answer");
      }
    }
    pe.barrier();
    if (pe.my_pe() == 0) std::printf("ok\n");
    return 0;
  });
}
