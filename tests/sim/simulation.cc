#include "tests/sim/simulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/job_parser.h"
#include "controller/checkpoint/checkpoint_files.h"

namespace coxswain::sim {
namespace {

constexpr int64_t kBeatTravelMs = 2;

}  // namespace

struct Simulation::Controller {
  Loop loop;
  FanOut fan_out{0};
  scheduler::Registry registry;
  driver::Journal journal;
  driver::Deps deps;
  std::unique_ptr<driver::JobTable> jobs;

  explicit Controller(Simulation* sim)
      : loop(&sim->clock_, Loop::Offloading::kInline),
        registry(&loop, &sim->workers_, scheduler::LeaseTimes{}),
        journal(&loop, &sim->store_),
        deps{.loop = &loop,
             .journal = &journal,
             .files = &sim->files_,
             .transport = &sim->workers_,
             .fan_out = &fan_out,
             .registry = &registry,
             .lane_work = &sim->lane_work_,
             .metrics = sim->metrics_.get(),
             .settings = sim->options_.settings},
        jobs(std::make_unique<driver::JobTable>(deps)) {}
};

std::string JobYaml(const JobShape& shape) {
  return absl::StrCat(
      "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: ", shape.name,
      "}\nspec:\n  base_model: /model\n  adapter: lora\n  datasets: [{path: /data.jsonl}]\n",
      "  val_set_size: 3\n",
      "  train: {max_steps: 12, global_batch_size: 4}\n  eval: {eval_steps: ", shape.eval_steps,
      shape.extra_eval, "}\n  checkpoint: {output_dir: ",
      shape.output_dir.empty() ? "/out/" + shape.name : shape.output_dir,
      ", save_steps: ", shape.save_steps, ", save_total_limit: ", shape.save_total_limit,
      ", resume: ", shape.resume, shape.extra_checkpoint, "}\n  resources: {",
      shape.resources.empty() ? absl::StrCat("device: cpu, workers: ", shape.workers)
                              : shape.resources,
      ", max_restarts: ", shape.max_restarts, ", max_restarts_total: ", shape.max_restarts_total,
      ", priority: ", shape.priority, "}\n");
}

Simulation::Simulation(Options options)
    : options_(options),
      random_(options.seed),
      workers_(&agenda_, &files_, options.seed * 7919 + 1),
      metrics_registry_(std::make_shared<prometheus::Registry>()),
      metrics_(std::make_unique<Metrics>(metrics_registry_)) {
  workers_.set_network(options.network);
  workers_.set_store(&store_);
  workers_.set_on_ended([this](int slot) { RestartWorker(slot, 500); });
  const SyntheticShape shape = options.shape;
  lane_work_.prepare = [this, shape](const config::JobSpec&, const driver::PrepareHooks& hooks)
      -> absl::StatusOr<std::shared_ptr<const driver::Curriculum>> {
    hooks.progress(0.5);
    if (!prepare_error_.ok()) return prepare_error_;
    return std::make_shared<SyntheticCurriculum>(shape);
  };
  lane_work_.plan =
      [work = options.work](const driver::PlanInput& input) -> absl::StatusOr<driver::GangPlan> {
    const std::string bytes = "plan of " + input.job;
    return driver::GangPlan{.bytes = bytes,
                            .hash = Sha256(bytes),
                            .memory = {},
                            .advice = {},
                            .flops_per_token = 1000,
                            .micro_batch_bins = 2,
                            .work = work,
                            .predicted = {},
                            .links_measured = !input.workers.links.empty()};
  };
  lane_work_.export_artifacts =
      [this](const driver::ExportInput& input) -> absl::StatusOr<driver::ExportedTo> {
    const std::string directory = input.spec.output_dir + "/adapter";
    absl::Status made = files_.MakeDirs(directory);
    if (!made.ok()) return made;
    absl::StatusOr<std::string> shard = files_.Read(input.checkpoint_dir + "/rank-0.shard");
    if (!shard.ok()) return shard.status();
    made = files_.WriteDurably(directory + "/model", *shard);
    if (!made.ok()) return made;
    driver::ExportedTo to{.directory = directory, .merged_directory = ""};
    if (!input.spec.export_merge) return to;
    to.merged_directory = input.spec.output_dir + "/model";
    made = files_.MakeDirs(to.merged_directory);
    if (made.ok()) made = files_.WriteDurably(to.merged_directory + "/merged", *shard);
    if (!made.ok()) return made;
    return to;
  };
  StartController();
  for (int slot = 0; slot < options.workers; ++slot) AddWorker(slot);
}

void Simulation::AddWorker(int slot) {
  workers_.Start(slot);
  RegisterWorker(slot);
}

Simulation::~Simulation() { CrashController(); }

void Simulation::StartController() {
  controller_ = std::make_unique<Controller>(this);
  workers_.Connect(&controller_->loop);
  const absl::Status recovered = controller_->jobs->Recover();
  if (!recovered.ok()) history_ += std::string(recovered.message());
  ++terms_;
}

void Simulation::CrashController() {
  workers_.Connect(nullptr);
  files_.LoseLocks();
  controller_.reset();
}

driver::JobTable& Simulation::jobs() { return *controller_->jobs; }
driver::Deps& Simulation::deps() { return controller_->deps; }
scheduler::Registry& Simulation::registry() { return controller_->registry; }

void Simulation::RegisterWorker(int slot) {
  if (!workers_.alive(slot)) return;
  const std::string incarnation = workers_.Hello(slot).incarnation();
  if (!up() || !workers_.reachable(slot) || !registry().Register(workers_.Hello(slot)).ok()) {
    agenda_.After(300, [this, slot, incarnation] {
      if (workers_.Hello(slot).incarnation() == incarnation) RegisterWorker(slot);
    });
    return;
  }
  beat_streams_[slot] = registry().OpenBeatStream();
  registrations_[slot] = ++last_registration_;
  Beat(slot, last_registration_);
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
      controller_->loop.Post([this, slot, registration, beat] {
        if (registrations_[slot] != registration) return;
        if (!registry().Beat(beat, beat_streams_[slot])) RegisterWorker(slot);
      });
    });
  }
  agenda_.After(1000, [this, slot, registration] { Beat(slot, registration); });
}

