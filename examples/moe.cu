// SPDX-License-Identifier: Apache-2.0
//
// MoE: a mixture of experts. Each PE has tokens and one expert; a token goes to the PE of the
// expert that its router chose (dispatch), is worked on there, and comes back (combine).
//
//   mpirun -np 4 bazel-bin/examples/moe        prints ok
//
//   counts: all_to_all -> displacements -> dispatch: all_to_all_v -> expert -> combine:
//   all_to_all_v
//
// One kernel by one block does all of it: no host looks at a count in between. The lists of what is
// received are symmetric, since each sender looks up there where its tokens go.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "peal/peal.h"

namespace {

constexpr int kTokens = 50;  // of each PE
constexpr int kWidth = 16;   // floats of a token

struct Token {
  float value[kWidth];
};

// Symmetric objects; n is the number of PEs.
struct Layer {
  Token* tokens;   // [kTokens], sorted by the PE of their expert
  Token* inbox;    // [n * kTokens], what this PE's expert works on
  Token* answers;  // [kTokens], as `tokens`
  int64_t* lists;  // [4 * n]: see Lists
  peal::Status* status;
};

// What goes to each PE, and what comes from each: how many tokens, and from where on.
struct Lists {
  int64_t* sent;
  int64_t* sent_at;
  int64_t* received;
  int64_t* received_at;
};
PEAL_HD Lists lists_of(int64_t* memory, int n) {
  return {memory, memory + n, memory + 2 * n, memory + 3 * n};
}

}  // namespace

// The expert of PE p adds p + 1 to every value.
PEAL_KERNEL moe_layer(peal::Context ctx, peal::Team team, Layer layer) {
  using peal::block;
  using peal::Status;
  const int n = peal::n_pes(team);
  const Lists lists = lists_of(layer.lists, n);
  Status status = peal::all_to_all(ctx, block, team, lists.received, lists.sent, 1);
  if (block.leader()) {
    int64_t sent = 0;
    int64_t received = 0;
    for (int pe = 0; pe < n; ++pe) {
      lists.sent_at[pe] = sent;
      lists.received_at[pe] = received;
      sent += lists.sent[pe];
      received += lists.received[pe];
    }
  }
  // The lists are read by others: all must have made theirs.
  if (status == Status::kOk) status = peal::barrier(ctx, block, team);
  const peal::Blocks<int64_t> to_experts{lists.sent, lists.sent_at};
  const peal::Blocks<int64_t> from_pes{lists.received, lists.received_at};
  if (status == Status::kOk) {
    status = peal::all_to_all_v(ctx, block, team, layer.inbox, from_pes, layer.tokens, to_experts);
  }
  if (status == Status::kOk) {
    const int64_t count = lists.received[n - 1] + lists.received_at[n - 1];
    for (int64_t i = threadIdx.x; i < count * kWidth; i += blockDim.x) {
      layer.inbox[i / kWidth].value[i % kWidth] += static_cast<float>(ctx.pe + 1);
    }
    __syncthreads();
    status = peal::all_to_all_v(ctx, block, team, layer.answers, to_experts, layer.inbox, from_pes);
  }
  if (block.leader()) *layer.status = status;
}

int main() {
  return peal::run_main([] {
    peal::Runtime pe = peal::start();
    const int n = pe.n_pes();
    const auto tokens = static_cast<size_t>(kTokens);
    const Layer layer{.tokens = pe.allocate<Token>(tokens),
                      .inbox = pe.allocate<Token>(static_cast<size_t>(n) * tokens),
                      .answers = pe.allocate<Token>(tokens),
                      .lists = pe.allocate<int64_t>(4 * static_cast<size_t>(n)),
                      .status = pe.allocate<peal::Status>(1)};

    // Token i of PE p is for the expert of PE (i * i + p) % n.
    std::vector<int64_t> sent(static_cast<size_t>(n));
    std::vector<Token> mine;
    std::vector<int> expert;
    for (int to = 0; to < n; ++to) {
      for (int i = 0; i < kTokens; ++i) {
        if ((i * i + pe.my_pe()) % n != to) continue;
        ++sent[static_cast<size_t>(to)];
        Token token{};
        for (int k = 0; k < kWidth; ++k) {
          token.value[k] = static_cast<float>(1000 * pe.my_pe() + 10 * i + k);
        }
        mine.push_back(token);
        expert.push_back(to);
      }
    }
    pe.copy_in(layer.tokens, mine.data(), tokens * sizeof(Token));
    pe.copy_in(layer.lists, sent.data(), sent.size() * sizeof(int64_t));

    peal::launch({.blocks = 1, .threads = 128}, moe_layer, pe.context(), pe.world(), layer).wait();

    peal::Status status{};
    pe.copy_out(&status, layer.status, sizeof status);
    pe.check();
    if (status != peal::Status::kOk) throw std::runtime_error(to_string(status));
    std::vector<Token> answers(tokens);
    pe.copy_out(answers.data(), layer.answers, tokens * sizeof(Token));
    for (size_t i = 0; i < tokens; ++i) {
      for (size_t k = 0; k < static_cast<size_t>(kWidth); ++k) {
        const float wanted = mine[i].value[k] + static_cast<float>(expert[i] + 1);
        if (answers[i].value[k] != wanted) throw std::runtime_error("moe: an answer is wrong");
      }
    }
    pe.barrier();
    if (pe.my_pe() == 0) std::printf("ok\n");
    return 0;
  });
}
