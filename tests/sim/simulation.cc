#include "tests/sim/simulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/parser/job_parser.h"
#include "tests/sim/controller.h"
#include "tests/sim/fakes/fake_lane_work.h"

namespace coxswain::sim {
namespace {

constexpr int64_t kBeatTravelMs = 2;
constexpr int64_t kRequestTravelMs = 2;
constexpr int64_t kRegisterAgainMs = 300;
constexpr int64_t kControllerGraceMs = 60'000;  // as RegistryClientOptions::controller_grace

}  // namespace

std::string JobYaml(const JobShape& shape) {
  const std::string work =
      shape.answer_tokens > 0
          ? absl::StrCat("  method: generate\n  generate: {prompts: [a, b], max_new_tokens: ",
                         shape.answer_tokens, "}\n")
          : absl::StrCat("  adapter: lora\n  datasets: [{path: /data.jsonl}]\n",
                         "  val_set_size: 3\n", "  train: {max_steps: ", shape.steps,
                         ", global_batch_size: 4}\n  eval: {eval_steps: ", shape.eval_steps,
                         shape.extra_eval, "}\n");
  return absl::StrCat(
      "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: ", shape.name,
      "}\nspec:\n  base_model: ", shape.model, "\n", work, "  checkpoint: {output_dir: ",
      shape.output_dir.empty() ? "/out/" + shape.name : shape.output_dir,
      ", save_steps: ", shape.save_steps, ", save_total_limit: ", shape.save_total_limit,
      ", resume: ", shape.resume, shape.extra_checkpoint, "}\n",
      shape.push_to.empty() ? "" : absl::StrCat("  export: {push_to_hub: ", shape.push_to, "}\n"),
      shape.report_to.empty() ? ""
                              : absl::StrCat("  logging: {report_to: [", shape.report_to, "]}\n"),
      "  resources: {",
      shape.resources.empty() ? absl::StrCat("device: cpu, workers: ", shape.workers)
                              : shape.resources,
      ", max_restarts: ", shape.max_restarts, ", max_restarts_total: ", shape.max_restarts_total,
      ", priority: ", shape.priority, "}\n");
}

Simulation::Simulation(Options options)
    : options_(options),
      workers_(&agenda_, &files_, options.seed * 7919 + 1),
      lanes_(&agenda_, options.seed * 104729 + 3),
      rules_({&store_, &files_, &workers_, options.shape.bins_per_step}),
      users_(&agenda_, &rules_, &crash_,
             [this](auto request) { return Deliver(std::move(request)); }),
      metrics_registry_(std::make_shared<prometheus::Registry>()),
      metrics_(std::make_unique<Metrics>(metrics_registry_)) {
  workers_.set_network(options.network);
  workers_.set_store(&store_);
  workers_.set_on_ended([this](int slot) { RestartWorker(slot, 500); });
  lanes_.set_most_ms(options.lane_most_ms);
  lane_work_ = MakeFakeLaneWork({.shape = options.shape,
                                 .work = options.work,
                                 .files = &faulty_files_,
                                 .prepare_error = &prepare_error_,
                                 .push_error = &push_error_,
                                 .exports = &exports_});
  for (const char* path : {"/model/config.json", "/model/model.safetensors"}) {
    files_.MakeDirs("/model").IgnoreError();
    files_.WriteDurably(path, "").IgnoreError();
  }
  Observe();
  StartController();
  for (int slot = 0; slot < options.workers; ++slot) AddWorker(slot);
}

Simulation::~Simulation() { CrashController(); }

void Simulation::AddWorker(int slot) {
  workers_.Start(slot);
  lost_since_ms_.erase(slot);
  RegisterWorker(slot);
}

void Simulation::StartController() {
  crash_.Revive();
  controller_ = std::make_unique<Controller>(Controller::World{.clock = &clock_,
                                                               .lanes = &lanes_,
                                                               .store = &faulty_store_,
                                                               .files = &faulty_files_,
                                                               .transport = &transport_,
                                                               .lane_work = &lane_work_,
                                                               .metrics = metrics_.get(),
                                                               .settings = options_.settings});
  ++starts_;
  controller_->loop.OnTask([this] { AfterTask(); });
  transport_.Connect(&controller_->loop);
  in_loop_ = true;
  const absl::Status recovered = controller_->jobs->Recover();
  in_loop_ = false;
  if (!recovered.ok()) Note(std::string(recovered.message()));
  ++terms_;
}

void Simulation::CrashController() {
  crash_.Die();
  transport_.Connect(nullptr);
  lanes_.Clear();
  files_.LoseLocks();
  rules_.ControllerGone();
  controller_.reset();
}

void Simulation::KillController(int64_t down_ms) {
  crash_.Die();
  down_ms_ = down_ms;
}

void Simulation::KillControllerAfter(int effects, int64_t down_ms) {
  crash_.Arm(effects);
  down_ms_ = down_ms;
}

// From within its tasks, what was decided is durable first.
void Simulation::StopController(int64_t grace_ms, int64_t down_ms) {
  const auto end = [this, down_ms, start = starts_] {
    if (!up() || starts_ != start || crash_.dead()) return;
    controller_->journal.Flush().IgnoreError();
    if (!crash_.dead()) KillController(down_ms);
  };
  controller_->loop.Post([this, end] { controller_->jobs->Stop(end); });
  agenda_.After(grace_ms, [this, end] {
    if (up()) controller_->loop.Post(end);
  });
}

// Outside of its tasks: what it is made of can go.
void Simulation::Bury() {
  Note("the controller is dead");
  CrashController();
  agenda_.After(down_ms_, [this] {
    if (up()) return;
    Note("the controller starts");
    StartController();
  });
}

void Simulation::RestoreStore(const store::MemoryStore& backup) {
  Note("the store is restored");
  store_ = backup;
  rules_.StoreReplaced();
}

void Simulation::LoseStore() {
  Note("the store is lost");
  store_ = store::MemoryStore(store_.Id() + "-again");
  rules_.StoreReplaced();
}

driver::JobTable& Simulation::jobs() { return *controller_->jobs; }
driver::Deps& Simulation::deps() { return controller_->deps; }
scheduler::Registry& Simulation::registry() { return controller_->registry; }

void Simulation::RegisterWorker(int slot) {
  if (!workers_.alive(slot)) return;
  const v1::RegisterRequest hello = workers_.Hello(slot);
  const bool heard = up() && !in_loop_ && !crash_.dead() && workers_.reachable(slot);
  const auto answer = heard ? controller_->registration.Register(hello)
                            : absl::UnavailableError("there is no controller");
  if (!answer.ok()) {
    LostController(slot);
    agenda_.After(kRegisterAgainMs, [this, slot, incarnation = hello.incarnation()] {
      if (workers_.incarnation(slot) == incarnation) RegisterWorker(slot);
    });
    return;
  }
  lost_since_ms_.erase(slot);
  workers_.SeeTerm(slot, answer->term());
  controller_->beats[slot] = std::make_unique<api::Registration::Beats>(&controller_->registration);
  registrations_[slot] = ++last_registration_;
  Beat(slot, last_registration_);
}

void Simulation::LostController(int slot) {
  const int64_t since_ms = lost_since_ms_.try_emplace(slot, agenda_.now_ms()).first->second;
  if (agenda_.now_ms() - since_ms < kControllerGraceMs) return;
  lost_since_ms_.erase(slot);
  workers_.LoseController(slot);
}

// Beats until the worker registers again; they wait for the loop as in the real service.
void Simulation::Beat(int slot, uint64_t registration) {
  if (!workers_.alive(slot) || registrations_[slot] != registration) return;
  if (!up()) {
    RegisterWorker(slot);
    return;
  }
  if (workers_.reachable(slot)) {
    agenda_.After(kBeatTravelMs, [this, slot, registration, beat = workers_.Beat(slot)] {
      if (!up()) return;
      controller_->loop.Post(
          [this, slot, registration, beat] { OnBeat(slot, registration, beat); });
    });
  }
  agenda_.After(1000, [this, slot, registration] { Beat(slot, registration); });
}

void Simulation::OnBeat(int slot, uint64_t registration, const v1::HeartbeatRequest& beat) {
  if (registrations_[slot] != registration) return;
  const auto stream = controller_->beats.find(slot);
  if (stream == controller_->beats.end()) {  // another controller's stream: it broke
    agenda_.After(0, [this, slot] { RegisterWorker(slot); });
    return;
  }
  const absl::StatusOr<v1::HeartbeatResponse> answer = stream->second->OnBeat(beat);
  if (!answer.ok()) {
    rules_.Report("sim-1", std::string(answer.status().message()));
  } else if (answer->register_again()) {
    agenda_.After(0, [this, slot] { RegisterWorker(slot); });
  } else {
    workers_.SeeTerm(slot, answer->term());
  }
}

void Simulation::StallLoop(int64_t ms) {
  const bool was_in_loop = std::exchange(in_loop_, true);
  const int64_t end = clock_.NowNs() + ms * 1'000'000;
  while (agenda_.NextNs() <= end) {
    clock_.AdvanceTo(agenda_.NextNs());
    agenda_.RunDue();
  }
  clock_.AdvanceTo(end);
  in_loop_ = was_in_loop;
}

void Simulation::SlowDisk(int64_t most_ms, int64_t for_ms) {
  const auto set = [this](int64_t lanes_ms, int64_t save_ms) {
    lanes_.set_most_ms(lanes_ms);
    for (int slot = 0; slot < workers_.slots(); ++slot) {
      workers_.SlowSave(slot, save_ms, absl::OkStatus());
    }
  };
  set(most_ms, most_ms);
  agenda_.After(for_ms, [this, set] { set(options_.lane_most_ms, 0); });
}

void Simulation::StartWorker(int slot, const std::string& device) {
  workers_.set_device(slot, device);
  workers_.Start(slot);
  RegisterWorker(slot);
}

void Simulation::RestartWorker(int slot, int64_t down_ms) {
  if (!workers_.alive(slot)) return;
  workers_.Kill(slot);
  if (up() && controller_->beats.contains(slot)) {
    controller_->loop.Post([beats = std::shared_ptr(std::move(
                                controller_->beats.extract(slot).mapped()))] { beats->Ended(); });
  }
  agenda_.After(down_ms, [this, slot] {
    if (!workers_.alive(slot)) AddWorker(slot);
  });
}

std::string Simulation::Submit(const JobShape& shape, bool paused) {
  store::JobRow row;
  const std::string yaml = JobYaml(shape);
  config::ParsedJob parsed = config::ParseJob(yaml, "/");
  if (!parsed.errors.empty()) {
    std::fputs(config::FormatErrors(parsed.errors, "sim.yaml").c_str(), stderr);
    std::abort();
  }
  row.job.set_id(absl::StrCat(shape.name, "-", ++submitted_));
  row.job.set_name(shape.name);
  row.job.set_yaml(yaml);
  row.job.set_effective_json(parsed.effective_json);
  row.job.set_device(config::DeviceName(parsed.spec.device));
  row.job.set_workers(static_cast<int32_t>(parsed.spec.workers));
  row.job.set_state(paused ? v1::JOB_STATE_PAUSED : v1::JOB_STATE_QUEUED);
  row.base_dir = "/";
  row.order = jobs().NextOrder();
  store::Batch batch;
  batch.new_jobs.push_back(row);
  const std::string id = row.job.id();
  if (!store_.Commit(batch).ok()) return id;
  jobs().Add(std::move(row), std::move(parsed.spec));
  return id;
}

const v1::Job& Simulation::Job(const std::string& id) { return (*jobs().Find(id))->job(); }

std::vector<v1::JobEvent> Simulation::Events(const std::string& id, const std::string& type) {
  if (up()) controller_->journal.Flush().IgnoreError();
  std::vector<v1::JobEvent> events = *store_.Events(id, 0, std::numeric_limits<int64_t>::max());
  std::erase_if(events,
                [&](const v1::JobEvent& event) { return !type.empty() && event.type() != type; });
  return events;
}

bool Simulation::Deliver(std::function<void(api::Context&)> request) {
  if (!up() || crash_.dead()) return false;
  agenda_.After(kRequestTravelMs, [this, request = std::move(request), term = terms_] {
    if (!up() || terms_ != term) return;
    controller_->loop.Post([this, request] { request(controller_->context); });
  });
  return true;
}

void Simulation::Ask(const JobShape& shape, bool may_be_cancelled, int lost_answers) {
  may_cancel_[shape.name] = may_be_cancelled;
  users_.Submit(shape.name, JobYaml(shape), lost_answers);
}

std::string Simulation::AnyJob(Draw& draw) const {
  auto job = may_cancel_.begin();
  std::advance(job, draw.Below(static_cast<int>(may_cancel_.size())));
  return job->first;
}

// One round of what happens at the present moment, else one step of time.
void Simulation::Pump() {
  if (up() && crash_.dead()) {
    Bury();
    return;
  }
  in_loop_ = true;
  const bool ran = up() && controller_->loop.RunReady();
  in_loop_ = false;
  if (ran) return;
  int64_t next = agenda_.NextNs();
  if (up()) next = std::min(next, controller_->loop.NextTimerNs());
  if (next == std::numeric_limits<int64_t>::max()) return;
  clock_.AdvanceTo(next);
  agenda_.RunDue();
}

bool Simulation::RunUntil(std::function<bool()> done, int64_t limit_ms) {
  const int64_t limit_ns = clock_.NowNs() + limit_ms * 1'000'000;
  while (clock_.NowNs() < limit_ns) {
    if (up() && done()) return true;
    Pump();
  }
  return up() && done();
}

bool Simulation::RunUntilState(const std::string& id, v1::JobState state, int64_t limit_ms) {
  return RunUntil([&] { return Job(id).state() == state; }, limit_ms);
}

void Simulation::RunFor(int64_t ms) {
  RunUntil([] { return false; }, ms);
}

void Simulation::Mend() {
  Note("nothing fails any more");
  files_.FailWrites("/out", absl::OkStatus());
  files_.Mount();
  faulty_files_.Mend();
  faulty_store_.Mend();
  transport_.Mend();
  if (!crash_.dead()) crash_.Revive();
  prepare_error_ = absl::OkStatus();
  for (int slot = 0; slot < workers_.slots(); ++slot) workers_.Partition(slot, false);
  users_.Uncordon("sim");  // the host that all are of, should it be left out
}

std::vector<std::string> Simulation::Violations() {
  rules_.AtEnd();
  return rules_.violations();
}

}  // namespace coxswain::sim
