#include "tests/worker/comm/rank_processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "absl/strings/str_split.h"
#include "kernels/device.h"

namespace coxswain::comm {
namespace {

constexpr char kRank[] = "COXSWAIN_TEST_RANK", kWorld[] = "COXSWAIN_TEST_WORLD",
               kFolder[] = "COXSWAIN_TEST_FOLDER", kVisible[] = "CUDA_VISIBLE_DEVICES";

// The environment of rank `rank`: of the GPUs that are shown, the one of its number.
void BecomeRank(int rank, int world, const std::string& folder) {
  const char* shown = std::getenv(kVisible);
  std::string gpu = std::to_string(rank);
  if (shown != nullptr) {
    const std::vector<std::string> names = absl::StrSplit(shown, ',', absl::SkipEmpty());
    gpu = names.at(static_cast<size_t>(rank));
  }
  setenv(kVisible, gpu.c_str(), 1);
  setenv(kRank, std::to_string(rank).c_str(), 1);
  setenv(kWorld, std::to_string(world).c_str(), 1);
  setenv(kFolder, folder.c_str(), 1);
}

}  // namespace

int CountGpus() {
  try {
    return kernels::DeviceCount();
  } catch (const kernels::DeviceError& error) {
    std::printf("no GPU: %s\n", error.what());
    return 0;
  }
}

std::optional<RankProcess> RankOfThisProcess() {
  const char* rank = std::getenv(kRank);
  if (rank == nullptr) return std::nullopt;
  return RankProcess{std::atoi(rank), std::atoi(std::getenv(kWorld)), std::getenv(kFolder)};
}

int RunRanks(int world, char** argv) {
  std::string folder = (std::filesystem::temp_directory_path() / "coxswain-ranks-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::perror(folder.c_str());
    return 1;
  }
  std::fflush(nullptr);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < world; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a rank does not outlive the run
      BecomeRank(rank, world, folder);
      execv("/proc/self/exe", argv);
      std::perror("execv");
      _exit(1);
    }
    ranks.push_back(pid);
  }
  int failed = 0;
  for (int rank = 0; rank < world; ++rank) {
    int status = 0;
    waitpid(ranks[static_cast<size_t>(rank)], &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    std::printf("rank %d of %d ended with %s %d\n", rank, world,
                WIFSIGNALED(status) ? "signal" : "code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    failed = 1;
  }
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return failed;
}

}  // namespace coxswain::comm
