#include "controller/gang/dump_ranks.h"

#include <memory>
#include <utility>

namespace coxswain::gang {

void DumpRanks(WorkerTransport* transport, const Gang& gang, const std::vector<int>& ranks,
               std::chrono::milliseconds timeout, std::function<void(std::vector<RankDump>)> done) {
  auto dumps = std::make_shared<std::vector<RankDump>>();
  for (const int rank : ranks) {
    dumps->push_back({.rank = rank, .worker = gang.ranks[rank].target.id});
  }
  auto outstanding = std::make_shared<size_t>(ranks.size());
  auto deliver = std::make_shared<std::function<void(std::vector<RankDump>)>>(std::move(done));
  for (size_t i = 0; i < ranks.size(); ++i) {
    transport->Dump(gang.ranks[ranks[i]].target, timeout,
                    [dumps, outstanding, deliver, i](absl::StatusOr<v1::WorkerDumpResponse> dump) {
                      (*dumps)[i].answer = std::move(dump);
                      if (--*outstanding == 0) (*deliver)(std::move(*dumps));
                    });
  }
}

}  // namespace coxswain::gang
