// The Worker service over the agent: one method per RPC, no decision.
#ifndef COXSWAIN_WORKER_AGENT_SERVICE_H_
#define COXSWAIN_WORKER_AGENT_SERVICE_H_

#include "coxswain/v1/worker_service.grpc.pb.h"
#include "worker/agent/agent.h"

namespace coxswain::agent {

class Service : public v1::Worker::CallbackService {
 public:
  explicit Service(Agent* agent) : agent_(agent) {}

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
  Agent* const agent_;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_SERVICE_H_
