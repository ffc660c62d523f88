#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/import/job_import.h"
#include "controller/cli/import/report_text.h"
#include "controller/cli/text/exit_code.h"

namespace coxswain::cli {
namespace {

struct ImportArgs {
  std::string file;
  std::string from;
  std::string dataset_dir;
  std::string output;
  bool force = false;
};

absl::StatusOr<job_import::ImportRequest> ReadRequest(const ImportArgs& args) {
  namespace fs = std::filesystem;
  job_import::ImportRequest request;
  std::error_code error;
  fs::path path = fs::current_path(error) / "imported";
  if (args.file == "-") {
    std::ostringstream all;
    all << std::cin.rdbuf();
    request.text = all.str();
  } else {
    absl::StatusOr<std::string> content = ReadFileOrPipe(args.file);
    if (!content.ok()) return absl::NotFoundError(content.status().message());
    request.text = *std::move(content);
    path = fs::absolute(args.file, error).lexically_normal();
  }
  request.name = path.stem().string();
  request.base_dir = path.parent_path().string();
  request.dataset_dir = args.dataset_dir;
  if (args.from == "axolotl") request.tool = foreign_keys::Tool::kAxolotl;
  if (args.from == "llamafactory") request.tool = foreign_keys::Tool::kLlamaFactory;
  if (args.from == "trl") request.tool = foreign_keys::Tool::kTrl;
  return request;
}

// AlreadyExists where there is a file and it was not forced.
absl::Status WriteJob(const std::string& path, const std::string& yaml, bool force) {
  std::FILE* file = std::fopen(path.c_str(), force ? "w" : "wx");
  if (file == nullptr && errno == EEXIST) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists already; give another -o or --force"));
  }
  if (file == nullptr) return ErrnoStatus(errno, "write", path);
  const bool written = std::fwrite(yaml.data(), 1, yaml.size(), file) == yaml.size();
  if (std::fclose(file) != 0 || !written) return ErrnoStatus(errno, "write", path);
  return absl::OkStatus();
}

int RunImport(Cox* cox, const ImportArgs& args) {
  const absl::StatusOr<job_import::ImportRequest> request = ReadRequest(args);
  if (!request.ok()) return cox->Fail(request.status());
  const absl::StatusOr<job_import::Imported> imported = job_import::ImportJob(*request);
  if (!imported.ok()) {
    return cox->Fail(absl::InvalidArgumentError(
        absl::StrCat(args.file, ": ", std::string(imported.status().message()))));
  }
  cox->err() << job_import::ReportText(*imported, args.file);
  if (!imported->in_the_way.empty()) return kUsage;
  if (args.output.empty()) {
    cox->out() << imported->yaml;
    return kOk;
  }
  const absl::Status written = WriteJob(args.output, imported->yaml, args.force);
  return written.ok() ? kOk : cox->Fail(written);
}

}  // namespace

void AddImport(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ImportArgs>();
  Verb(app, "import",
       "Turn a configuration of Axolotl, LLaMA-Factory or TRL into a job file; needs no controller")
      .RequiredText("file", &args->file,
                    "YAML file of the tool, or a file with the command line of TRL; - for "
                    "standard input")
      .Word("--from", &args->from, {"axolotl", "llamafactory", "trl"},
            "Tool to which the file belongs (default: recognised by its keys)")
      .Text("--dataset-dir", &args->dataset_dir,
            "Folder of LLaMA-Factory's dataset_info.json (default: as in the file, else beside it)")
      .Text("-o,--output", &args->output, "Job file to write (default: standard output)")
      .Flag("--force", &args->force, "Overwrite the file of -o")
      .Footer(
          "The report on standard error has a line for each key: taken, renamed, changed, "
          "default\n(the tool's value for an absent key), left out (does not change the training), "
          "differs\n(trains a little differently), in the way (cannot be translated). If a key is "
          "in the\nway, nothing is written, the exit code is 2 and the last line names it. "
          "Relative paths\nstay unchanged: keep the job beside the file.")
      .Run(cox, [cox, args] { return RunImport(cox, *args); });
}

}  // namespace coxswain::cli
