// The seam to workers. GrpcWorkerTransport in production, FakeWorkers (tests/sim) in the simulator.
#ifndef COXSWAIN_CONTROLLER_TRANSPORT_WORKER_TRANSPORT_H_
#define COXSWAIN_CONTROLLER_TRANSPORT_WORKER_TRANSPORT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "coxswain/v1/relay_service.pb.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain {

// Which process to talk to. A message to another incarnation at the same address is refused there.
struct WorkerTarget {
  std::string id;       // "<host>/<slot>"
  std::string address;  // host:port
  std::string incarnation;
  std::string relay = {};  // host:port of the relay that carries its Run stream; empty: none does
  int32_t slot = 0;        // by which the relay and the supervisor know it
  std::string supervisor = {};  // host:port where its supervisor serves Relay; empty: nowhere

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
  // In place of on_message: called at once by the thread that read the message, which it must not
  // hold up. May still be called when the stream was dropped.
  std::function<void(Response)> on_arrival;
  std::function<void(absl::Status)> on_closed;  // once, last
};

// What all ranks get of a command, serialised once. A rank's command is this merged with its own
// part (protobuf: fields of both, submessages of one kind merged).
struct SharedCommand {
  explicit SharedCommand(v1::Command command)
      : message(std::move(command)), bytes(message.SerializeAsString()) {}
  const v1::Command message;
  const std::string bytes;
};

// The controller's side of a Run stream; as Outgoing. Different streams may be written at the same
// time by different threads.
//
// What is written goes out at the latest with a Flush of any stream to the same host: commands of
// one step to its workers then travel together where a relay carries them.
//
// After an event the next one is read when a command has been written (ReadTime::kLate), where the
// worker is dialled. Who has no command to write calls Listen.
class CommandStream {
 public:
  virtual ~CommandStream() = default;
  virtual void Write(const SharedCommand& shared, const v1::Command& own) = 0;
  virtual void Flush() = 0;
  virtual void Listen() = 0;
  virtual void WritesDone() = 0;  // flushes
};

// Loop thread only; every callback comes on the loop, never inside the call that starts it. A unary
// call always ends: with its response, the worker's error, or DeadlineExceeded naming the worker.
class WorkerTransport {
 public:
  using Timeout = std::chrono::milliseconds;
  // Of calls whose progress the caller watches otherwise.
  static constexpr Timeout kAsLongAsItTakes = std::chrono::hours(24 * 30);
  template <typename Response>
  using Done = std::function<void(absl::StatusOr<Response>)>;

  virtual ~WorkerTransport() = default;
  virtual void Prepare(const WorkerTarget& worker, const v1::PrepareRequest& request,
                       Timeout timeout, Done<v1::PrepareResponse> done) = 0;
  virtual std::unique_ptr<Outgoing<v1::ConnectRequest>> Connect(
      const WorkerTarget& worker, Incoming<v1::ConnectResponse> incoming) = 0;
  virtual std::unique_ptr<CommandStream> Run(const WorkerTarget& worker,
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
  // Asks the worker's supervisor, if it has told one, to end that incarnation of it.
  virtual void EndWorker(const WorkerTarget& worker, const std::string& reason, Timeout timeout,
                         Done<v1::EndWorkerResponse> done) = 0;
  // Asks the worker's supervisor for the stacks of that incarnation of it, at most so many bytes.
  // FailedPrecondition: it has told of none.
  virtual void Stacks(const WorkerTarget& worker, int64_t most_bytes, Timeout timeout,
                      Done<v1::StacksResponse> done) = 0;
};

// What a call to a worker failed with, by name.

// "worker a/0 at 10.0.0.1:7080", and by which relay.
inline std::string NameOf(const WorkerTarget& worker) {
  return absl::StrCat("worker ", worker.id, " at ", worker.address,
                      worker.relay.empty() ? "" : " by relay ", worker.relay);
}

// What gRPC says by itself gets the name of who was called; an answer of the peer stays as it is.
inline absl::Status CallError(const std::string& called, const char* method,
                              const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
  return absl::Status(status.code(), absl::StrCat(called, ": ", method, ": ", status.message()));
}

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_TRANSPORT_WORKER_TRANSPORT_H_
