#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/jobs/export_checkpoint.h"
#include "controller/cli/jobs/job_change.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

struct ExportArgs {
  std::string source;  // JOB[:STEP], or a checkpoint's directory
  std::string base_model;
  std::string target;
  std::string gguf = "none", gguf_adapter = "none";  // types
  bool merge = false;
  bool json = false;
};

std::string WholePath(const std::string& path) {
  if (path.empty()) return path;
  std::string text = std::filesystem::absolute(path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// The checkpoint of `step`, -1: the newest one.
absl::StatusOr<std::string> CheckpointOf(const v1::Job& job, int64_t step) {
  std::string steps;
  for (auto info = job.checkpoints().rbegin(); info != job.checkpoints().rend(); ++info) {
    if (step < 0 || info->step() == step) return info->directory();
    absl::StrAppend(&steps, steps.empty() ? "" : ", ", info->step());
  }
  if (steps.empty()) {
    return absl::NotFoundError(absl::StrCat("job ", job.id(), " has no checkpoint"));
  }
  return absl::NotFoundError(absl::StrCat("job ", job.id(), " has no checkpoint of step ", step,
                                          "; it has those of steps ", steps));
}

absl::StatusOr<CheckpointExport> Wanted(Cox* cox, const ExportArgs& args) {
  CheckpointExport wanted{.checkpoint = {},
                          .effective_json = {},
                          .target = WholePath(args.target),
                          .base_model = WholePath(args.base_model),
                          .gguf = {.model = args.gguf, .adapter = args.gguf_adapter},
                          .merge = args.merge};
  std::error_code error;
  if (std::filesystem::is_directory(args.source, error)) {
    wanted.checkpoint = WholePath(args.source);
    return wanted;
  }
  const JobStep from = SplitStep(args.source);
  ASSIGN_OR_RETURN(const v1::Job job, cox->Server().Get(from.job));
  ASSIGN_OR_RETURN(wanted.checkpoint, CheckpointOf(job, from.step));
  wanted.effective_json = job.effective_json();
  if (std::filesystem::is_directory(wanted.checkpoint, error)) return wanted;
  return absl::NotFoundError(
      absl::StrCat(wanted.checkpoint, ": no such directory on this machine; run cox export where ",
                   "the job's storage is mounted"));
}

int RunExport(Cox* cox, const ExportArgs& args) {
  const auto wanted = Wanted(cox, args);
  if (!wanted.ok()) return cox->Fail(wanted.status());
  cox->err() << "reading " << OneLine(wanted->checkpoint) << "\n";
  DiskFiles files;
  const auto directories = ExportCheckpoint(&files, *wanted);
  if (!directories.ok()) return cox->Fail(directories.status());
  if (args.json) {
    PrintStructured({{"checkpoint", wanted->checkpoint}, {"directories", *directories}}, "json",
                    cox->out());
    return kOk;
  }
  for (const std::string& directory : *directories) cox->out() << OneLine(directory) << "\n";
  return kOk;
}

}  // namespace

void AddExport(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ExportArgs>();
  Verb verb(app, "export", "Make an adapter or a model from any checkpoint, on this machine");
  verb.RequiredText("source", &args->source, "JOB[:STEP], or a checkpoint's directory")
      .RequiredText("-o,--output-dir", &args->target, "Target directory, which is made")
      .Flag("--merge", &args->merge, "For an adapter: write the merged model too, in DIR/model")
      .Text("--gguf", &args->gguf,
            "Write the model as GGUF too, of type f32, f16, bf16, q8_0 or q4_k_m; an adapter is "
            "merged")
      .Text("--gguf-adapter", &args->gguf_adapter,
            "Write the adapter as GGUF too, of type f32, f16 or bf16")
      .Text("--base-model", &args->base_model,
            "Directory of the base model (default: the path in the job)")
      .Flag("--json", &args->json, "Print the written paths as JSON")
      .Footer("Cancelled and failed jobs can be exported too. A directory needs no controller.")
      .Run(cox, [cox, args] { return RunExport(cox, *args); });
}

}  // namespace coxswain::cli
