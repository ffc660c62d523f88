#include "controller/failure/odd_ranks.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace coxswain::failure {
namespace {

using Ranks = std::vector<RankEvidence>;
using Is = std::function<bool(const RankEvidence&)>;

std::vector<int> RanksThat(const Ranks& ranks, const Is& is) {
  std::vector<int> found;
  for (const RankEvidence& rank : ranks) {
    if (is(rank)) found.push_back(rank.rank);
  }
  std::sort(found.begin(), found.end());
  return found;
}

const RankEvidence& Of(const Ranks& ranks, int rank) {
  return *std::find_if(ranks.begin(), ranks.end(),
                       [rank](const RankEvidence& evidence) { return evidence.rank == rank; });
}

std::pair<uint64_t, uint64_t> Reached(const RankEvidence& rank) {
  return {rank.done_seq, rank.collective};
}

// Those that have come least far, where one that has come further waits.
std::vector<int> Behind(const Ranks& ranks) {
  const auto first = std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return Reached(a) < Reached(b);
  });
  if (first->operation.empty() || first->in_it_ms < kWaitsMs) return {};
  const auto least = std::min_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return Reached(a) < Reached(b);
  });
  std::vector<int> behind =
      RanksThat(ranks, [&](const RankEvidence& rank) { return Reached(rank) == Reached(*least); });
  if (behind.size() == ranks.size()) behind.clear();
  return behind;
}

std::string DescribeBehind(const Ranks& ranks, const std::vector<int>& behind) {
  const RankEvidence& last = Of(ranks, behind.front());
  const auto first = std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return Reached(a) < Reached(b);
  });
  const bool same_command = first->done_seq == last.done_seq;
  std::string text = absl::StrCat(NameRanks(behind), behind.size() == 1 ? " has" : " have");
  if (same_command) {
    absl::StrAppend(&text, " come to collective #", last.collective, ", ");
  } else {
    absl::StrAppend(&text, " finished command ", last.done_seq, ", ");
  }
  absl::StrAppend(&text, NameRanks(RanksThat(ranks, [&](const RankEvidence& rank) {
    return Reached(rank) == Reached(*first);
  })));
  if (!same_command) return absl::StrCat(text, " command ", first->done_seq);
  absl::StrAppend(&text, " #", first->collective);
  return first->operation.empty() ? text : absl::StrCat(text, " (", first->operation, ")");
}

std::string Places(const Ranks& ranks, const std::vector<int>& odd) {
  std::string text;
  for (const int rank : odd) {
    const RankEvidence& evidence = Of(ranks, rank);
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    evidence.pid > 0 ? absl::StrCat("process ", evidence.pid, " on ") : "",
                    evidence.host);
    if (text.size() > 400) return absl::StrCat(text, ", ...");
  }
  return text;
}

// The ranks whose stacks most do not have; empty where no group has more than half of them.
std::vector<int> InSmallGroups(const std::vector<StackGroup>& groups) {
  size_t all = 0;
  std::vector<int> odd;
  for (const StackGroup& group : groups) all += group.ranks.size();
  if (groups.size() < 2 || 2 * groups.front().ranks.size() <= all) return {};
  for (size_t i = 1; i < groups.size(); ++i) {
    odd.insert(odd.end(), groups[i].ranks.begin(), groups[i].ranks.end());
  }
  std::sort(odd.begin(), odd.end());
  return odd;
}

std::optional<Finding> OddProcesses(const Ranks& ranks) {
  const auto ended = RanksThat(ranks, [](const RankEvidence& rank) { return rank.ended; });
  if (!ended.empty()) {
    return Finding{.ranks = ended,
                   .why = absl::StrCat("the process of ", NameRanks(ended), " has ended"),
                   .advice = absl::StrCat("look at the supervisor's log and the kernel's (out of "
                                          "memory, a signal) on ",
                                          Places(ranks, ended), "; the job recovers by itself")};
  }
  const auto stopped = RanksThat(ranks, [](const RankEvidence& rank) {
    return absl::StartsWith(rank.process_state, "T") || absl::StartsWith(rank.process_state, "t");
  });
  if (stopped.empty()) return std::nullopt;
  return Finding{
      .ranks = stopped,
      .why = absl::StrCat("the process of ", NameRanks(stopped),
                          " is stopped, by a signal (SIGSTOP) or by a debugger"),
      .advice = absl::StrCat("send SIGCONT to ", Places(ranks, stopped),
                             ", or cox dump --stop: the job goes on from its last checkpoint")};
}

}  // namespace

std::string NameRanks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    absl::StrAppend(&text, i == 0 ? "" : ", ", ranks[i]);
    if (last > i) absl::StrAppend(&text, last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

Finding FindOddRanks(const Ranks& ranks, const std::vector<StackGroup>& groups) {
  if (ranks.empty()) return {.why = "no rank was asked"};
  if (std::optional<Finding> process = OddProcesses(ranks)) return *std::move(process);
  if (const std::vector<int> behind = Behind(ranks); !behind.empty()) {
    return {.ranks = behind,
            .why = DescribeBehind(ranks, behind),
            .advice = absl::StrCat("see what its stacks wait for; look at the device, the network "
                                   "and the log of ",
                                   Places(ranks, behind),
                                   ". cox dump --stop ends the gang, and the job goes on from its "
                                   "last checkpoint")};
  }
  const auto silent =
      RanksThat(ranks, [](const RankEvidence& rank) { return !rank.silence.empty(); });
  if (!silent.empty() && silent.size() < ranks.size()) {
    return {.ranks = silent,
            .why = absl::StrCat(NameRanks(silent),
                                " gave no dump: ", Of(ranks, silent.front()).silence),
            .advice = absl::StrCat("look whether ", Places(ranks, silent),
                                   " can be reached, and at its log")};
  }
  if (const std::vector<int> odd = InSmallGroups(groups); !odd.empty()) {
    return {.ranks = odd,
            .why = absl::StrCat(NameRanks(odd), odd.size() == 1 ? " stands" : " stand",
                                " elsewhere than most"),
            .advice =
                "compare its stacks with those of the others: while steps are done, ranks "
                "that stand apart for a moment are nothing to worry about"};
  }
  return {.why = "no rank stands out",
          .advice =
              "when nothing goes on, cox dump again: a rank that has not moved since stands "
              "still; cox dump --stop ends the gang"};
}

}  // namespace coxswain::failure
