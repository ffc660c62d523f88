// The seam to workers. GrpcWorkerTransport in production, FakeWorkers (tests/sim) in the simulator.
#ifndef COXSWAIN_CONTROLLER_WORKER_TRANSPORT_H_
#define COXSWAIN_CONTROLLER_WORKER_TRANSPORT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain {

// Which process to talk to. A message to another incarnation at the same address is refused there.
struct WorkerTarget {
  std::string id;           // "<host>/<slot>"
  std::string address;      // host:port
  std::string incarnation;

  bool operator==(const WorkerTarget&) const = default;
};

// The controller's side of a stream. Destroying it cancels the stream; no callback comes after.
template <typename Request>
class Outgoing {
 public:
  virtual ~Outgoing() = default;
  virtual void Write(const Request& request) = 0;  // queued, sent in order
  virtual void WritesDone() = 0;                   // half-close after the queue
};

template <typename Response>
struct Incoming {
  std::function<void(const Response&)> on_message;
  std::function<void(absl::Status)> on_closed;  // once, last
};

// Loop thread only; every callback comes on the loop, never inside the call that starts it. A unary
// call always ends: with its response, the worker's error, or DeadlineExceeded naming the worker.
class WorkerTransport {
 public:
  using Timeout = std::chrono::milliseconds;
  template <typename Response>
  using Done = std::function<void(absl::StatusOr<Response>)>;

  virtual ~WorkerTransport() = default;
  virtual void Prepare(const WorkerTarget& worker, const v1::PrepareRequest& request,
                       Timeout timeout, Done<v1::PrepareResponse> done) = 0;
  virtual std::unique_ptr<Outgoing<v1::ConnectRequest>> Connect(
      const WorkerTarget& worker, Incoming<v1::ConnectResponse> incoming) = 0;
  virtual std::unique_ptr<Outgoing<v1::Command>> Run(const WorkerTarget& worker,
                                                     Incoming<v1::Event> incoming) = 0;
  virtual void SaveShard(const WorkerTarget& worker, const v1::SaveShardRequest& request,
                         Timeout timeout, Done<v1::SaveShardResponse> done) = 0;
  virtual std::unique_ptr<Outgoing<v1::WorkerLogsRequest>> Logs(
      const WorkerTarget& worker, const v1::WorkerLogsRequest& request,
      Incoming<v1::LogLine> incoming) = 0;
  virtual void Inspect(const WorkerTarget& worker, Timeout timeout,
                       Done<v1::WorkerInspectResponse> done) = 0;
  virtual void Dump(const WorkerTarget& worker, Timeout timeout,
                    Done<v1::WorkerDumpResponse> done) = 0;
  virtual void Abort(const WorkerTarget& worker, const v1::AbortRequest& request, Timeout timeout,
                     Done<v1::AbortResponse> done) = 0;
  virtual void Release(const WorkerTarget& worker, const v1::ReleaseRequest& request,
                       Timeout timeout, Done<v1::ReleaseResponse> done) = 0;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_WORKER_TRANSPORT_H_
