#include <memory>

#include "controller/cli/exit_code.h"
#include "controller/cli/job_file.h"
#include "controller/cli/output.h"
#include "controller/cli/verb.h"
#include "controller/cli/verbs.h"
#include "controller/data/preview.h"

namespace coxswain::cli {
namespace {

struct Args {
  JobFileArgs file;
  int64_t documents = 3;
  std::string output = "table";
};

int Run(Cox* cox, const Args& args) {
  const auto file = ReadJobFile(args.file);
  if (!file.ok()) return cox->Fail(file.status());
  const auto job = ParseJobFile(*file);
  if (!job.ok()) return cox->Fail(job.status());
  if (args.output == "table") {
    const absl::StatusOr<std::string> text =
        data::PreviewData(job->spec, static_cast<int>(args.documents), cox->terminal.color);
    if (!text.ok()) return cox->Fail(text.status());
    cox->out() << *text;
    return kOk;
  }
  const absl::StatusOr<std::string> json =
      data::PreviewJson(job->spec, static_cast<int>(args.documents));
  if (!json.ok()) return cox->Fail(json.status());
  PrintStructured(nlohmann::ordered_json::parse(*json), args.output, cox->out());
  return kOk;
}

}  // namespace

void AddData(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<Args>();
  Verb data(app, "data", "Look at a job's data; needs no controller");
  data.RequireSubverb();
  Verb preview(data.app(), "preview", "The first documents of each dataset as tokens with labels");
  AddJobFileArgs(&preview, &args->file);
  preview.Integer("-n,--documents", &args->documents, 1, 1 << 20, "Documents of each dataset")
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return Run(cox, *args); });
}

}  // namespace coxswain::cli
