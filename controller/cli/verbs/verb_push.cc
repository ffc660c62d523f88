#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/hub/upload/push.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"
#include "controller/cli/text/pull_view.h"
#include "controller/export/pushed_folder.h"

namespace coxswain::cli {
namespace {

struct PushArgs {
  std::string source;  // a folder, or a job
  std::string id;
  std::string revision = hub::kDefaultRevision;
  std::string message;
  bool is_private = false, is_public = false;
  std::string output = "table";
  std::string progress = "auto";
};

bool Stopped() { return InterruptSignal() != 0; }

// What the job exported, on this machine.
absl::StatusOr<std::string> ExportOf(Cox* cox, const std::string& name) {
  ASSIGN_OR_RETURN(const v1::Job job, cox->Server().Get(name));
  const std::string& folder = job.merged_dir().empty() ? job.artifact_dir() : job.merged_dir();
  if (folder.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "job ", job.id(), " has exported nothing; cox export makes a folder of a checkpoint"));
  }
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return folder;
  return absl::NotFoundError(
      absl::StrCat(folder, ": no such directory on this machine; run cox push where the job's ",
                   "storage is mounted, or fetch it with cox download"));
}

absl::StatusOr<std::string> FolderOf(Cox* cox, const std::string& source) {
  std::error_code error;
  if (std::filesystem::is_directory(source, error)) return source;
  if (source.find('/') == std::string::npos) return ExportOf(cox, source);
  return absl::NotFoundError(absl::StrCat(source, ": no such directory"));
}

absl::StatusOr<hub::PushRequest> RequestOf(Cox* cox, const PushArgs& args) {
  if (args.is_private && args.is_public) {
    return absl::InvalidArgumentError("--private excludes --public; give one of the two");
  }
  hub::PushRequest request;
  ASSIGN_OR_RETURN(request.repository,
                   hub::MakeRepository(hub::RepositoryType::kModel, args.id, args.revision));
  ASSIGN_OR_RETURN(request.folder, FolderOf(cox, args.source));
  ASSIGN_OR_RETURN(request.files, exports::FilesToPush(request.folder));
  request.card = exports::ModelCard(request.folder);
  request.is_private = !args.is_public;
  if (!args.message.empty()) request.message = args.message;
  if (const std::string base = exports::BaseByPath(request.folder); !base.empty()) {
    cox->err() << "cox: adapter_config.json names the base by a path of this machine, "
               << OneLine(base) << ": others cannot load the adapter; base_model.name of the job "
               << "says how the Hub calls the base\n";
  }
  return request;
}

std::string PushSummary(const hub::PushRequest& request, const hub::Pushed& pushed) {
  return absl::StrCat(hub::NameOf(request.repository), " at ", request.repository.revision,
                      ": commit ", pushed.commit, ", ", pushed.files, " files, of which ",
                      FormatBytes(static_cast<uint64_t>(pushed.sent_bytes)),
                      pushed.committed ? " were sent now\n" : " were sent now: it had them all\n");
}

absl::StatusOr<hub::Pushed> Push(Cox* cox, const PushArgs& args) {
  ASSIGN_OR_RETURN(const hub::PushRequest request, RequestOf(cox, args));
  ASSIGN_OR_RETURN(const hub::Settings settings, hub::ReadSettings());
  PullView view(cox->terminal, ParseProgressMode(args.progress, cox->terminal.err_tty), args.id);
  const auto show = [&](const hub::Progress& progress) { view.Show(progress, cox->now_unix_ms()); };
  absl::StatusOr<hub::Pushed> pushed =
      hub::PushFolder(settings, request, {.cancelled = Stopped, .progress = show});
  view.Close();
  if (!pushed.ok()) return pushed;
  for (const std::string& path : pushed->ignored) {
    cox->err() << "cox: " << OneLine(path) << " is left out by the repository's .gitignore\n";
  }
  if (args.progress != "none") cox->err() << PushSummary(request, *pushed);
  return pushed;
}

int RunPush(Cox* cox, const PushArgs& args) {
  const absl::StatusOr<hub::Pushed> pushed = Push(cox, args);
  if (!pushed.ok()) return cox->Fail(pushed.status());
  if (IsStructured(args.output)) {
    PrintStructured({{"repository", args.id},
                     {"revision", args.revision},
                     {"commit", pushed->commit},
                     {"url", pushed->url},
                     {"committed", pushed->committed},
                     {"files", pushed->files},
                     {"sent_bytes", pushed->sent_bytes},
                     {"ignored", pushed->ignored}},
                    args.output, cox->out());
    return kOk;
  }
  cox->out() << OneLine(pushed->url) << "\n";
  return kOk;
}

}  // namespace

void AddPush(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<PushArgs>();
  Verb(app, "push", "Send an adapter or a model to the Hugging Face Hub")
      .RequiredText("source", &args->source, "Directory of an export, or the job that made it")
      .RequiredText("id", &args->id, "org/name; it is made where there is none")
      .Flag("--private", &args->is_private, "Refuse a repository that is public (default)")
      .Flag("--public", &args->is_public, "Make a public repository, or push to one")
      .Text("--revision", &args->revision, "Branch; it is made where there is none")
      .Text("--message", &args->message, "Of the commit")
      .Output(&args->output, {"table", "json", "yaml"})
      .Progress(&args->progress)
      .Footer(
          "Prints the commit's URL. One commit has what the branch has not; other files of it "
          "stay.\n"
          "A push that was stopped goes on, and one that is repeated makes no second commit. "
          "Names\n"
          "that begin with a dot are left out. A directory needs no controller. HF_TOKEN or\n"
          "`hf auth login` gives the token, which needs write permission. HF_ENDPOINT names "
          "another\n"
          "Hub; HTTPS_PROXY and NO_PROXY are curl's.")
      .Run(cox, [cox, args] { return RunPush(cox, *args); });
}

}  // namespace coxswain::cli
