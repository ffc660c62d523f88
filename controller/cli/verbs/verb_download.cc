#include <memory>

#include "common/format.h"
#include "common/outside_text.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/command/verbs.h"
#include "controller/cli/connect/download.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

struct DownloadArgs {
  std::string job;
  std::string directory;
  bool json = false;
};

int RunDownload(Cox* cox, const DownloadArgs& args) {
  const auto paths = DownloadArtifacts(
      &cox->Server(), args.job, args.directory, [&](const v1::Artifact& artifact) {
        cox->err() << OneLine(artifact.name()) << "  "
                   << FormatBytes(static_cast<uint64_t>(artifact.bytes())) << "\n";
      });
  if (!paths.ok()) return cox->Fail(paths.status());
  if (args.json) {
    PrintStructured({{"files", *paths}}, "json", cox->out());
  } else {
    for (const std::string& path : *paths) cox->out() << OneLine(path) << "\n";
  }
  return kOk;
}

}  // namespace

void AddDownload(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<DownloadArgs>();
  Verb(app, "download", "Copy a job's artifact into a directory")
      .Job(&args->job)
      .RequiredText("-o,--output-dir", &args->directory, "Target directory, which is made")
      .Flag("--json", &args->json, "Print the written paths as JSON")
      .Run(cox, [cox, args] { return RunDownload(cox, *args); });
}

}  // namespace coxswain::cli
