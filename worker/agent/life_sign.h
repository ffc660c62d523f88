// Tells the supervisor once a second that this process lives.
#ifndef COXSWAIN_WORKER_AGENT_LIFE_SIGN_H_
#define COXSWAIN_WORKER_AGENT_LIFE_SIGN_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace coxswain::agent {

// Writes a byte a second to a pipe, from a thread of its own, however long a step, a load or a
// tuning takes. It ends and stops (SIGSTOP) with the process. It falls silent when the object that
// it follows is wedged.
class LifeSign {
 public:
  explicit LifeSign(int fd);  // -1: nobody listens
  ~LifeSign();

  // `look` runs before each byte from now on, and must return for it to be written; empty: nothing
  // runs. Waits for a look in progress.
  void Follow(std::function<void()> look);

 private:
  void Beat();

  const int fd_;
  Mutex looking_;  // held while a look runs
  std::function<void()> look_ ABSL_GUARDED_BY(looking_);
  Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_LIFE_SIGN_H_