void Simulation::StallLoop(int64_t ms) {
  const int64_t end = clock_.NowNs() + ms * 1'000'000;
  while (agenda_.NextNs() <= end) {
    clock_.AdvanceTo(agenda_.NextNs());
    agenda_.RunDue();
  }
  clock_.AdvanceTo(end);
}

void Simulation::StartWorker(int slot, const std::string& device) {
  workers_.set_device(slot, device);
  workers_.Start(slot);
  RegisterWorker(slot);
}

void Simulation::RestartWorker(int slot, int64_t down_ms) {
  if (!workers_.alive(slot)) return;
  const std::string incarnation = workers_.Hello(slot).incarnation();
  workers_.Kill(slot);
  if (up()) registry().BeatStreamEnded(incarnation, beat_streams_[slot]);
  agenda_.After(down_ms, [this, slot] { AddWorker(slot); });
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
  batch.jobs.push_back(row);
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

// One round of what happens at the present moment, else one step of time.
void Simulation::Pump() {
  if (up() && controller_->loop.RunReady()) return;
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

void Simulation::ScheduleFaults(int64_t horizon_ms, int faults) {
  for (int i = 0; i < faults; ++i) {
    agenda_.After(static_cast<int64_t>(random_() % static_cast<uint64_t>(horizon_ms)),
                  [this] { InjectFault(); });
  }
}

void Simulation::InjectFault() {
  const int slot = static_cast<int>(random_() % static_cast<uint64_t>(workers_.slots()));
  const auto within = [this](int64_t ms) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(ms)) + 1;
  };
  const auto note = [this](const std::string& what) {
    absl::StrAppend(&history_, clock_.NowNs() / 1'000'000, " ms: ", what, "\n");
  };
  switch (random_() % 8) {
    case 0:
      note(absl::StrCat("kill worker ", slot));
      RestartWorker(slot, within(3000));
      break;
    case 1:
      if (!up()) break;
      note("kill controller");
      CrashController();
      agenda_.After(within(5000), [this] {
        if (!up()) StartController();
      });
      break;
    case 2:
      note(absl::StrCat("break streams of ", slot));
      workers_.BreakStreams(slot);
      break;
    case 3:
      note(absl::StrCat("hang worker ", slot));
      workers_.Hang(slot);
      break;
    case 4:
      note(absl::StrCat("cut worker ", slot));
      workers_.Partition(slot, true);
      agenda_.After(within(9000), [this, slot] { workers_.Partition(slot, false); });
      break;
    case 6:
      note("fill the disk");
      files_.FailWrites("/out", absl::ResourceExhaustedError("no space left"));
      agenda_.After(within(9000), [this] { files_.FailWrites("/out", absl::OkStatus()); });
      break;
    case 7:
      note(absl::StrCat("drain worker ", slot));
      workers_.Drain(slot);
      agenda_.After(within(5000) + 2000, [this, slot] { RestartWorker(slot, 500); });
      break;
    case 5:
      if (!up()) break;
      note("pause, then resume");
      for (driver::JobDriver* job : jobs().NewestFirst()) {
        if (!job->Pause().ok()) continue;
        const std::string id = job->job().id();
        agenda_.After(within(4000) + 60000, [this, id] {
          if (up()) (*jobs().Find(id))->Resume(0).IgnoreError();
        });
      }
      break;
  }
}

