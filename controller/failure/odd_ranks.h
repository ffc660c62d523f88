// Finds the ranks of a gang that stand out in a dump. Pure.
#ifndef COXSWAIN_CONTROLLER_FAILURE_ODD_RANKS_H_
#define COXSWAIN_CONTROLLER_FAILURE_ODD_RANKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "controller/failure/stack_groups.h"

namespace coxswain::failure {

// The evidence about one rank: the newest report of the rank, its supervisor and the controller.
struct RankEvidence {
  int rank = 0;
  std::string host = {};
  int64_t pid = 0;                 // on its host; 0: not known
  std::string process_state = {};  // of /proc: "T (stopped)"; empty: not known
  bool ended = false;              // its supervisor knows that process no more
  std::string silence = {};        // why it gave no dump; empty: it did
  uint64_t done_seq = 0;           // newest command that it has finished
  uint64_t collective = 0;         // newest of that command's that it has begun
  std::string operation = {};      // of that one while it is in it; empty: it is in none
  int64_t in_it_ms = 0;            // for how long
};

// A rank that is in a collective for this long waits for another rank.
inline constexpr int64_t kWaitsMs = 500;

struct Finding {
  std::vector<int> ranks = {};  // that stand out, ascending; empty: none does
  std::string why = {};         // one sentence
  std::string advice = {};      // what a user may do about it
};

// Tests in this order: a process that has ended or is stopped; commands and collectives behind
// those of a waiting rank; no dump where others gave theirs; stacks that most ranks do not have.
Finding FindOddRanks(const std::vector<RankEvidence>& ranks, const std::vector<StackGroup>& groups);

// "rank 3", "ranks 0-2, 5".
std::string NameRanks(const std::vector<int>& ranks);

}  // namespace coxswain::failure

#endif  // COXSWAIN_CONTROLLER_FAILURE_ODD_RANKS_H_
