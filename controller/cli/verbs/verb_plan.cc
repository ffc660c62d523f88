#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/schema/recipe_keys.h"
#include "common/files/hash.h"
#include "common/gpu_table.h"
#include "common/host.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/checkpoint/goes_on.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/connect/cluster.h"
#include "controller/cli/jobs/job_file.h"
#include "controller/cli/jobs/job_sources.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/machine/local_resources.h"
#include "controller/cli/machine/state_dir.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"
#include "controller/data/findings.h"
#include "controller/data/prepare/prepare.h"
#include "controller/data/sources/dataset_files.h"
#include "controller/folders/output_place.h"
#include "controller/planner/adapters/adapter_settings.h"
#include "controller/planner/job_recipe.h"
#include "controller/planner/planner.h"
#include "controller/planner/recipe/extension.h"
#include "controller/planner/recipe/recipe.h"

namespace coxswain::cli {
namespace {

struct PlanArgs {
  JobFileArgs file;
  double memory_gib = 0;  // 0: nothing is refused for memory
  int64_t threads = 0;    // 0: every core, shared by the workers
  std::string gpu;        // of the table of GPUs; empty: those of this machine
  std::string output = "table";
  bool verbose = false;
};

// With the name of a GPU no machine is asked: auto is one worker with it.
absl::StatusOr<LocalResources> ChooseNamed(const config::JobSpec& job, const GpuKind& named) {
  if (job.device == config::Device::kCpu) {
    return absl::InvalidArgumentError(
        absl::StrCat("resources.device is cpu, --gpu is ", std::string(named.name),
                     ": leave --gpu out, or set resources.device: auto"));
  }
  LocalResources local;
  if (job.device == config::Device::kAuto) local.chosen.device = config::Device::kCuda;
  if (job.workers == 0) local.chosen.workers = 1;
  local.line = absl::StrCat("device: cuda, workers: ", job.workers == 0 ? 1 : job.workers,
                            " (--gpu ", std::string(named.name), ")");
  return local;
}

// The job, with auto resources as this machine or `named` has them and the settings of its adapter.
absl::StatusOr<config::ParsedJob> ParseHere(Cox* cox, const JobFile& file,
                                            const std::optional<GpuKind>& named) {
  ASSIGN_OR_RETURN(config::ParsedJob job, ParseJobFile(file));
  config::ChosenResources chosen;
  if (named || !config::HasChosenResources(job.spec)) {
    ASSIGN_OR_RETURN(
        const LocalResources local,
        named ? ChooseNamed(job.spec, *named) : ChooseLocally(job.spec, ListGpus(StateDir())));
    cox->err() << local.line << "\n";
    chosen = local.chosen;
    ASSIGN_OR_RETURN(job, ParseJobFile(file, chosen));
  }
  ASSIGN_OR_RETURN(job, BringSources(cox, std::move(job)));
  return planner::TakeOverAdapter(std::move(job), file.yaml, file.base_dir, chosen);
}

struct SourceFindings {
  std::string path;
  std::vector<std::string> files;
  data::Findings findings;
};

// What of the records was not used as it stands, by source.
absl::StatusOr<std::vector<SourceFindings>> FindingsOf(const config::JobSpec& job,
                                                       const data::PreparedData& data) {
  std::vector<SourceFindings> sources;
  for (const auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (const config::DatasetSpec& dataset : *datasets) {
      if (sources.size() == data.findings.size()) return sources;
      ASSIGN_OR_RETURN(data::DatasetFiles files, data::ListDatasetFiles(dataset));
      sources.push_back({dataset.path, std::move(files.paths), data.findings[sources.size()]});
    }
  }
  return sources;
}

// [{path, findings: [{what, name, records, times}]}], with `places` of each where the user asked.
nlohmann::ordered_json FindingsJson(const std::vector<SourceFindings>& sources, bool places) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SourceFindings& source : sources) {
    auto findings = data::PlacedFindingsJson(source.findings, source.files);
    for (auto& finding : findings) {
      if (!places) finding.erase("places");
    }
    list.push_back({{"path", source.path}, {"findings", std::move(findings)}});
  }
  return list;
}

// What changes where the job goes on from a checkpoint under another number of steps. An error
// where what lies there is of another recipe.
absl::Status AddExtension(Files* files, const config::ParsedJob& job, const planner::Recipe& recipe,
                          planner::PlannedJob* planned) {
  config::KeyValues keys = recipe.facts();
  keys.merge(config::RecipeKeys(job.effective_json));
  ASSIGN_OR_RETURN(const std::optional<checkpoint::ResumePoint> point,
                   checkpoint::FindExtended(files, job.spec,
                                            {.hash = ToHex(recipe.hash()),
                                             .stem = ToHex(recipe.stem()),
                                             .total_steps = recipe.total_steps(),
                                             .keys = std::move(keys)}));
  if (!point) return absl::OkStatus();
  planned->advice.push_back(planner::ExtensionText(job.spec, recipe, point->manifest.run.step,
                                                   point->manifest.total_steps));
  return absl::OkStatus();
}

