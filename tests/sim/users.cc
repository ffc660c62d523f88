#include "tests/sim/users.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/operations.h"

namespace coxswain::sim {
namespace {

constexpr int64_t kPatienceMs = 5000;  // for an answer
constexpr int64_t kPauseMs = 700;      // before a request is made again

}  // namespace

void Users::Begin(Request request) {
  ++open_;
  Ask(std::make_shared<Request>(std::move(request)));
}

void Users::Ask(std::shared_ptr<Request> request) {
  const int attempt = ++request->attempt;
  const bool delivered = deliver_([this, request, attempt](api::Context& context) {
    request->send(context, [this, request, attempt](const Answer& answer) {
      Hear(request, attempt, answer);
    });
  });
  AskAgain(request, delivered ? kPatienceMs : kPauseMs);
}

// Unless an answer to the present attempt comes before.
void Users::AskAgain(const std::shared_ptr<Request>& request, int64_t delay_ms) {
  agenda_->After(delay_ms, [this, request, attempt = request->attempt] {
    if (!request->settled && request->attempt == attempt) Ask(request);
  });
}

void Users::Hear(const std::shared_ptr<Request>& request, int attempt, const Answer& answer) {
  if (!crash_->Pass() || request->settled || request->attempt != attempt) return;
  if (request->lost_answers > 0) {
    --request->lost_answers;
    return;
  }
  if (absl::IsUnavailable(answer.status())) {
    ++request->attempt;
    AskAgain(request, kPauseMs);
    return;
  }
  request->settled = true;
  --open_;
  request->answered(answer);
}

// Storage that cannot be read refuses a job that can be submitted later.
void Users::Submit(const std::string& name, const std::string& yaml, int lost_answers) {
  v1::SubmitRequest submit;
  submit.set_yaml(yaml);
  submit.set_yaml_path("/job.yaml");
  submit.set_idempotency_key("key-" + name);
  Begin({.send =
             [submit](api::Context& context, api::Reply<v1::Job> reply) {
               api::Submit(context, submit, {.role = access::Role::kOperator}, std::move(reply));
             },
         .answered =
             [this, name, yaml](const Answer& answer) {
               if (answer.ok()) {
                 rules_->Accepted(name, answer->id());
                 ids_[name] = answer->id();
               } else {
                 agenda_->After(kPauseMs, [this, name, yaml] { Submit(name, yaml, 0); });
               }
             },
         .lost_answers = lost_answers});
}

// A job that is asked to stop now, while its gang of the controller before is awaited or entered,
// lets that gang go.
void Users::LookForAwaited(const api::Context& context, const std::string& name) {
  const absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(name);
  if (!job.ok()) return;
  const bool drains = (*job)->phase() == v1::JOB_STATE_DRAINING;
  const bool enters = (*job)->phase() == v1::JOB_STATE_ADMITTED;
  if (enters || ((*job)->job().has_readoption() && !drains)) rules_->LetGo((*job)->job().id());
}

// Of a job that has ended, or writes its artifacts, nothing is cancelled; nor twice.
void Users::Cancel(const std::string& name, bool with_checkpoint, int lost_answers) {
  Begin({.send =
             [this, name, with_checkpoint](api::Context& context, api::Reply<v1::Job> reply) {
               LookForAwaited(context, name);
               v1::CancelRequest request;
               request.set_job(name);
               request.set_checkpoint(with_checkpoint);
               api::Cancel(context, request, std::move(reply));
             },
         .answered =
             [this](const Answer& answer) {
               if (answer.ok()) rules_->Cancelled(answer->id());
             },
         .lost_answers = lost_answers});
}

// One that nobody knows yet is not cordoned.
void Users::CordonFor(const std::string& target, int64_t ms, int lost_answers) {
  Begin({.send =
             [target](api::Context& context, const api::Reply<v1::Job>& reply) {
               v1::CordonRequest request;
               request.set_target(target);
               api::Cordon(context, request, [reply](const auto& response) {
                 response.ok() ? reply(v1::Job()) : reply(response.status());
               });
             },
         .answered =
             [this, target, ms](const Answer& answer) {
               if (answer.ok()) agenda_->After(ms, [this, target] { Uncordon(target); });
             },
         .lost_answers = lost_answers});
}

void Users::Uncordon(const std::string& target) {
  Begin({.send =
             [target](api::Context& context, const api::Reply<v1::Job>& reply) {
               v1::UncordonRequest request;
               request.set_target(target);
               api::Uncordon(context, request, [reply](const auto& response) {
                 response.ok() ? reply(v1::Job()) : reply(response.status());
               });
             },
         .answered = [](const Answer&) {}});
}

void Users::PauseFor(const std::string& name, int64_t ms, int lost_answers) {
  Begin({.send =
             [this, name](api::Context& context, api::Reply<v1::Job> reply) {
               LookForAwaited(context, name);
               v1::PauseRequest request;
               request.set_job(name);
               api::Pause(context, request, std::move(reply));
             },
         .answered =
             [this, name, ms](const Answer& answer) {
               if (answer.ok()) agenda_->After(ms, [this, name] { Resume(name); });
             },
         .lost_answers = lost_answers});
}

// A job that still drains is resumed when it is PAUSED; one that has ended is not.
void Users::Resume(const std::string& name) {
  Begin({.send =
             [name](api::Context& context, api::Reply<v1::Job> reply) {
               v1::ResumeRequest request;
               request.set_job(name);
               api::Resume(context, request, std::move(reply));
             },
         .answered =
             [this, name](const Answer& answer) {
               if (answer.status().message().find("is DRAINING") == std::string::npos) return;
               agenda_->After(kPatienceMs, [this, name] { Resume(name); });
             }});
}

}  // namespace coxswain::sim
