// One controller's stream to the relay, and the Run streams that it opened.
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

// Answers to the commands of one message travel together. An event waits for the answers of the
// other streams, at most kLongestWait, because the gang cannot continue before all have come. The
// end of a stream waits for nothing. One message to the controller is being written at a time;
// events that arrive meanwhile go into the next.
//
// The object keeps itself alive until gRPC is done with it. It finishes after the last of its
// streams.
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
  using Round = std::shared_ptr<int>;  // number of missing answers to the commands of one message
  struct Carried {
    std::shared_ptr<WorkerCall> call;
    std::deque<Round> unanswered;  // one per command, oldest first
  };

  void Open(uint64_t stream, int slot);
  // Null when the stream has closed. With `round`, registers a command of that round.
  std::shared_ptr<WorkerCall> Find(uint64_t stream, const Round& round);
  // True when the event completes its round, or belongs to none.
  bool Answers(uint64_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendSoon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WaitedLong();
  void Arrived(uint64_t stream, const grpc::ByteBuffer& event);
  void Closed(uint64_t stream, const absl::Status& status);
  void EndStreams();                               // when the controller or its connection ends
  void Send() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // sends gathered_, or finishes

  LocalWorkers* const workers_;
  std::shared_ptr<RelayStream> self_;
  v1::HostCommands commands_;
  Mutex mu_;
  std::map<uint64_t, Carried> streams_ ABSL_GUARDED_BY(mu_);
  v1::HostEvents gathered_ ABSL_GUARDED_BY(mu_), writing_ ABSL_GUARDED_BY(mu_);
  bool in_flight_ ABSL_GUARDED_BY(mu_) = false;  // writing_
  bool due_ ABSL_GUARDED_BY(mu_) = false;        // gathered_ waits for no further answer
  // The newest alarm. An alarm cannot be set again while it goes off.
  std::unique_ptr<grpc::Alarm> wait_ ABSL_GUARDED_BY(mu_);
  bool waiting_ ABSL_GUARDED_BY(mu_) = false;  // for wait_
  bool ending_ ABSL_GUARDED_BY(mu_) = false;   // the controller opens no more streams
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_RELAY_STREAM_H_
