// One worker process, assembled: agent, gRPC server, metrics, registry client. main.cc and tests
// start it.
#ifndef COXSWAIN_WORKER_AGENT_WORKER_NODE_H_
#define COXSWAIN_WORKER_AGENT_WORKER_NODE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <grpcpp/server.h>

#include "absl/status/statusor.h"
#include "common/access/join_token.h"
#include "common/gpu_table.h"
#include "common/net/grpc_endpoint.h"
#include "common/net/metrics.h"
#include "worker/agent/agent.h"
#include "worker/agent/registry_client.h"
#include "worker/agent/service.h"
#include "worker/agent/worker_metrics.h"

namespace coxswain::agent {

// The supervisor decides by these exit codes of the process.
inline constexpr int kExitDrained = 0;
inline constexpr int kExitBadConfig = 64;      // never restarted
inline constexpr int kExitAbortDeadline = 70;  // the engine did not stop: restarted
inline constexpr int kExitDeviceLost = 71;     // only a new process can use the GPU: restarted
inline constexpr int kExitRefused = 77;        // another build, or fenced: never restarted

struct WorkerOptions {
  std::string controller;               // host:port
  std::string host_id;                  // in the place of the host's name; empty: that
  int slot = 0;                         // 0-based, unique on the host
  std::string listen = "127.0.0.1:0";   // of the Worker service
  std::string advertise;                // host others reach this one by; empty: that of `listen`
  std::string relay;                    // host:port of what carries Run streams; empty: none does
  std::string supervisor;               // host:port of Relay.EndWorker; empty: nowhere
  std::string supervisor_id;            // UUID of the process that started this one; empty: none
  std::string metrics = "127.0.0.1:0";  // empty: off
  std::string device = "cpu";           // "cpu" | "cuda"
  std::string device_name;              // model of CPU or GPU
  int threads = 1;
  uint64_t memory_bytes = 0;             // a plan may use this much
  std::function<uint64_t()> memory_now;  // RegistryClientOptions::memory_now
  int32_t compute_capability = 0;        // of the GPU, x 10; 0 without one
  GpuProbe probe;                        // of the GPU; nothing where the table knows its rates
  int32_t gpu = 0;                       // its number on the host
  int32_t numa_node = 0;                 // that it hangs on
  std::string pci_bus;                   // its address there; empty without one
  TlsFiles tls;
  bool insecure = false;
  std::string join_token_file;              // empty: what the controller left on this machine
  bool open = false;                        // obeys whoever reaches the port
  std::string role_uri = access::kRoleUri;  // access::Door::Options::role_uri
  bool open_pages = false;                  // whoever reaches `metrics` reads it
  std::string
      pages_token_file;  // who presents this secret reads `metrics` from elsewhere; empty: nobody
  std::chrono::milliseconds controller_grace{60000};
  std::chrono::milliseconds slot_grace{15000};  // RegistryClientOptions::slot_grace
  std::chrono::milliseconds abort_deadline{5000};
  std::chrono::milliseconds drain_grace{10000};  // for the controller to release a draining worker
  std::function<void()> on_connected;  // an engine is ready for its first command; may be empty
  std::function<void(bool registered)> on_registered;  // it changed; may be empty
  // Called on an inner thread when the process must end with this code.
  std::function<void(int exit_code, const std::string& why)> exit;
};

class WorkerNode {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerNode>> Start(WorkerOptions options);
  ~WorkerNode();  // ends streams and epoch

  const std::string& address() const { return hello_.address(); }
  const std::string& metrics_address() const { return hello_.metrics_address(); }
  const std::string& incarnation() const { return hello_.incarnation(); }
  Agent& agent() { return *agent_; }

  // Tells the controller that this worker will leave.
  void Drain();
  // True, after Drain, once every command has finished, and the controller knows and released the
  // epoch, or is gone, or it let `drain_grace` pass without a new command.
  bool Drained();

 private:
  explicit WorkerNode(WorkerOptions options) : options_(std::move(options)) {}
  absl::Status StartServers();
  absl::Status StartRegistry();
  HttpServer::Guard PageGuard() const;

  const WorkerOptions options_;
  std::shared_ptr<access::JoinToken> join_token_;
  v1::RegisterRequest hello_;
  WorkerMetrics metrics_;
  std::unique_ptr<HttpServer> metrics_server_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<RegistryClient> registry_;
  uint64_t drain_seq_ = 0;
  std::chrono::steady_clock::time_point drain_quiet_since_;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_WORKER_NODE_H_
