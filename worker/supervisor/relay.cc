#include "worker/supervisor/relay.h"

#include <unistd.h>

#include <chrono>

#include <grpcpp/server_builder.h>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/net/grpc_endpoint.h"
#include "common/net/grpc_status.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "worker/supervisor/processes.h"
#include "worker/supervisor/relay_stream.h"

namespace coxswain::supervisor {
namespace {

constexpr int64_t kLongestReadingMs = 60'000;
constexpr int64_t kLeastBytes = 1024, kMostBytes = int64_t{1} << 20;

absl::Status CheckLimits(const v1::StacksRequest& request) {
  if (request.limit_ms() < 1 || request.limit_ms() > kLongestReadingMs) {
    return absl::InvalidArgumentError(absl::StrCat("limit_ms is ", request.limit_ms(), ": 1 to ",
                                                   kLongestReadingMs, " are needed"));
  }
  if (request.most_bytes() < kLeastBytes || request.most_bytes() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat("most_bytes is ", request.most_bytes(), ": ",
                                                   kLeastBytes, " to ", kMostBytes, " are needed"));
  }
  return absl::OkStatus();
}

// Whole lines of at most `most` bytes, and how much is missing.
std::string Cut(const std::string& text, size_t most) {
  if (text.size() <= most) return CleanText(text, most);
  const size_t end = text.rfind('\n', most - 1);
  const std::string head = text.substr(0, end == std::string::npos ? most : end + 1);
  return absl::StrCat(CleanText(head, most), "(", text.size() - head.size(),
                      " bytes more are left out)\n");
}

// A stream that ends with its first word.
class RefusedRun : public grpc::ServerBidiReactor<v1::HostCommands, v1::HostEvents> {
 public:
  explicit RefusedRun(const absl::Status& status) { Finish(ToGrpc(status)); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Relay>> Relay::Start(SocketAddress listen,
                                                    const LocalWorkersOptions& workers,
                                                    EndWorkerFn end_worker, StackTaker* stacks) {
  ASSIGN_OR_RETURN(const auto credentials,
                   ServerCredentials(listen, workers.tls, workers.insecure));
  std::unique_ptr<Relay> relay(new Relay(workers, std::move(end_worker), stacks));
  grpc::ServerBuilder builder;
  builder.RegisterService(relay.get());
  ASSIGN_OR_RETURN(relay->server_, StartServer(&builder, &listen, credentials));
  relay->port_ = listen.port;
  return relay;
}

Relay::~Relay() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

absl::Status Relay::Admit(const grpc::CallbackServerContext& call, const char* method) const {
  const access::CallCredentials credentials = access::ReadCallCredentials(call);
  const absl::Status refused = door_.Admit(credentials, method).status();
  if (!refused.ok()) {
    log::Warning("a call is refused: it is none of this supervisor's controller",
                 {{"method", method}, {"peer", credentials.peer}, {"error", refused.ToString()}});
  }
  return refused;
}

grpc::ServerBidiReactor<v1::HostCommands, v1::HostEvents>* Relay::Run(
    grpc::CallbackServerContext* context) {
  if (const absl::Status refused = Admit(*context, "Relay.Run"); !refused.ok()) {
    return new RefusedRun(refused);
  }
  const auto call = std::make_shared<RelayStream>(&workers_);
  call->Begin();
  return call.get();
}

grpc::ServerUnaryReactor* Relay::EndWorker(grpc::CallbackServerContext* context,
                                           const v1::EndWorkerRequest* request,
                                           v1::EndWorkerResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status refused = Admit(*context, "Relay.EndWorker");
  reactor->Finish(ToGrpc(refused.ok() ? End(*request) : refused));
  return reactor;
}

absl::StatusOr<Endpoint> Relay::Find(int slot, const std::string& incarnation) const {
  ASSIGN_OR_RETURN(Endpoint endpoint, workers_.Find(slot));
  if (endpoint.incarnation == incarnation) return endpoint;
  return absl::NotFoundError(absl::StrCat("the worker of slot ", slot, " is process ",
                                          endpoint.incarnation, ", not ", incarnation,
                                          ": that one has ended"));
}

absl::Status Relay::End(const v1::EndWorkerRequest& request) {
  ASSIGN_OR_RETURN(const Endpoint endpoint, Find(request.slot(), request.incarnation()));
  end_worker_(static_cast<int>(workers_.IndexOf(request.slot())), endpoint.pid, request.reason());
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* Relay::Stacks(grpc::CallbackServerContext* context,
                                        const v1::StacksRequest* request,
                                        v1::StacksResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status refused = Admit(*context, "Relay.Stacks");
  absl::StatusOr<v1::ProcessState> process = refused.ok() ? Examine(*request) : refused;
  if (!process.ok()) {
    reactor->Finish(ToGrpc(process.status()));
    return reactor;
  }
  const auto pid = static_cast<pid_t>(process->pid());
  const auto most = static_cast<size_t>(request->most_bytes());
  *response->mutable_process() = *std::move(process);
  stacks_->Take(pid, std::chrono::milliseconds(request->limit_ms()),
                [reactor, response, most](const std::string& text) {
                  response->set_text(Cut(text, most));
                  reactor->Finish(grpc::Status::OK);
                });
  return reactor;
}

// Looked at before a debugger holds it, which shows as a state too.
absl::StatusOr<v1::ProcessState> Relay::Examine(const v1::StacksRequest& request) const {
  RETURN_IF_ERROR(CheckLimits(request));
  ASSIGN_OR_RETURN(const Endpoint endpoint, Find(request.slot(), request.incarnation()));
  const std::optional<ProcessFacts> facts = ReadProcess(endpoint.pid);
  if (!facts || facts->parent != getpid()) {  // its number may be another's by now
    return absl::NotFoundError(absl::StrCat("process ", endpoint.pid, " of slot ", request.slot(),
                                            " is no worker of this supervisor any more"));
  }
  v1::ProcessState process;
  process.set_pid(endpoint.pid);
  process.set_state(CleanText(facts->state, kMostNameBytes));
  process.set_threads(facts->threads);
  process.set_resident_bytes(facts->resident_bytes);
  process.set_cpu_seconds(facts->cpu_seconds);
  process.set_host_load(HostLoad());
  return process;
}

}  // namespace coxswain::supervisor
