// Keeps the worker known to the controller: registers, beats, registers again when the connection
// or the controller was lost.
#ifndef COXSWAIN_WORKER_AGENT_REGISTRY_CLIENT_H_
#define COXSWAIN_WORKER_AGENT_REGISTRY_CLIENT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/access/call_credentials.h"
#include "common/mutex.h"
#include "coxswain/v1/registry_service.pb.h"
#include "worker/agent/agent.h"

namespace coxswain::agent {

struct RegistryClientOptions {
  std::shared_ptr<grpc::Channel> channel;  // shares its connection with no other traffic
  access::SignCall sign;                   // proves who calls; may be empty
  v1::RegisterRequest hello;               // `current` is filled in
  // Its memory_bytes measured again, for beats of an idle worker: what another process had is free
  // when that has gone. 0: not known. May be empty.
  std::function<uint64_t()> memory_now;
  // Epochs outlive their controller this long.
  std::chrono::milliseconds controller_grace{60000};
  // A worker of another supervisor may live in the slot so long: a half-open connection to one that
  // died is noticed meanwhile. As long a controller may not know this worker's join token: one of
  // the two may read a file that is being replaced.
  std::chrono::milliseconds slot_grace{15000};
  // Called when the controller will never take this process (another build, a bad request, no
  // credential of its).
  std::function<void(const absl::Status&)> on_refused;
  std::function<void(bool)> on_registered;  // true: registered, false: the controller is gone
};

// The client runs on a thread of its own from construction to destruction.
class RegistryClient {
 public:
  RegistryClient(RegistryClientOptions options, Agent* agent);
  ~RegistryClient();

  void SetDraining();  // told to the controller at once and in every later beat
  bool registered() const;
  bool drain_known() const;  // the controller has answered a beat that said so

 private:
  using Clock = std::chrono::steady_clock;

  void Loop();
  bool Taken(const absl::Status& status, std::optional<Clock::time_point>* since) const;
  absl::Status Register();
  void Beat();  // until the stream breaks or the controller asks to register again
  void SetRegistered(bool registered);
  bool Sleep(std::chrono::milliseconds time, bool wake_on_drain);  // false: stopping

  const RegistryClientOptions options_;
  Agent* const agent_;

  mutable Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_told_ ABSL_GUARDED_BY(mu_) = false;
  bool drain_known_ ABSL_GUARDED_BY(mu_) = false;
  bool registered_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mu_) = nullptr;  // in progress: Stop cancels it
  std::chrono::milliseconds interval_ ABSL_GUARDED_BY(mu_){1000};
  std::thread thread_;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_REGISTRY_CLIENT_H_
