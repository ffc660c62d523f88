#include "tests/sim/fakes/virtual_lanes.h"

#include <memory>

namespace coxswain::sim {

int64_t VirtualLanes::Draw() {
  return most_ms_ == 0 ? 0
                       : static_cast<int64_t>(random_() % static_cast<uint64_t>(most_ms_ + 1)) / 2;
}

void VirtualLanes::Run(Loop* loop, Lane lane, Loop::Task work, Loop::Task done) {
  Hands& hands = lanes_[static_cast<size_t>(lane)];
  hands.waiting.push_back({loop, std::move(work), std::move(done)});
  Start(hands, Lanes::ThreadsOf(lane));
}

void VirtualLanes::Start(Hands& hands, int threads) {
  while (hands.busy < threads && !hands.waiting.empty()) {
    ++hands.busy;
    auto job = std::make_shared<Job>(std::move(hands.waiting.front()));
    hands.waiting.pop_front();
    agenda_->After(Draw(), [this, &hands, threads, job, generation = generation_] {
      if (generation != generation_) return;
      job->work();
      agenda_->After(Draw(), [this, &hands, threads, job, generation] {
        if (generation != generation_) return;
        --hands.busy;
        job->loop->Post(std::move(job->done));  // what it holds belongs to the loop
        Start(hands, threads);
      });
    });
  }
}

void VirtualLanes::Clear() {
  ++generation_;
  for (Hands& hands : lanes_) hands = Hands();
}

}  // namespace coxswain::sim
