#include "controller/gang/stall_watch.h"

#include "absl/strings/str_cat.h"

namespace coxswain::gang {

StallWatch::StallWatch(const Deps& deps, const Gang* gang, Of of)
    : deps_(deps),
      gang_(gang),
      of_(of),
      seen_(gang->ranks.size(), {.done = 0, .since_ns = deps.loop->AttentiveNs()}) {
  Look();
}

uint64_t StallWatch::Done(const v1::HeartbeatRequest& beat) const {
  return of_ == Of::kWork ? beat.work_done() : beat.blocks_saved();
}

void StallWatch::Look() {
  const int64_t now_ns = deps_.loop->AttentiveNs();
  for (size_t rank = 0; rank < seen_.size(); ++rank) {
    const scheduler::Worker* worker = deps_.registry->Find(gang_->ranks[rank].target.incarnation);
    if (worker == nullptr || Done(worker->beat) == seen_[rank].done) continue;
    seen_[rank] = {.done = Done(worker->beat), .since_ns = now_ns};
  }
}

std::chrono::milliseconds StallWatch::Still(int rank) const {
  const int64_t still_ns = deps_.loop->AttentiveNs() - seen_[static_cast<size_t>(rank)].since_ns;
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::nanoseconds(still_ns));
}

std::optional<int> StallWatch::Stillest(const std::vector<bool>& missing) const {
  std::optional<int> found;
  for (int rank = 0; rank < gang_->world_size(); ++rank) {
    if (!missing[static_cast<size_t>(rank)]) continue;
    if (!found || Still(rank) > Still(*found)) found = rank;
  }
  return found;
}

std::string StallWatch::Describe(int rank, std::chrono::milliseconds limit,
                                 const std::string& doing) const {
  return absl::StrCat("rank ", rank, " on ", gang_->ranks[static_cast<size_t>(rank)].host, " ",
                      doing, " and has made no progress for ", Still(rank).count() / 1000,
                      " s, limit ", limit.count() / 1000, " s");
}

std::optional<StallWatch::Stalled> StallWatch::Find(const std::vector<bool>& missing,
                                                    std::chrono::milliseconds limit,
                                                    const std::string& doing) const {
  const std::optional<int> rank = Stillest(missing);
  if (!rank || Still(*rank) <= limit) return std::nullopt;
  return Stalled{.rank = *rank,
                 .status = absl::DeadlineExceededError(Describe(*rank, limit, doing))};
}

std::optional<std::string> StallWatch::ToTell(const std::vector<bool>& missing,
                                              std::chrono::milliseconds limit,
                                              const std::string& doing) {
  const std::optional<int> rank = Stillest(missing);
  if (told_ || !rank || Still(*rank) < kTold) return std::nullopt;
  told_ = true;
  return absl::StrCat(Describe(*rank, limit, doing),
                      ": look at its storage. The job waits as long as it gets on, however slowly");
}

}  // namespace coxswain::gang