std::vector<std::string> Simulation::Violations() {
  std::vector<std::string> out = workers_.violations();
  const auto rows = *store_.Jobs();
  for (const store::JobRow& row : rows) {
    CheckSteps(row.job, &out);
    CheckCheckpoints(row.job, &out);
    CheckEvents(row.job, &out);
    if (row.job.state() == v1::JOB_STATE_SUCCEEDED) CheckLineage(row.job, &out);
  }
  return out;
}

// Rule 2: a committed step was finished by all ranks of its epoch. Rule 6: replays agree.
void Simulation::CheckSteps(const v1::Job& job, std::vector<std::string>* out) {
  std::map<int64_t, uint64_t> bits;
  for (const store::StepRow& row : store_.AllSteps(job.id())) {
    if (!workers_.AllRanksDid(job.id(), row.epoch, row.step)) {
      out->push_back(absl::StrCat(job.id(), ": step ", row.step, " of epoch ", row.epoch,
                                  " is committed but not all ranks did it"));
    }
    const auto [it, first] = bits.emplace(row.step, row.gnorm_bits);
    if (!first && it->second != row.gnorm_bits) {
      out->push_back(absl::StrCat(job.id(), ": step ", row.step, " was replayed with other bits"));
    }
  }
}

// Rule 4: what the store calls committed is there and verifies.
void Simulation::CheckCheckpoints(const v1::Job& job, std::vector<std::string>* out) {
  const auto rows = *store_.Checkpoints(job.id());
  for (const store::CheckpointRow& row : rows) {
    if (row.deleted) continue;
    const auto manifest = checkpoint::VerifyCheckpoint(&files_, row.directory);
    if (!manifest.ok()) out->push_back(std::string(manifest.status().message()));
  }
}

// Rule 3: the exported model saw every batch exactly once, in order.
void Simulation::CheckLineage(const v1::Job& job, std::vector<std::string>* out) {
  const auto text = files_.Read(job.artifact_dir() + "/model");
  if (!text.ok()) {
    out->push_back(std::string(text.status().message()));
    return;
  }
  const FakeModel model = FakeModel::Parse(*text);
  std::vector<int64_t> expected;
  const SyntheticCurriculum curriculum(options_.shape);
  for (int64_t step = 0; step < model.steps; ++step) {
    for (const driver::BinSize& bin : curriculum.step_bins(step)) expected.push_back(bin.id);
  }
  if (model.bins != expected) out->push_back(job.id() + ": the lineage has other batches");
}

// Rule 1: epochs of committed steps never fall. Event ids rise.
void Simulation::CheckEvents(const v1::Job& job, std::vector<std::string>* out) {
  int64_t last_id = 0;
  const auto events = *store_.Events(job.id(), 0, 1 << 30);
  for (const v1::JobEvent& event : events) {
    if (event.id() <= last_id) out->push_back(job.id() + ": event ids do not rise");
    last_id = event.id();
    if (event.type() == "ReplayDivergence") out->push_back(job.id() + ": " + event.message());
  }
}

}  // namespace coxswain::sim