// CPU workers alone: a GPU's memory is known to its worker.
void AddWhatDoesNotFit(planner::PlannedJob* planned) {
  if (planned->plan.device != DeviceKind::kCpu) return;
  const int64_t workers = planned->plan.world_size();
  const std::string line =
      DoesNotFitHere(planned->estimate.total_bytes, workers, MemoryLimitBytes(),
                     PlannableBytes(static_cast<int>(workers)));
  if (!line.empty()) planned->advice.push_back(line);
}

// The workers that the plan is for.
planner::WorkerResources ResourcesOf(const PlanArgs& args, const config::JobSpec& job,
                                     const std::optional<GpuKind>& named) {
  planner::WorkerResources resources;
  resources.memory_bytes = static_cast<uint64_t>(args.memory_gib * 1073741824.0);
  resources.threads = args.threads > 0 ? args.threads : SharedThreads(job.workers);
  if (named) {
    if (args.memory_gib == 0) resources.memory_bytes = named->plannable_bytes();
    resources.compute_capability = named->compute_capability;
    resources.gpu = GpuOf(named->driver_names.front());
  } else if (job.device == config::Device::kCuda) {
    const Gpus gpus = ListGpus(StateDir());
    if (gpus.ok() && !gpus->empty()) resources.gpu = GpuOf(gpus->front());
  }
  return resources;
}

// The same steps as the controller takes before it asks for workers.
absl::StatusOr<std::string> Plan(Cox* cox, const PlanArgs& args) {
  ASSIGN_OR_RETURN(const JobFile file, ReadJobFile(cox, args.file));
  std::optional<GpuKind> named;
  if (!args.gpu.empty()) {
    ASSIGN_OR_RETURN(named, GpuNamed(args.gpu));
  }
  ASSIGN_OR_RETURN(const config::ParsedJob job, ParseHere(cox, file, named));
  if (config::OnlyGenerates(job.spec)) {
    return absl::InvalidArgumentError("method: generate has no steps to plan; run it");
  }
  DiskFiles files;
  RETURN_IF_ERROR(CheckOutputPlace(&files, job.spec));
  RETURN_IF_ERROR(checkpoint::CheckGoesOn(&files, job));
  data::PrepareOptions options;
  options.cache_dir = CacheDir() + "/tokens";
  options.cancelled = [] { return InterruptSignal() != 0; };
  ASSIGN_OR_RETURN(planner::JobFiles read, planner::ReadJobFiles(job.spec, options));
  const data::PreparedData& data = read.data;
  for (const std::string& warning : read.warnings)
    cox->err() << "cox: warning: " << OneLine(warning) << "\n";
  ASSIGN_OR_RETURN(const std::vector<SourceFindings> findings, FindingsOf(job.spec, data));
  for (const SourceFindings& source : findings) {
    if (!args.verbose) break;
    for (const std::string& line : data::FindingLines(source.findings, source.files)) {
      cox->err() << line << "\n";
    }
  }
  ASSIGN_OR_RETURN(const planner::JobRecipe made,
                   planner::MakeJobRecipe(job.spec, options.cancelled, &read));
  const planner::Recipe& recipe = made.recipe;
  ASSIGN_OR_RETURN(planner::PlannedJob planned,
                   planner::MakePlan(job.spec.name, job.spec, read.model, recipe,
                                     ResourcesOf(args, job.spec, named), made.generation));
  RETURN_IF_ERROR(AddExtension(&files, job, recipe, &planned));
  if (args.memory_gib == 0) AddWhatDoesNotFit(&planned);
  if (!IsStructured(args.output)) return planner::FormatPlan(job.spec, recipe, planned, data);
  auto json = nlohmann::ordered_json::parse(planner::PlanJson(job.spec, recipe, planned, data));
  json["data"]["findings"] = FindingsJson(findings, args.verbose);
  return json.dump();
}

int RunPlan(Cox* cox, const PlanArgs& args) {
  const absl::StatusOr<std::string> text = Plan(cox, args);
  if (!text.ok()) return cox->Fail(text.status());
  if (IsStructured(args.output)) {
    PrintStructured(nlohmann::ordered_json::parse(*text), args.output, cox->out());
  } else {
    cox->out() << *text;
  }
  return kOk;
}

}  // namespace

void AddPlan(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<PlanArgs>();
  Verb verb(app, "plan", "Predict memory per rank, steps and time of a job; needs no controller");
  AddJobFileArgs(&verb, &args->file);
  verb.Number("--memory-gib", &args->memory_gib,
              "Memory of one worker; a plan that needs more is refused (default: of --gpu's GPU)")
      .Text("--gpu", &args->gpu,
            "Plan for GPUs of this name instead of those of this machine, e.g. \"H100 SXM\"")
      .Integer("--threads", &args->threads, 1, 1024,
               "CPU threads of one worker (default: every core, shared by the workers)")
      .Flag("-v,--verbose", &args->verbose, "List records that are ignored or changed, by place")
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunPlan(cox, *args); });
}

}  // namespace coxswain::cli
