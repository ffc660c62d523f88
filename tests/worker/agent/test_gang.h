// Drives real workers over real gRPC as a controller would: a registry to register at, and a gang
// with the fences, rendezvous relay and step streams.
#ifndef COXSWAIN_TESTS_WORKER_AGENT_TEST_GANG_H_
#define COXSWAIN_TESTS_WORKER_AGENT_TEST_GANG_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "coxswain/v1/registry_service.grpc.pb.h"
#include "coxswain/v1/worker_service.grpc.pb.h"
#include "worker/agent/worker_node.h"

namespace coxswain::agent {

// The Registry side of a controller, on an ephemeral port.
class TestRegistry : public v1::Registry::Service {
 public:
  explicit TestRegistry(uint64_t term = 1, int port = 0);
  ~TestRegistry() override;

  std::string address() const;
  int port() const { return port_; }
  void RefuseWith(grpc::Status status);
  void RefuseGangs(grpc::Status status);  // workers that are in one
  void AskToRegisterAgain();              // with the next beat of every worker

  std::vector<v1::RegisterRequest> registrations() const;
  std::optional<v1::HeartbeatRequest> last_beat() const;
  int beats() const;
  int refusals() const;
  std::vector<std::string> authorizations() const;  // what each call brought along

 private:
  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest*,
                        v1::RegisterResponse*) override;
  grpc::Status Heartbeat(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::HeartbeatResponse, v1::HeartbeatRequest>*) override;

  mutable std::mutex mu_;
  const uint64_t term_;
  int port_ = 0;
  grpc::Status refusal_, refusal_of_gangs_;
  bool register_again_ = false;
  int beats_ = 0, refusals_ = 0;
  void Note(const grpc::ServerContext& call);

  std::vector<v1::RegisterRequest> registrations_;
  std::vector<std::string> authorizations_;
  std::optional<v1::HeartbeatRequest> last_beat_;
  std::unique_ptr<grpc::Server> server_;
};

// A plan that parses; the fake engine reads only its shape.
plan::Plan TestPlan(int ranks);

// One bin of one document holding `tokens`; every position but the last is a target.
v1::Bins OneBin(int64_t bin_id, const std::vector<int32_t>& tokens);
int64_t Targets(const v1::Bins& bins);

// One Run stream. Reads give up at support::kTestDeadline.
class RunStreamClient {
 public:
  explicit RunStreamClient(v1::Worker::Stub* stub);
  ~RunStreamClient();
  bool Send(const v1::Command& command) { return stream_->Write(command); }
  std::optional<v1::Event> Receive();
  void WritesDone() { stream_->WritesDone(); }
  grpc::Status Finish() { return stream_->Finish(); }  // after Receive gave nothing
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::Command, v1::Event>> stream_;
};

// One worker as its gang's rank.
class TestRank {
 public:
  TestRank(WorkerNode* node, int rank, int world_size, uint64_t epoch = 1, uint64_t term = 1,
           const std::string& job = "job-1");
  TestRank(const std::string& address, const std::string& incarnation, int rank, int world_size,
           uint64_t epoch = 1, uint64_t term = 1, const std::string& job = "job-1");

  std::string group_fingerprint;  // told by the last ConnectAll
  v1::Fence fence;
  v1::Worker::Stub* stub() { return stub_.get(); }

  absl::StatusOr<v1::PrepareResponse> Prepare(const std::string& checkpoint_dir = "");
  v1::PrepareRequest PrepareRequest() const;
  v1::Command Command(uint64_t seq) const;  // without kind
  v1::Command Train(uint64_t seq, int64_t step, const v1::Bins& bins, int64_t denominator) const;
  std::unique_ptr<RunStreamClient> Run() { return std::make_unique<RunStreamClient>(stub()); }
  absl::Status Abort(const std::string& reason = "test", uint64_t gang_term = 0);
  absl::Status Release();
  absl::StatusOr<v1::SaveShardResponse> SaveShard(int64_t step, const std::string& directory);
  v1::WorkerInspectResponse Inspect();

  const int rank;
  const int world_size;

 private:
  const std::string plan_bytes_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

// Hands out rank 0's GEMM table and relays rendezvous keys until every rank is connected; the first
// error otherwise.
absl::Status ConnectAll(const std::vector<TestRank*>& ranks, const std::string& gemm_table = "");

// Options of a worker on ephemeral ports, registering at `registry`.
WorkerOptions TestOptions(const TestRegistry& registry, int slot = 0);

}  // namespace coxswain::agent

#endif  // COXSWAIN_TESTS_WORKER_AGENT_TEST_GANG_H_
