// nccl_tests: what needs several GPUs, with a process for each. All ranks run the same tests in the
// same order; each test forms a group of its own. Ends with 77 where there is one GPU or none.
//   nccl_tests [--gpus N] [GoogleTest's arguments]
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/device.h"
#include "tests/worker/comm/cuda/nccl_rank.h"

namespace {

constexpr int kSkipped = 77;

// N of --gpus N; 0 without it.
int WantedGpus(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--gpus") return std::atoi(argv[i + 1]);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto rank = coxswain::comm::RankOfThisProcess();
  if (!rank) {
    const int gpus = coxswain::comm::CountGpus(), wanted = WantedGpus(argc, argv);
    const int world = wanted > 0 ? wanted : gpus;
    if (world >= 2 && world <= gpus) return coxswain::comm::RunRanks(world, argv);
    std::printf("skipped: %d GPUs here, at least %d are needed\n", gpus, std::max(2, wanted));
    return kSkipped;
  }
  coxswain::comm::ThisRank() = *rank;
  testing::InitGoogleTest(&argc, argv);
  if (rank->rank != 0) {  // the others speak when something fails
    testing::GTEST_FLAG(brief) = true;
    testing::GTEST_FLAG(output) = "";
  }
  const auto device = coxswain::kernels::SelectDevice(0);
  std::printf("rank %d of %d on %s, %s\n", rank->rank, rank->world, device.name.c_str(),
              device.pci_bus.c_str());
  return RUN_ALL_TESTS();
}
