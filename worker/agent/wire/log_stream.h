// One Logs call: the ring's tail, then live lines while the caller follows.
#ifndef COXSWAIN_WORKER_AGENT_WIRE_LOG_STREAM_H_
#define COXSWAIN_WORKER_AGENT_WIRE_LOG_STREAM_H_

#include <cstdint>
#include <functional>
#include <optional>

#include <grpcpp/support/server_callback.h>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::agent {

// The lines that a call may see have numbers above this; nothing: none yet, or none any more.
using LogBefore = std::function<std::optional<uint64_t>()>;

// Waits for lines on a thread of its own; deletes itself when the call is done.
class LogStream : public grpc::ServerWriteReactor<v1::LogLine> {
 public:
  LogStream(const v1::WorkerLogsRequest& request, int rank, LogBefore before);

 private:
  void Feed();
  bool Await();  // until there are lines to see; false: the caller is gone, or does not follow
  bool Send(const v1::LogLine& line);  // false: the caller is gone

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

  const v1::WorkerLogsRequest request_;
  const int rank_;
  const LogBefore before_;
  const bool early_;  // the call came before its job: all lines of that are new to the caller
  Mutex mu_;
  CondVar changed_;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool gone_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_WIRE_LOG_STREAM_H_
