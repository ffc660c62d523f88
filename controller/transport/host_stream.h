// One gRPC stream to the relay of a host, which carries the Run streams of workers there.
#ifndef COXSWAIN_CONTROLLER_TRANSPORT_HOST_STREAM_H_
#define COXSWAIN_CONTROLLER_TRANSPORT_HOST_STREAM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <grpcpp/channel.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/access/call_credentials.h"
#include "common/mutex.h"
#include "common/net/queued_call.h"
#include "controller/transport/open_calls.h"
#include "controller/transport/worker_transport.h"
#include "coxswain/v1/relay_service.pb.h"

namespace coxswain {

// Commands gather until a Flush of any stream of the host, so that a step goes out as one message.
// It ends with the last of its streams; when it breaks, each of them closes with UNAVAILABLE naming
// worker and relay. Jobs that share a host share it and do not see each other.
class HostStream : public std::enable_shared_from_this<HostStream> {
 public:
  // Loop thread.
  HostStream(std::shared_ptr<OpenCalls> calls, std::shared_ptr<grpc::Channel> channel,
             access::SignCall sign);
  ~HostStream();

  void Begin();  // once
  // Loop thread. Null when this one has ended: the next takes the worker.
  std::unique_ptr<CommandStream> Open(const WorkerTarget& worker,
                                      const Incoming<v1::Event>& incoming);

 private:
  friend class RelayedCommands;

  struct Stream {
    uint64_t number = 0;
    std::string name;  // of the worker
    std::function<void(v1::Event)> on_arrival;
    Incoming<v1::Event> incoming;  // loop thread only
    bool half_closed = false;      // guarded by mu_ of the host
  };
  using Streams = std::map<uint64_t, std::shared_ptr<Stream>>;

  void Write(Stream& stream, const SharedCommand& shared, const v1::Command& own);
  void WritesDone(Stream& stream);
  void Drop(Stream& stream);
  void Flush();
  void FlushLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::StreamCommand* Add(const Stream& to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Arrived(const v1::HostEvents& message);
  void Deliver(const std::shared_ptr<Stream>& stream, const std::string& bytes);
  void Close(const std::shared_ptr<Stream>& stream, const absl::Status& status);
  void Broken(const absl::Status& status);

  const std::shared_ptr<OpenCalls> calls_;
  const std::shared_ptr<grpc::Channel> channel_;
  const access::SignCall sign_;  // may be empty
  std::shared_ptr<QueuedCall<v1::HostCommands, v1::HostEvents>> call_;
  Mutex mu_;
  Streams streams_ ABSL_GUARDED_BY(mu_);            // opened, and not known to be closed
  v1::HostCommands gathered_ ABSL_GUARDED_BY(mu_);  // not yet handed to call_
  size_t gathered_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of its commands
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_TRANSPORT_HOST_STREAM_H_
