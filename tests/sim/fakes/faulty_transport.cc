#include "tests/sim/fakes/faulty_transport.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::sim {
namespace {

// What a caller hears of a connection that broke.
absl::Status Reset() { return absl::UnavailableError("connection reset"); }

}  // namespace

const char* CallName(Call call) {
  static constexpr const char* kNames[] = {"Prepare", "Connect", "Run",      "SaveShard",
                                           "Abort",   "Release", "EndWorker"};
  return kNames[static_cast<size_t>(call)];
}

const char* MessageFaultName(MessageFault fault) {
  static constexpr const char* kNames[] = {"request dropped", "reply lost", "request delayed",
                                           "reply delayed", "doubled"};
  return kNames[static_cast<size_t>(fault)];
}

const std::string& CallRow(Call call) {
  static const auto* const kRows = [] {
    auto* rows = new std::array<std::string, kNumCalls>;
    for (int i = 0; i < kNumCalls; ++i) {
      (*rows)[static_cast<size_t>(i)] = absl::StrCat("call ", CallName(static_cast<Call>(i)));
    }
    return rows;
  }();
  return (*kRows)[static_cast<size_t>(call)];
}

std::string MessageRow(Call call, MessageFault fault) {
  return absl::StrCat("message ", CallName(call), ": ", MessageFaultName(fault));
}

void FaultyTransport::Connect(Loop* loop) {
  loop_ = loop;
  ++generation_;
  base_->Connect(loop);
}

void FaultyTransport::ToController(int64_t delay_ms, std::function<void()> task) {
  agenda_->After(delay_ms, [this, generation = generation_, task = std::move(task)] {
    if (generation == generation_ && loop_ != nullptr) loop_->Post(task);
  });
}

bool FaultyTransport::Begin(Call call, const WorkerTarget& worker) {
  if (!crash_->Pass()) return false;
  ++sent_[worker.incarnation];
  if (on_call_) on_call_(call);
  return true;
}

std::optional<FaultyTransport::Armed> FaultyTransport::Take(Call call, const WorkerTarget& worker) {
  std::optional<Armed> armed = std::exchange(armed_[static_cast<size_t>(call)], std::nullopt);
  if (armed && on_fault_) on_fault_(call, armed->fault, worker.id);
  return armed;
}

// The caller hears once: the answer, a broken connection, or that its time is up.
template <typename Response>
void FaultyTransport::Unary(Call call, const WorkerTarget& worker, Timeout timeout,
                            Done<Response> done, Send<Response> send) {
  if (!Begin(call, worker)) return;
  const std::optional<Armed> armed = Take(call, worker);
  if (!armed) {
    send(std::move(done));
    return;
  }
  auto told = std::make_shared<bool>(false);
  const Done<Response> once = [told, done](absl::StatusOr<Response> response) {
    if (!std::exchange(*told, true)) done(std::move(response));
  };
  const Done<Response> deaf = [](const absl::StatusOr<Response>&) {};
  const auto time_up = [this, once](int64_t after_ms, const absl::Status& status) {
    ToController(after_ms, [once, status] { once(status); });
  };
  switch (armed->fault) {
    case MessageFault::kDropRequest:
      time_up(timeout.count(), absl::DeadlineExceededError("no answer"));
      break;
    case MessageFault::kLoseReply:
      send(deaf);
      time_up(armed->delay_ms, Reset());
      break;
    case MessageFault::kDelayRequest:
      agenda_->After(armed->delay_ms,
                     [this, send, once, deaf, generation = generation_,
                      at = sent_[worker.incarnation], incarnation = worker.incarnation] {
                       if (sent_[incarnation] > at && on_overtaken_) on_overtaken_();
                       send(generation == generation_ ? once : deaf);
                     });
      time_up(timeout.count(), absl::DeadlineExceededError("no answer"));
      break;
    case MessageFault::kDelayReply:
      send([this, once, delay_ms = armed->delay_ms](absl::StatusOr<Response> response) {
        ToController(delay_ms, [once, response = std::move(response)] { once(response); });
      });
      time_up(timeout.count(), absl::DeadlineExceededError("no answer"));
      break;
    case MessageFault::kDuplicate:
      send(once);
      agenda_->After(armed->delay_ms, [send, deaf] { send(deaf); });
      break;
  }
}

void FaultyTransport::Prepare(const WorkerTarget& worker, const v1::PrepareRequest& request,
                              Timeout timeout, Done<v1::PrepareResponse> done) {
  Unary<v1::PrepareResponse>(Call::kPrepare, worker, timeout, std::move(done),
                             [this, worker, request, timeout](Done<v1::PrepareResponse> answer) {
                               base_->Prepare(worker, request, timeout, std::move(answer));
                             });
}

void FaultyTransport::SaveShard(const WorkerTarget& worker, const v1::SaveShardRequest& request,
                                Timeout timeout, Done<v1::SaveShardResponse> done) {
  Unary<v1::SaveShardResponse>(
      Call::kSaveShard, worker, timeout, std::move(done),
      [this, worker, request, timeout](Done<v1::SaveShardResponse> answer) {
        base_->SaveShard(worker, request, timeout, std::move(answer));
      });
}

void FaultyTransport::Abort(const WorkerTarget& worker, const v1::AbortRequest& request,
                            Timeout timeout, Done<v1::AbortResponse> done) {
  Unary<v1::AbortResponse>(Call::kAbort, worker, timeout, std::move(done),
                           [this, worker, request, timeout](Done<v1::AbortResponse> answer) {
                             base_->Abort(worker, request, timeout, std::move(answer));
                           });
}

void FaultyTransport::Release(const WorkerTarget& worker, const v1::ReleaseRequest& request,
                              Timeout timeout, Done<v1::ReleaseResponse> done) {
  Unary<v1::ReleaseResponse>(Call::kRelease, worker, timeout, std::move(done),
                             [this, worker, request, timeout](Done<v1::ReleaseResponse> answer) {
                               base_->Release(worker, request, timeout, std::move(answer));
                             });
}

void FaultyTransport::EndWorker(const WorkerTarget& worker, const std::string& reason,
                                Timeout timeout, Done<v1::EndWorkerResponse> done) {
  Unary<v1::EndWorkerResponse>(Call::kEndWorker, worker, timeout, std::move(done),
                               [this, worker, reason, timeout](Done<v1::EndWorkerResponse> answer) {
                                 base_->EndWorker(worker, reason, timeout, std::move(answer));
                               });
}

}  // namespace coxswain::sim
