// Users behind a connection that loses requests and answers: they ask again until they are
// answered, a Submit with its idempotency key. Through the operations of the Jobs service.
#ifndef COXSWAIN_TESTS_SIM_USERS_H_
#define COXSWAIN_TESTS_SIM_USERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "controller/api/context.h"
#include "tests/sim/agenda.h"
#include "tests/sim/crash_point.h"
#include "tests/sim/rules.h"

namespace coxswain::sim {

class Users {
 public:
  // How a request reaches the loop of the present controller; false: there is none.
  using Deliver = std::function<bool(std::function<void(api::Context&)>)>;
  Users(Agenda* agenda, Rules* rules, CrashPoint* crash, Deliver deliver)
      : agenda_(agenda), rules_(rules), crash_(crash), deliver_(std::move(deliver)) {}

  // `lost_answers`: the first so many are.
  void Submit(const std::string& name, const std::string& yaml, int lost_answers);
  void Cancel(const std::string& name, bool with_checkpoint, int lost_answers);
  // Cordons a worker or a host and, `ms` after it was told that it is, uncordons it.
  void CordonFor(const std::string& target, int64_t ms, int lost_answers);
  void Uncordon(const std::string& target);
  // Pauses the job of that name and, `ms` after it was told that it is, resumes it.
  void PauseFor(const std::string& name, int64_t ms, int lost_answers);

  const std::string& id(const std::string& name) const { return ids_.at(name); }
  bool accepted(const std::string& name) const { return ids_.contains(name); }
  // Every request was answered.
  bool content() const { return open_ == 0; }

 private:
  using Answer = absl::StatusOr<v1::Job>;
  struct Request {
    std::function<void(api::Context&, api::Reply<v1::Job>)> send;
    std::function<void(const Answer&)> answered;
    int lost_answers = 0;
    int attempt = 0;
    bool settled = false;
  };
  void Ask(std::shared_ptr<Request> request);
  void AskAgain(const std::shared_ptr<Request>& request, int64_t delay_ms);
  void Hear(const std::shared_ptr<Request>& request, int attempt, const Answer& answer);
  void Begin(Request request);
  void Resume(const std::string& name);
  void LookForAwaited(const api::Context& context, const std::string& name);

  Agenda* const agenda_;
  Rules* const rules_;
  CrashPoint* const crash_;  // an answer is an effect
  const Deliver deliver_;
  std::map<std::string, std::string> ids_;  // by name
  int open_ = 0;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_USERS_H_
