#include "worker/agent/worker_node.h"

#include <unistd.h>

#include <utility>

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>

#include "common/access/page_guard.h"
#include "common/access/secret_file.h"
#include "common/files/hash.h"
#include "common/host.h"
#include "common/identity.h"
#include "common/logging.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "worker/agent/host_info.h"

namespace coxswain::agent {
namespace {

constexpr char kHealthName[] = "coxswain.v1.Worker";  // SERVING while registered
constexpr std::chrono::seconds kShutdownGrace{2};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerNode>> WorkerNode::Start(WorkerOptions options) {
  std::unique_ptr<WorkerNode> node(new WorkerNode(std::move(options)));
  RETURN_IF_ERROR(node->StartServers());
  RETURN_IF_ERROR(node->StartRegistry());
  return node;
}

// Who holds the secret of the file reads pages as an operator does.
HttpServer::Guard WorkerNode::PageGuard() const {
  if (options_.open || options_.open_pages) return nullptr;
  const access::Door door({.bearer = [file = options_.pages_token_file](const std::string& token)
                               -> absl::StatusOr<access::Principal> {
    if (file.empty()) return absl::UnauthenticatedError("no token is taken here");
    ASSIGN_OR_RETURN(const std::string secret, access::ReadSecret(file));
    if (Sha256(secret) == Sha256(token)) return access::Principal{access::Role::kOperator};
    return absl::UnauthenticatedError("the token is not that of --pages-token-file");
  }});
  return [door](const HttpCaller& caller) { return access::RefusePage(door, caller); };
}

absl::Status WorkerNode::StartServers() {
  ASSIGN_OR_RETURN(SocketAddress listen, ParseSocketAddress(options_.listen));
  ASSIGN_OR_RETURN(const auto credentials,
                   ServerCredentials(listen, options_.tls, options_.insecure));
  hello_.set_incarnation(NewUuid());
  const std::string host = options_.host_id.empty() ? HostName() : options_.host_id;
  hello_.set_host(CleanText(host, kMostNameBytes));
  hello_.set_slot(options_.slot);
  hello_.set_relay_address(options_.relay);
  hello_.set_supervisor(options_.supervisor_id);
  hello_.set_supervisor_address(options_.supervisor);
  hello_.set_pid(getpid());
  hello_.mutable_build()->set_version(std::string(BuildVersion()));
  hello_.mutable_build()->set_commit(std::string(BuildCommit()));
  hello_.mutable_build()->set_device(options_.device);
  hello_.mutable_build()->set_protocol(kWireProtocol);
  hello_.set_device_name(CleanText(options_.device_name, kMostNameBytes));
  hello_.set_memory_bytes(options_.memory_bytes);
  hello_.set_host_memory_bytes(MemoryLimitBytes());
  hello_.set_threads(options_.threads);
  hello_.set_compute_capability(options_.compute_capability);
  hello_.set_product_flops_per_second(options_.probe.product_flops_per_second);
  hello_.set_copy_bytes_per_second(options_.probe.copy_bytes_per_second);
  hello_.set_gpu(options_.gpu);
  hello_.set_numa_node(options_.numa_node);
  SocketAddress reachable = listen;
  if (!options_.advertise.empty()) {
    reachable.host = options_.advertise;
  } else if (listen.host == "0.0.0.0" || listen.host == "::") {
    reachable.host = HostName();
  }

  AgentOptions agent;
  agent.incarnation = hello_.incarnation();
  agent.host = hello_.host();
  agent.host_id = options_.host_id;
  agent.device_name = hello_.device_name();
  agent.pci_bus = options_.pci_bus;
  agent.build = hello_.build();
  agent.threads = options_.threads;
  agent.interface_address = reachable.host;
  agent.abort_deadline = options_.abort_deadline;
  agent.on_abort_deadline = [exit = options_.exit](const std::string& why) {
    exit(kExitAbortDeadline, why);
  };
  agent.on_device_lost = [exit = options_.exit](const std::string& why) {
    exit(kExitDeviceLost, why);
  };
  agent.on_connected = options_.on_connected;
  agent_ = std::make_unique<Agent>(std::move(agent), &metrics_);
  join_token_ = std::make_shared<access::JoinToken>(options_.join_token_file, options_.controller);
  service_ = std::make_unique<Service>(
      agent_.get(), access::Door({.open = options_.open,
                                  .role_uri = options_.role_uri,
                                  .join_tokens = [token = join_token_] { return token->Held(); }}));
  if (options_.open) log::Warning("--open: this worker obeys whoever reaches its port");

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.RegisterService(service_.get());
  ASSIGN_OR_RETURN(server_, StartServer(&builder, &listen, credentials));
  server_->GetHealthCheckService()->SetServingStatus(kHealthName, false);
  reachable.port = listen.port;
  hello_.set_address(reachable.text());
  if (!options_.metrics.empty()) {
    ASSIGN_OR_RETURN(metrics_server_,
                     ServeMetrics(options_.metrics, metrics_.registry(), PageGuard()));
    hello_.set_metrics_address(metrics_server_->address());
  }
  return absl::OkStatus();
}

absl::Status WorkerNode::StartRegistry() {
  ASSIGN_OR_RETURN(const SocketAddress controller, ParseSocketAddress(options_.controller));
  ASSIGN_OR_RETURN(const auto credentials,
                   ChannelCredentials(controller, options_.tls, options_.insecure));
  RegistryClientOptions client;
  client.channel = NewChannel(controller.text(), credentials, /*own_connection=*/true);
  client.sign = access::SignByJoinToken(access::Role::kWorker,
                                        [token = join_token_] { return token->Held(); });
  client.hello = hello_;
  client.memory_now = options_.memory_now;
  client.controller_grace = options_.controller_grace;
  client.slot_grace = options_.slot_grace;
  client.on_refused = [exit = options_.exit](const absl::Status& status) {
    exit(kExitRefused, status.ToString());
  };
  client.on_registered = [server = server_.get(), tell = options_.on_registered](bool registered) {
    server->GetHealthCheckService()->SetServingStatus(kHealthName, registered);
    if (tell) tell(registered);
  };
  registry_ = std::make_unique<RegistryClient>(std::move(client), agent_.get());
  return absl::OkStatus();
}

WorkerNode::~WorkerNode() {
  registry_ = nullptr;
  if (agent_ != nullptr) agent_->DropEpoch("the worker is stopping");  // what calls wait for
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    server_ = nullptr;
  }
}

void WorkerNode::Drain() {
  log::Info("draining: outstanding commands will finish");
  drain_seq_ = agent_->progress().last_queued_seq;
  drain_quiet_since_ = std::chrono::steady_clock::now();
  registry_->SetDraining();
}

bool WorkerNode::Drained() {
  const Agent::Progress progress = agent_->progress();
  const auto now = std::chrono::steady_clock::now();
  if (progress.outstanding() || progress.last_queued_seq != drain_seq_) {
    drain_seq_ = progress.last_queued_seq;
    drain_quiet_since_ = now;
  }
  if (progress.outstanding()) return false;
  if (progress.current.epoch() == 0 && registry_->drain_known()) return true;
  return !registry_->registered() || now - drain_quiet_since_ >= options_.drain_grace;
}

}  // namespace coxswain::agent
