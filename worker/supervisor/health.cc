#include "worker/supervisor/health.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/supervisor/processes.h"

namespace coxswain::supervisor {
namespace {

constexpr char kSupervisor[] = "coxswain.v1.Supervisor";
constexpr char kWorker[] = "coxswain.v1.Worker";
constexpr std::chrono::milliseconds kPeriod{500};

}  // namespace

absl::StatusOr<std::unique_ptr<Health>> Health::Start(const std::string& address,
                                                      std::string state_dir,
                                                      std::chrono::milliseconds stall_limit) {
  std::unique_ptr<Health> health(new Health(std::move(state_dir), stall_limit));
  ASSIGN_OR_RETURN(health->server_, HealthServer::Start(address));
  health->server_->Set(kSupervisor, true);
  health->server_->Set(kWorker, false);
  health->watcher_ = std::thread([health = health.get()] { health->Watch(); });
  return health;
}

Health::~Health() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (watcher_.joinable()) watcher_.join();
}

void Health::Turn(const std::vector<pid_t>& pids) {
  MutexLock lock(mu_);
  last_turn_ = std::chrono::steady_clock::now();
  pids_ = pids;
}

void Health::Watch() {
  MutexLock lock(mu_);
  while (!changed_.WaitFor(lock, kPeriod,
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopping_; })) {
    const bool turns = std::chrono::steady_clock::now() - last_turn_ < stall_limit_;
    const std::vector<pid_t> pids = pids_;
    lock.Unlock();
    server_->Set(kSupervisor, turns);
    server_->Set(kWorker, AllRegistered(pids));
    lock.Lock();
  }
}

bool Health::AllRegistered(const std::vector<pid_t>& pids) const {
  for (size_t slot = 0; slot < pids.size(); ++slot) {
    const auto endpoint = ReadEndpoint(state_dir_, static_cast<int>(slot));
    if (pids[slot] == 0 || !endpoint.ok()) return false;
    if (endpoint->pid != pids[slot] || !endpoint->registered) return false;
  }
  return !pids.empty();
}

}  // namespace coxswain::supervisor
