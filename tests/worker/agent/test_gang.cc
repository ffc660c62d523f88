#include "tests/worker/agent/test_gang.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/access/call_credentials.h"
#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/net/grpc_endpoint.h"
#include "common/net/grpc_status.h"
#include "common/plan/checks/plan_bytes.h"
#include "tests/support/eventually.h"

namespace coxswain::agent {
namespace {

std::chrono::system_clock::time_point Deadline() {
  return std::chrono::system_clock::now() + support::kTestDeadline;
}

}  // namespace

TestRegistry::TestRegistry(uint64_t term, int port) : term_(term) {
  SocketAddress listen{"127.0.0.1", port};
  grpc::ServerBuilder builder;
  builder.RegisterService(this);
  auto server = StartServer(&builder, &listen, grpc::InsecureServerCredentials());
  if (!server.ok()) {
    std::cerr << server.status() << "\n";
    std::abort();
  }
  server_ = std::move(*server);
  port_ = listen.port;
}

TestRegistry::~TestRegistry() { server_->Shutdown(std::chrono::system_clock::now()); }

std::string TestRegistry::address() const { return absl::StrCat("127.0.0.1:", port_); }

void TestRegistry::RefuseWith(grpc::Status status) {
  std::lock_guard<std::mutex> lock(mu_);
  refusal_ = std::move(status);
}

void TestRegistry::RefuseGangs(grpc::Status status) {
  std::lock_guard<std::mutex> lock(mu_);
  refusal_of_gangs_ = std::move(status);
}

void TestRegistry::AskToRegisterAgain() {
  std::lock_guard<std::mutex> lock(mu_);
  register_again_ = true;
}

std::vector<v1::RegisterRequest> TestRegistry::registrations() const {
  std::lock_guard<std::mutex> lock(mu_);
  return registrations_;
}

std::optional<v1::HeartbeatRequest> TestRegistry::last_beat() const {
  std::lock_guard<std::mutex> lock(mu_);
  return last_beat_;
}

int TestRegistry::beats() const {
  std::lock_guard<std::mutex> lock(mu_);
  return beats_;
}

int TestRegistry::refusals() const {
  std::lock_guard<std::mutex> lock(mu_);
  return refusals_;
}

std::vector<std::string> TestRegistry::authorizations() const {
  std::lock_guard<std::mutex> lock(mu_);
  return authorizations_;
}

void TestRegistry::Note(const grpc::ServerContext& call) {
  std::lock_guard<std::mutex> lock(mu_);
  authorizations_.push_back(access::ReadCallCredentials(call).authorization);
}

grpc::Status TestRegistry::Register(grpc::ServerContext* call, const v1::RegisterRequest* request,
                                    v1::RegisterResponse* response) {
  Note(*call);
  std::lock_guard<std::mutex> lock(mu_);
  if (!refusal_.ok()) {
    ++refusals_;
    return refusal_;
  }
  if (!refusal_of_gangs_.ok() && request->has_current()) {
    ++refusals_;
    return refusal_of_gangs_;
  }
  registrations_.push_back(*request);
  register_again_ = false;
  response->set_worker_id(absl::StrCat(request->host(), "/", request->slot()));
  response->set_term(term_);
  response->set_heartbeat_interval_ms(20);
  return grpc::Status::OK;
}

grpc::Status TestRegistry::Heartbeat(
    grpc::ServerContext* call,
    grpc::ServerReaderWriter<v1::HeartbeatResponse, v1::HeartbeatRequest>* stream) {
  Note(*call);
  v1::HeartbeatRequest beat;
  while (stream->Read(&beat)) {
    v1::HeartbeatResponse response;
    response.set_term(term_);
    {
      std::lock_guard<std::mutex> lock(mu_);
      last_beat_ = beat;
      ++beats_;
      response.set_register_again(register_again_);
    }
    if (!stream->Write(response)) break;
  }
  return grpc::Status::OK;
}

plan::Plan TestPlan(int ranks) {
  plan::Plan plan;
  plan.job = "job-1";
  plan.recipe_hash = std::string(32, 'r');
  plan.model_path = "/models/none";
  plan.model.architecture = "Qwen2ForCausalLM";
  plan.model.vocab_size = 1000;
  plan.model.hidden_size = 8;
  plan.model.intermediate_size = 16;
  plan.model.num_layers = 1;
  plan.model.num_heads = 2;
  plan.model.num_kv_heads = 1;
  plan.model.head_dim = 4;
  plan.model.layer_windows = {0};
  plan.architecture = model::ArchitectureOf(plan.model);
  model::Parameter embedding = model::BaseParameterTable(plan.architecture).front();
  embedding.group = 0;
  plan.parameters = {embedding};
  plan::ParameterGroup group;
  group.name = "weights";
  group.expected_elements = 8000;
  plan.groups = {group};
  plan.buffers = {{"weights", plan::MemoryClass::kWeights, 1000, ""}};
  plan.replicate = ranks;
  plan.sequence_len = 64;
  plan.lm_head_chunk_tokens = 16;
  return plan;
}

v1::Bins OneBin(int64_t bin_id, const std::vector<int32_t>& tokens) {
  v1::Bins bins;
  bins.add_bin_ids(bin_id);
  bins.add_documents_per_bin(1);
  bins.add_document_lengths(static_cast<int32_t>(tokens.size()));
  bins.set_token_ids(std::string(reinterpret_cast<const char*>(tokens.data()), 4 * tokens.size()));
  std::string bits((tokens.size() + 7) / 8, '\0');
  for (size_t t = 0; t + 1 < tokens.size(); ++t) bits[t / 8] |= static_cast<char>(1 << (t % 8));
  bins.set_targets(bits);
  return bins;
}

int64_t Targets(const v1::Bins& bins) {
  int64_t targets = 0;
  for (const unsigned char byte : bins.targets()) targets += __builtin_popcount(byte);
  return targets;
}

RunStreamClient::RunStreamClient(v1::Worker::Stub* stub) {
  context_.set_deadline(Deadline());
  stream_ = stub->Run(&context_);
}

RunStreamClient::~RunStreamClient() { context_.TryCancel(); }

std::optional<v1::Event> RunStreamClient::Receive() {
  v1::Event event;
  if (!stream_->Read(&event)) return std::nullopt;
  return event;
}

TestRank::TestRank(WorkerNode* node, int rank, int world_size, uint64_t epoch, uint64_t term,
                   const std::string& job)
    : TestRank(node->address(), node->incarnation(), rank, world_size, epoch, term, job) {}

TestRank::TestRank(const std::string& address, const std::string& incarnation, int rank,
                   int world_size, uint64_t epoch, uint64_t term, const std::string& job)
    : rank(rank),
      world_size(world_size),
      plan_bytes_([&] {
        plan::Plan plan = TestPlan(world_size);
        plan.job = job;
        return plan::SerializePlan(plan);
      }()),
      stub_(v1::Worker::NewStub(NewChannel(address, grpc::InsecureChannelCredentials()))) {
  fence.set_store("store-a");
  fence.set_term(term);
  fence.set_job(job);
  fence.set_epoch(epoch);
  fence.set_worker_incarnation(incarnation);
  fence.set_plan_hash(plan::PlanHash(plan_bytes_));
}

v1::PrepareRequest TestRank::PrepareRequest() const {
  v1::PrepareRequest request;
  *request.mutable_fence() = fence;
  request.set_rank(rank);
  request.set_world_size(world_size);
  request.set_plan(plan_bytes_);
  return request;
}

absl::StatusOr<v1::PrepareResponse> TestRank::Prepare(const std::string& checkpoint_dir) {
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  v1::PrepareRequest request = PrepareRequest();
  request.set_checkpoint_dir(checkpoint_dir);
  v1::PrepareResponse response;
  const absl::Status status = FromGrpc(stub_->Prepare(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

v1::Command TestRank::Command(uint64_t seq) const {
  v1::Command command;
  *command.mutable_fence() = fence;
  command.set_seq(seq);
  return command;
}

v1::Command TestRank::Train(uint64_t seq, int64_t step, const v1::Bins& bins,
                            int64_t denominator) const {
  v1::Command command = Command(seq);
  command.mutable_train()->set_step(step);
  *command.mutable_train()->mutable_bins() = bins;
  command.mutable_train()->set_loss_denominator(denominator);
  command.mutable_train()->set_learning_rate(1e-3);
  return command;
}

absl::Status TestRank::Abort(const std::string& reason, uint64_t gang_term) {
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  v1::AbortRequest request;
  *request.mutable_fence() = fence;
  request.set_reason(reason);
  request.set_gang_term(gang_term);
  v1::AbortResponse response;
  return FromGrpc(stub_->Abort(&context, request, &response));
}

absl::Status TestRank::Release() {
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  v1::ReleaseRequest request;
  *request.mutable_fence() = fence;
  v1::ReleaseResponse response;
  return FromGrpc(stub_->Release(&context, request, &response));
}

absl::StatusOr<v1::SaveShardResponse> TestRank::SaveShard(int64_t step,
                                                          const std::string& directory) {
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  v1::SaveShardRequest request;
  *request.mutable_fence() = fence;
  request.set_step(step);
  request.set_directory(directory);
  v1::SaveShardResponse response;
  const absl::Status status = FromGrpc(stub_->SaveShard(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

v1::WorkerInspectResponse TestRank::Inspect() {
  grpc::ClientContext context;
  context.set_deadline(Deadline());
  v1::WorkerInspectResponse response;
  stub_->Inspect(&context, v1::WorkerInspectRequest(), &response);
  return response;
}

absl::Status ConnectAll(const std::vector<TestRank*>& ranks, const std::string& gemm_table) {
  struct Peer {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::ConnectRequest, v1::ConnectResponse>> stream;
    std::mutex writing;
  };
  std::vector<std::unique_ptr<Peer>> peers;
  for (TestRank* rank : ranks) {
    peers.push_back(std::make_unique<Peer>());
    peers.back()->context.set_deadline(Deadline());
    peers.back()->stream = rank->stub()->Connect(&peers.back()->context);
    v1::ConnectRequest hello;
    *hello.mutable_fence() = rank->fence;
    hello.set_gemm_table(gemm_table);
    peers.back()->stream->Write(hello);
  }
  std::vector<absl::Status> results(ranks.size());
  std::vector<std::thread> relays;
  for (size_t r = 0; r < ranks.size(); ++r) {
    relays.emplace_back([&, r] {
      v1::ConnectResponse response;
      bool done = false;
      while (peers[r]->stream->Read(&response)) {
        if (response.has_done()) {
          done = true;
          ranks[r]->group_fingerprint = response.done().fingerprint();
          if (response.done().has_error()) {
            results[r] = absl::UnavailableError(response.done().error().message());
          }
          continue;
        }
        v1::ConnectRequest relay;
        relay.set_key(response.set().key());
        relay.set_value(response.set().value());
        for (size_t peer = 0; peer < ranks.size(); ++peer) {
          if (peer == r) continue;
          std::lock_guard<std::mutex> lock(peers[peer]->writing);
          peers[peer]->stream->Write(relay);
        }
      }
      if (!done) results[r] = FromGrpc(peers[r]->stream->Finish());
    });
  }
  for (auto& relay : relays) relay.join();
  for (const absl::Status& result : results) {
    if (!result.ok()) return result;
  }
  return absl::OkStatus();
}

WorkerOptions TestOptions(const TestRegistry& registry, int slot) {
  WorkerOptions options;
  options.controller = registry.address();
  options.slot = slot;
  options.open = true;  // the registry above knows no token
  options.memory_bytes = 1 << 30;
  options.exit = [](int code, const std::string& why) {
    std::cerr << "worker asked to exit " << code << ": " << why << "\n";
    std::abort();
  };
  return options;
}

}  // namespace coxswain::agent
