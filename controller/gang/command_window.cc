#include "controller/gang/command_window.h"

#include <utility>

namespace coxswain::gang {

CommandWindow::CommandWindow(int world_size) : world_size_(world_size), answered_(world_size, 0) {}

void CommandWindow::GoOnBehind(uint64_t answered, uint64_t sent) {
  last_seq_ = answered;
  again_until_ = sent;
  answered_.assign(answered_.size(), answered);
}

InFlight& CommandWindow::Push(Turn turn, const char* phase, int64_t step) {
  InFlight& command = in_flight_.emplace_back();
  command.seq = ++last_seq_;
  command.turn = turn;
  command.phase = phase;
  command.step = step;
  command.again = command.seq <= again_until_;
  command.results.resize(world_size_);
  return command;
}

CommandWindow::Receipt CommandWindow::Receive(int rank, uint64_t seq, const v1::Done& done) {
  if (seq <= answered_[rank]) return Receipt::kDuplicate;
  if (seq != answered_[rank] + 1 || seq > last_seq_) return Receipt::kOutOfOrder;
  answered_[rank] = seq;
  InFlight& command = in_flight_[seq - in_flight_.front().seq];
  command.results[rank] = done;
  ++command.answered;
  return Receipt::kAccepted;
}

std::optional<InFlight> CommandWindow::PopComplete() {
  if (in_flight_.empty() || in_flight_.front().missing() > 0) return std::nullopt;
  InFlight done = std::move(in_flight_.front());
  in_flight_.pop_front();
  return done;
}

}  // namespace coxswain::gang
