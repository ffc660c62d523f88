// Channels to the workers of one supervisor.
#ifndef COXSWAIN_WORKER_SUPERVISOR_LOCAL_WORKERS_H_
#define COXSWAIN_WORKER_SUPERVISOR_LOCAL_WORKERS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <grpcpp/channel.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/access/door.h"
#include "common/access/join_token.h"
#include "common/mutex.h"
#include "common/net/grpc_endpoint.h"
#include "worker/supervisor/processes.h"

namespace coxswain::supervisor {

struct LocalWorkersOptions {
  std::string state_dir;  // endpoint files
  int first_slot = 0;
  int workers = 1;
  TlsFiles tls = {};  // the workers' certificates; empty: plaintext on loopback
  bool insecure = false;
  std::string controller = {};       // host:port
  std::string join_token_file = {};  // empty: the token that the controller left on this machine
  std::string role_uri = access::kRoleUri;
  bool open = false;  // no access control: obeys whoever reaches the port
};

// The channels are thread-safe.
class LocalWorkers {
 public:
  explicit LocalWorkers(LocalWorkersOptions options)
      : options_(std::move(options)),
        join_token_(
            std::make_shared<access::JoinToken>(options_.join_token_file, options_.controller)) {}

  // The newest endpoint of the worker in `slot`. NotFound names the existing slots. Unavailable:
  // the worker has not started.
  absl::StatusOr<Endpoint> Find(int slot) const;
  // The 0-based place of `slot` among the processes of the supervisor.
  int64_t IndexOf(int slot) const { return int64_t{slot} - options_.first_slot; }  // any `slot`

  // The access check for callers of the supervisor itself.
  access::Door MakeDoor() const;
  // Signs calls, to prove to a worker that the supervisor makes them.
  access::SignCall Sign() const;

  // A channel to the present address of the worker in `slot`. Errors are those of Find.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(int slot);

 private:
  struct Dialled {
    pid_t pid = 0;
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
  };

  const LocalWorkersOptions options_;
  const std::shared_ptr<access::JoinToken> join_token_;
  Mutex mu_;
  // By slot. A worker that was started again gets a new channel.
  std::map<int, Dialled> newest_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_WORKER_SUPERVISOR_LOCAL_WORKERS_H_
