// One process for each GPU: a program starts itself again as its own ranks.
#ifndef COXSWAIN_TESTS_WORKER_COMM_RANK_PROCESSES_H_
#define COXSWAIN_TESTS_WORKER_COMM_RANK_PROCESSES_H_

#include <optional>
#include <string>

namespace coxswain::comm {

struct RankProcess {
  int rank = 0;
  int world = 1;
  std::string folder;  // of this run, shared by its ranks
};

// Who this process is, when RunRanks started it.
std::optional<RankProcess> RankOfThisProcess();

// Runs this program `world` times with its arguments, each copy with one GPU to see, and waits for
// all. 0 when all ended with 0, else 1 after it has named those that did not.
int RunRanks(int world, char** argv);

// GPUs of the host; 0 with a sentence on stdout where there is none.
int CountGpus();

}  // namespace coxswain::comm

#endif  // COXSWAIN_TESTS_WORKER_COMM_RANK_PROCESSES_H_
