// The transport to real workers: one channel per worker address and per relay, gRPC callback API.
#ifndef COXSWAIN_CONTROLLER_TRANSPORT_GRPC_WORKER_TRANSPORT_H_
#define COXSWAIN_CONTROLLER_TRANSPORT_GRPC_WORKER_TRANSPORT_H_

#include <map>
#include <memory>
#include <string>

#include "common/access/call_credentials.h"
#include "common/net/grpc_endpoint.h"
#include "controller/runtime/loop.h"
#include "controller/transport/worker_transport.h"

namespace coxswain {

class HostStream;

class GrpcWorkerTransport : public WorkerTransport {
 public:
  // With `tls` not empty, workers beyond loopback are dialled with these certificates. `sign` is
  // called for every call; it may be empty.
  GrpcWorkerTransport(Loop* loop, TlsFiles tls, bool insecure, access::SignCall sign = {});
  // Cancels every call and waits until gRPC has let go of all of them. No callback runs after.
  ~GrpcWorkerTransport() override;

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
                                                        Incoming<v1::LogLine> incoming) override;
  void Inspect(const WorkerTarget& worker, Timeout timeout,
               Done<v1::WorkerInspectResponse> done) override;
  void Dump(const WorkerTarget& worker, Timeout timeout,
            Done<v1::WorkerDumpResponse> done) override;
  void Abort(const WorkerTarget& worker, const v1::AbortRequest& request, Timeout timeout,
             Done<v1::AbortResponse> done) override;
  void Release(const WorkerTarget& worker, const v1::ReleaseRequest& request, Timeout timeout,
               Done<v1::ReleaseResponse> done) override;
  void EndWorker(const WorkerTarget& worker, const std::string& reason, Timeout timeout,
                 Done<v1::EndWorkerResponse> done) override;
  void Stacks(const WorkerTarget& worker, int64_t most_bytes, Timeout timeout,
              Done<v1::StacksResponse> done) override;

  struct Impl;

 private:
  const std::shared_ptr<Impl> impl_;
  std::map<std::string, std::shared_ptr<HostStream>> hosts_;  // by relay
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_TRANSPORT_GRPC_WORKER_TRANSPORT_H_
