#include <memory>

#include "controller/cli/command/verb.h"
#include "controller/cli/jobs/default_job.h"
#include "controller/cli/jobs/job_file.h"
#include "controller/cli/jobs/job_sources.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/text/clean_stream.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"
#include "controller/data/look/inspect.h"
#include "controller/data/look/preview.h"
#include "controller/data/look/preview_text.h"
#include "controller/data/look/source_check.h"

namespace coxswain::cli {
namespace {

struct PreviewArgs {
  JobFileArgs file;
  int64_t documents = 3;
  std::string record;
  bool ids = false;
  std::string output = "table";
};

int RunPreview(Cox* cox, const PreviewArgs& args) {
  const auto file = ReadJobFile(cox, args.file);
  if (!file.ok()) return cox->Fail(file.status());
  auto job = ParseJobFile(*file);
  if (job.ok()) job = BringSources(cox, *std::move(job));
  if (!job.ok()) return cox->Fail(job.status());
  const auto documents =
      data::PreviewDocuments(job->spec, static_cast<int>(args.documents), args.record);
  if (!documents.ok()) return cox->Fail(documents.status());
  if (IsStructured(args.output)) {
    PrintStructured(nlohmann::ordered_json::parse(data::PreviewJson(*documents)), args.output,
                    cox->out());
  } else {
    cox->out() << Coloured{
        data::PreviewText(*documents, {.ids = args.ids, .color = cox->terminal.color})};
  }
  return kOk;
}

struct InspectArgs {
  DefaultJobArgs job;
  std::string output = "table";
};

int RunInspectData(Cox* cox, const InspectArgs& args) {
  const auto job = DefaultJob(cox, args.job);
  if (!job.ok()) return cox->Fail(job.status());
  const auto report = data::InspectDataset(*job, job->datasets[0]);
  if (!report.ok()) return cox->Fail(report.status());
  if (args.output == "table") {
    cox->out() << data::InspectText(*report);
  } else {
    PrintStructured(nlohmann::ordered_json::parse(data::InspectJson(*report)), args.output,
                    cox->out());
  }
  return kOk;
}

void AddInspectData(Verb* data, Cox* cox) {
  auto args = std::make_shared<InspectArgs>();
  Verb(data->app(), "inspect",
       "Show the fields and records of a dataset and, with a model, its tokens and targets")
      .RequiredText("path", &args->job.dataset, "File, folder, glob, or a dataset of the Hub")
      .Text("--model", &args->job.model,
            "Model directory, or a model of the Hub: counts tokens and targets")
      .Text("--name", &args->job.name, "Config of a dataset of the Hub")
      .Text("--split", &args->job.split, "As in a job file, e.g. 'train[:10%]'")
      .Text("--revision", &args->job.revision, "Of a dataset of the Hub")
      .Text("--format", &args->job.format, "As in a job file")
      .Text("--chat-template", &args->job.chat_template, "As in a job file")
      .Integer("--sequence-len", &args->job.sequence_len, 2, 1048576, "Tokens of a bin")
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunInspectData(cox, *args); });
}

struct CheckArgs {
  DefaultJobArgs job;
  std::string output = "table";
  bool verbose = false;
};

// Its exit code tells findings from errors.
int RunCheckData(Cox* cox, const CheckArgs& args) {
  constexpr size_t kFewPlaces = 10;
  const auto fail = [cox](const absl::Status& status) {
    cox->Fail(status);
    return kUsage;
  };
  const auto job = DefaultJob(cox, args.job);
  if (!job.ok()) return fail(job.status());
  const auto report =
      data::CheckSource(*job, job->datasets[0], [] { return InterruptSignal() != 0; });
  if (!report.ok()) return fail(report.status());
  if (IsStructured(args.output)) {
    PrintStructured(data::SourceReportJson(*report), args.output, cox->out());
  } else {
    cox->out() << data::SourceReportText(*report,
                                         args.verbose ? data::Finding::kMaxPlaces : kFewPlaces);
  }
  return report->clean() ? kOk : kFailed;
}

void AddCheckData(Verb* data, Cox* cox) {
  auto args = std::make_shared<CheckArgs>();
  Verb(data->app(), "check", "List odd records of a dataset by number")
      .RequiredText("path", &args->job.dataset, "File, folder, glob, or a dataset of the Hub")
      .RequiredText(
          "--model", &args->job.model,
          "Model directory, or a model of the Hub, with the tokenizer and the chat template")
      .Text("--name", &args->job.name, "Config of a dataset of the Hub")
      .Text("--split", &args->job.split, "As in a job file, e.g. 'train[:10%]'")
      .Text("--revision", &args->job.revision, "Of a dataset of the Hub")
      .Text("--format", &args->job.format, "As in a job file")
      .Text("--chat-template", &args->job.chat_template, "As in a job file")
      .Integer("--sequence-len", &args->job.sequence_len, 2, 1048576, "Tokens of a bin")
      .Flag("-v,--verbose", &args->verbose, "Show a hundred records of each finding instead of ten")
      .Output(&args->output, {"table", "json", "yaml"})
      .Footer("Exit codes: 0 nothing found, 1 something found, 2 an error.")
      .Run(cox, [cox, args] { return RunCheckData(cox, *args); });
}

}  // namespace

void AddData(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<PreviewArgs>();
  Verb data(app, "data", "Look at a job's data; needs no controller");
  data.RequireSubverb();
  Verb preview(data.app(), "preview",
               "Print the first documents of each dataset, with targets between ⟦ and ⟧");
  AddJobFileArgs(&preview, &args->file);
  preview
      .Integer("-n,--documents", &args->documents, 1, 1 << 20, "Number of records of each dataset")
      .Text("--record", &args->record, "Only this record: LINE or FILE:LINE, as in findings")
      .Flag("--ids", &args->ids, "Print each token with its label and id")
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunPreview(cox, *args); });
  AddInspectData(&data, cox);
  AddCheckData(&data, cox);
}

}  // namespace coxswain::cli
