// Files to the controller and from it.
#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/hub/api/retries.h"
#include "common/hub/download_options.h"
#include "common/outside_text.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/connect/download.h"
#include "controller/cli/connect/upload.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"
#include "controller/cli/text/pull_view.h"

namespace coxswain::cli {
namespace {

struct UploadArgs {
  std::string file;
  std::string format = "table";
  std::string progress = "auto";
};

absl::StatusOr<UploadedFile> UploadWithBar(Cox* cox, const UploadArgs& args) {
  PullView view(cox->terminal, ParseProgressMode(args.progress, cox->terminal.err_tty),
                OneLine(args.file, kMostNameBytes));
  hub::RateMeter rate;
  int64_t first = -1;
  const auto show = [&](int64_t there, int64_t bytes, bool waits) {
    if (first < 0) first = there;
    rate.Add(there - first, std::chrono::steady_clock::now());
    view.Show({.bytes = there,
               .bytes_total = bytes,
               .bytes_per_second = rate.BytesPerSecond(),
               .waits = waits},
              cox->now_unix_ms());
  };
  absl::StatusOr<UploadedFile> uploaded =
      UploadFile(&cox->Server(), args.file,
                 {.cancelled = [] { return InterruptSignal() != 0; }, .progress = show});
  view.Close();
  return uploaded;
}

int RunUpload(Cox* cox, const UploadArgs& args) {
  const absl::StatusOr<UploadedFile> uploaded = UploadWithBar(cox, args);
  if (!uploaded.ok()) return cox->Fail(uploaded.status());
  if (IsStructured(args.format)) {
    PrintStructured({{"path", uploaded->path},
                     {"sha256", uploaded->sha256},
                     {"bytes", uploaded->bytes},
                     {"sent_bytes", uploaded->sent_bytes}},
                    args.format, cox->out());
    return kOk;
  }
  if (args.progress != "none") {
    cox->err() << FormatBytes(static_cast<uint64_t>(uploaded->bytes)) << ", of which "
               << FormatBytes(static_cast<uint64_t>(uploaded->sent_bytes)) << " were sent now\n";
  }
  cox->out() << OneLine(uploaded->path) << "\n";
  return kOk;
}

}  // namespace

void AddUpload(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<UploadArgs>();
  Verb(app, "upload", "Bring a file to the controller, for jobs of yours that name it")
      .RequiredText("file", &args->file, "File on this machine")
      .Output(&args->format, {"table", "json", "yaml"})
      .Progress(&args->progress)
      .Footer(
          "Prints what a job writes as path, upload://SHA256/NAME. For files that the controller\n"
          "cannot read; what lies on its storage is named by its path. An upload that was stopped\n"
          "goes on when the same command runs again. The controller's --upload-gib bounds what\n"
          "each user may keep.")
      .Run(cox, [cox, args] { return RunUpload(cox, *args); });
}

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
