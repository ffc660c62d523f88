#include "controller/gang/dump_ranks.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace coxswain::gang {
namespace {

// One dump in progress; it lives until the last answer.
struct Asked {
  std::vector<RankDump> dumps;
  size_t outstanding = 0;  // answers
  std::function<void(std::vector<RankDump>)> done;

  void Answered() {
    if (--outstanding == 0) done(std::move(dumps));
  }
};

}  // namespace

void DumpRanks(WorkerTransport* transport, const GangSession& session,
               const std::vector<int>& ranks, std::chrono::milliseconds timeout,
               std::function<void(std::vector<RankDump>)> done) {
  const Gang& gang = session.gang();
  auto asked = std::make_shared<Asked>();
  for (const int rank : ranks) {
    asked->dumps.push_back({.rank = rank,
                            .worker = gang.ranks[rank].target.id,
                            .host = gang.ranks[rank].host,
                            .view = session.View(rank)});
  }
  asked->outstanding = 2 * ranks.size();
  asked->done = std::move(done);
  const int64_t most_bytes =
      std::min(kMostRankStacksBytes, kMostStacksBytes / static_cast<int64_t>(ranks.size()));
  for (size_t i = 0; i < ranks.size(); ++i) {
    const WorkerTarget& target = gang.ranks[ranks[i]].target;
    transport->Dump(target, timeout, [asked, i](absl::StatusOr<v1::WorkerDumpResponse> dump) {
      asked->dumps[i].answer = std::move(dump);
      asked->Answered();
    });
    transport->Stacks(target, most_bytes, timeout,
                      [asked, i](absl::StatusOr<v1::StacksResponse> stacks) {
                        asked->dumps[i].stacks = std::move(stacks);
                        asked->Answered();
                      });
  }
}

}  // namespace coxswain::gang
