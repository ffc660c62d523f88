// One controller's stream to the relay, and the Run streams it opened.
#ifndef COXSWAIN_WORKER_SUPERVISOR_RELAY_STREAM_H_
#define COXSWAIN_WORKER_SUPERVISOR_RELAY_STREAM_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include <grpcpp/alarm.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/net/queued_call.h"
#include "coxswain/v1/relay_service.pb.h"
#include "worker/supervisor/local_workers.h"

namespace coxswain::supervisor {

inline constexpr std::chrono::milliseconds kLongestWait{20};

// Answers to the commands of one message travel together: an event waits for those of the other
// streams, since nobody can go on before they come, but never longer than kLongestWait. The end of
// a stream waits for nothing. One message to the controller is being written at a time; what comes
// meanwhile goes into the next.
//
// Keeps itself alive until gRPC is done with it; it finishes after the last of its streams.
class RelayStream : public grpc::ServerBidiReactor<v1::HostCommands, v1::HostEvents>,
                    public std::enable_shared_from_this<RelayStream> {
 public:
  explicit RelayStream(LocalWorkers* workers) : workers_(workers) {}
  void Begin();  // once

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  using WorkerCall = QueuedCall<grpc::ByteBuffer, grpc::ByteBuffer>;
  using Round = std::shared_ptr<int>;  // answers that are missing to the commands of one message
  struct Carried {
    std::shared_ptr<WorkerCall> call;
    std::deque<Round> unanswered;  // of each command, oldest first
  };

  void Open(uint64_t stream, int slot);
  // Null when it has closed. With `round`: for a command of it.
  std::shared_ptr<WorkerCall> Find(uint64_t stream, const Round& round);
  // Whether an event completes its round, or has none.
  bool Answers(uint64_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendSoon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WaitedLong();
  void Arrived(uint64_t stream, const grpc::ByteBuffer& event);
  void Closed(uint64_t stream, const absl::Status& status);
  void EndStreams();                               // of the controller, or of its connection
  void Send() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // what gathered, or the end

  LocalWorkers* const workers_;
  std::shared_ptr<RelayStream> self_;
  v1::HostCommands commands_;
  Mutex mu_;
  std::map<uint64_t, Carried> streams_ ABSL_GUARDED_BY(mu_);
  v1::HostEvents gathered_ ABSL_GUARDED_BY(mu_), writing_ ABSL_GUARDED_BY(mu_);
  bool in_flight_ ABSL_GUARDED_BY(mu_) = false;  // writing_
  bool due_ ABSL_GUARDED_BY(mu_) = false;        // gathered_ waits for no further answer
  // The newest: one cannot be set again while it goes off.
  std::unique_ptr<grpc::Alarm> wait_ ABSL_GUARDED_BY(mu_);
  bool waiting_ ABSL_GUARDED_BY(mu_) = false;  // for wait_
  bool ending_ ABSL_GUARDED_BY(mu_) = false;   // the controller opens nothing more
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_RELAY_STREAM_H_
