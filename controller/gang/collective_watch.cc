#include "controller/gang/collective_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::gang {
namespace {

constexpr size_t kDescribedRanks = 16;

// Order of what ranks have reached: commands first, collectives may be numbered anew in each.
std::pair<uint64_t, uint64_t> Reached(const v1::HeartbeatRequest& beat) {
  return {beat.last_done_seq(), beat.collectives().started()};
}

std::string NameOf(const v1::CollectiveProgress& collective) {
  return absl::StrCat("#", collective.started(), " (", collective.operation(), ")");
}

}  // namespace

RankBeats BeatsOf(const Gang& gang, const scheduler::Registry& registry) {
  RankBeats beats(gang.ranks.size());
  for (int rank = 0; rank < gang.world_size(); ++rank) {
    const scheduler::Worker* worker = registry.Find(gang.ranks[rank].target.incarnation);
    if (worker == nullptr) continue;
    const v1::Fence& current = worker->beat.current();
    if (current.job() == gang.job && current.epoch() == gang.epoch) beats[rank] = worker->beat;
  }
  return beats;
}

std::optional<Suspect> FindSuspect(const RankBeats& beats, std::chrono::milliseconds limit) {
  const v1::HeartbeatRequest* longest = nullptr;
  for (const v1::HeartbeatRequest& beat : beats) {
    const v1::CollectiveProgress& collective = beat.collectives();
    if (collective.operation().empty() || collective.in_it_ms() <= limit.count()) continue;
    if (longest == nullptr || Reached(beat) > Reached(*longest)) longest = &beat;
  }
  if (longest == nullptr) return std::nullopt;
  const v1::CollectiveProgress& collective = longest->collectives();
  const std::string waiting =
      absl::StrCat("collective ", NameOf(collective), " for ", collective.in_it_ms(), " ms, limit ",
                   limit.count(), " ms");
  std::vector<size_t> inside;
  size_t last = 0;
  for (size_t rank = 0; rank < beats.size(); ++rank) {
    if (Reached(beats[rank]) >= Reached(*longest)) inside.push_back(rank);
    if (Reached(beats[rank]) < Reached(beats[last])) last = rank;
  }
  if (inside.size() == beats.size()) {
    return Suspect{.message = absl::StrCat("every rank is in ", waiting, ": taken for a hang")};
  }
  return Suspect{
      .rank = static_cast<int>(last),
      .message = absl::StrCat("keeps rank ", absl::StrJoin(inside, ", "), " waiting in ", waiting,
                              "; it has come to #", beats[last].collectives().started(),
                              ": taken for a hang")};
}

std::string DescribeCollectives(const RankBeats& beats) {
  std::string text;
  for (size_t rank = 0; rank < beats.size() && rank < kDescribedRanks; ++rank) {
    const v1::CollectiveProgress& collective = beats[rank].collectives();
    if (collective.started() == 0) continue;
    absl::StrAppend(&text, text.empty() ? "; collectives: " : ", ", "rank ", rank);
    if (collective.operation().empty()) {
      absl::StrAppend(&text, " finished #", collective.finished());
    } else {
      absl::StrAppend(&text, " in ", NameOf(collective), " for ", collective.in_it_ms(), " ms");
    }
  }
  return text;
}

}  // namespace coxswain::gang
