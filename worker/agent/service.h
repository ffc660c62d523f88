// The Worker service over the agent: one method per RPC. It only decides who may call.
#ifndef COXSWAIN_WORKER_AGENT_SERVICE_H_
#define COXSWAIN_WORKER_AGENT_SERVICE_H_

#include <utility>

#include "common/access/door.h"
#include "coxswain/v1/worker_service.grpc.pb.h"
#include "worker/agent/agent.h"

namespace coxswain::agent {

class Service : public v1::Worker::CallbackService {
 public:
  // Every call passes `door`.
  Service(Agent* agent, access::Door door) : agent_(agent), door_(std::move(door)) {}

  grpc::ServerUnaryReactor* Prepare(grpc::CallbackServerContext* context,
                                    const v1::PrepareRequest* request,
                                    v1::PrepareResponse* response) override;
  grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>* Connect(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::Command, v1::Event>* Run(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* SaveShard(grpc::CallbackServerContext* context,
                                      const v1::SaveShardRequest* request,
                                      v1::SaveShardResponse* response) override;
  grpc::ServerWriteReactor<v1::LogLine>* Logs(grpc::CallbackServerContext* context,
                                              const v1::WorkerLogsRequest* request) override;
  grpc::ServerUnaryReactor* Inspect(grpc::CallbackServerContext* context,
                                    const v1::WorkerInspectRequest* request,
                                    v1::WorkerInspectResponse* response) override;
  grpc::ServerUnaryReactor* Dump(grpc::CallbackServerContext* context,
                                 const v1::WorkerDumpRequest* request,
                                 v1::WorkerDumpResponse* response) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const v1::AbortRequest* request,
                                  v1::AbortResponse* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* response) override;

 private:
  // OK, or the refusal, which is logged.
  absl::Status Admit(const grpc::CallbackServerContext& call, const char* method) const;
  // The call's reactor: finished where the caller may not, else handed to `start`.
  template <typename Start>
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* call, const char* method,
                                  Start start) const;

  Agent* const agent_;
  const access::Door door_;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_SERVICE_H_
