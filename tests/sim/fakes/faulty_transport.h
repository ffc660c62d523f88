// The network between the controller and the workers: a message can be lost, late, overtaken or
// doubled, its answer too, and what a dead controller sends is not sent.
#ifndef COXSWAIN_TESTS_SIM_FAKES_FAULTY_TRANSPORT_H_
#define COXSWAIN_TESTS_SIM_FAKES_FAULTY_TRANSPORT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "controller/runtime/loop.h"
#include "tests/sim/agenda.h"
#include "tests/sim/crash_point.h"
#include "tests/sim/fakes/fake_workers.h"

namespace coxswain::sim {

enum class Call { kPrepare, kConnect, kRun, kSaveShard, kAbort, kRelease, kEndWorker };
inline constexpr int kNumCalls = 7;
const char* CallName(Call call);

enum class MessageFault {
  kDropRequest,   // it never arrives; the caller hears of a broken connection, or nothing
  kLoseReply,     // it is served, but the answer is lost
  kDelayRequest,  // what is sent after it to the same worker overtakes it
  kDelayReply,
  kDuplicate,  // a unary call is served twice, an event comes twice
};
inline constexpr int kNumMessageFaults = 5;
const char* MessageFaultName(MessageFault fault);
// Rows of the coverage table.
const std::string& CallRow(Call call);
std::string MessageRow(Call call, MessageFault fault);

// Of a stream the first two end it: before a command arrives, or after it did. It keeps its order.
class FaultyTransport : public WorkerTransport {
 public:
  FaultyTransport(Agenda* agenda, FakeWorkers* base, CrashPoint* crash)
      : agenda_(agenda), base_(base), crash_(crash) {}

  void Connect(Loop* loop);  // as FakeWorkers::Connect
  // The next `call` meets `fault`; a delay is that long.
  void Arm(Call call, MessageFault fault, int64_t delay_ms) {
    armed_[static_cast<size_t>(call)] = Armed{fault, delay_ms};
  }
  void Mend() { armed_ = {}; }
  // Called at every call, at every fault that one met, and when a late one was overtaken.
  void OnCall(std::function<void(Call call)> observer) { on_call_ = std::move(observer); }
  void OnFault(std::function<void(Call, MessageFault, const std::string& worker)> observer) {
    on_fault_ = std::move(observer);
  }
  void OnOvertaken(std::function<void()> observer) { on_overtaken_ = std::move(observer); }

  void Prepare(const WorkerTarget& worker, const v1::PrepareRequest& request, Timeout timeout,
               Done<v1::PrepareResponse> done) override;
  std::unique_ptr<Outgoing<v1::ConnectRequest>> Connect(
      const WorkerTarget& worker, Incoming<v1::ConnectResponse> incoming) override;
  std::unique_ptr<CommandStream> Run(const WorkerTarget& worker,
                                     Incoming<v1::Event> incoming) override;
  void SaveShard(const WorkerTarget& worker, const v1::SaveShardRequest& request, Timeout timeout,
                 Done<v1::SaveShardResponse> done) override;
  std::unique_ptr<Outgoing<v1::WorkerLogsRequest>> Logs(const WorkerTarget& worker,
                                                        const v1::WorkerLogsRequest& request,
                                                        Incoming<v1::LogLine> incoming) override {
    return base_->Logs(worker, request, std::move(incoming));
  }
  void Inspect(const WorkerTarget& worker, Timeout timeout,
               Done<v1::WorkerInspectResponse> done) override {
    base_->Inspect(worker, timeout, std::move(done));
  }
  void Dump(const WorkerTarget& worker, Timeout timeout,
            Done<v1::WorkerDumpResponse> done) override {
    base_->Dump(worker, timeout, std::move(done));
  }
  void Abort(const WorkerTarget& worker, const v1::AbortRequest& request, Timeout timeout,
             Done<v1::AbortResponse> done) override;
  void Release(const WorkerTarget& worker, const v1::ReleaseRequest& request, Timeout timeout,
               Done<v1::ReleaseResponse> done) override;
  void EndWorker(const WorkerTarget& worker, const std::string& reason, Timeout timeout,
                 Done<v1::EndWorkerResponse> done) override;
  void Stacks(const WorkerTarget& worker, int64_t most_bytes, Timeout timeout,
              Done<v1::StacksResponse> done) override {
    base_->Stacks(worker, most_bytes, timeout, std::move(done));
  }

 private:
  class Commands;
  struct Armed {
    MessageFault fault = MessageFault::kDropRequest;
    int64_t delay_ms = 0;
  };
  template <typename Response>
  using Send = std::function<void(Done<Response>)>;

  // False: the controller is dead.
  bool Begin(Call call, const WorkerTarget& worker);
  std::optional<Armed> Take(Call call, const WorkerTarget& worker);
  void ToController(int64_t delay_ms, std::function<void()> task);
  template <typename Response>
  void Unary(Call call, const WorkerTarget& worker, Timeout timeout, Done<Response> done,
             Send<Response> send);

  Agenda* const agenda_;
  FakeWorkers* const base_;
  CrashPoint* const crash_;
  Loop* loop_ = nullptr;
  uint64_t generation_ = 0;  // of the controller
  std::array<std::optional<Armed>, kNumCalls> armed_;
  std::map<std::string, uint64_t> sent_;  // calls, by incarnation
  std::function<void(Call)> on_call_;
  std::function<void(Call, MessageFault, const std::string&)> on_fault_;
  std::function<void()> on_overtaken_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_FAULTY_TRANSPORT_H_
