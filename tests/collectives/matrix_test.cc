// SPDX-License-Identifier: Apache-2.0
//
// Every collective call x type x operation x scope x shape of team, in place and not, in jobs of 1
// to 8 PEs (threads of this process), against a serial reference. By NICs, and with
// --transport=p2p over mapped memory.
#include "tests/collectives/matrix.h"

namespace peal::api_test {
namespace {

/// Teams of small workspaces: few elements are long.
constexpr TeamOptions kTiny{.contexts = 1, .blocks = 2, .workspace = 512, .grid_workspace = 0};

struct Shape {
  const char* name;
  Team team;
};

std::vector<Shape> shapes_of(Runtime& pe) {
  const Team world = pe.world();
  const int n = pe.n_pes();
  const auto [row, column] = pe.split_team_2d(world, 2, kTiny);
  return {{"world", pe.split_team(world, 0, 0, kTiny)},
          {"strided", pe.split_team_strided(world, n - 1, -2, (n + 1) / 2, kTiny)},
          {"by color", pe.split_team(world, pe.my_pe() % 3 == 0 ? 1 : 0, -pe.my_pe(), kTiny)},
          {"row", row},
          {"column", column},
          {"single", pe.split_team(world, pe.my_pe(), 0, kTiny)}};
}

void play(Runtime& pe) {
  void* const room = pe.malloc(kMatrixRoom);
  auto turn = static_cast<uint32_t>(pe.n_pes());
  for (const Shape& shape : shapes_of(pe)) {
    turn += 100;  // alike at all PEs
    if (shape.team.rank < 0) continue;
    uint32_t first_size = turn;
    for (const auto* types :
         {&kIntegersOf1, &kIntegersOf2, &kIntegersOf4, &kIntegersOf8, &kFloatsOf2, &kFloats}) {
      for (const MatrixType& type : *types) {
        const std::string wrong = type.run(pe, shape.team, ++first_size, room);
        ASSERT_EQ(wrong, "") << type.name << ", team " << shape.name;
      }
    }
    pe.free_team(shape.team);
  }
  pe.check();
  pe.barrier();
  pe.free(room);
}

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, AgreeWithASerialReference) {
  bootstrap::run_threads(GetParam(), [](Bootstrap& group) {
    Config config = small_config();
    config.heap_size = 1u << 20;
    config.team_memory = 1u << 20;
    Runtime pe = start(group, config);
    play(pe);
    pe.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(ByPes, Collectives, testing::Range(1, 9));

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
