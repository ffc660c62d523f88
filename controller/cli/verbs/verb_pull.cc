#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/hub/download.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/pull_view.h"

namespace coxswain::cli {
namespace {

struct PullArgs {
  std::string id;
  std::string revision = hub::kDefaultRevision;
  std::vector<std::string> include;
  bool dataset = false;
  std::string progress = "auto";
};

bool Interrupted() { return InterruptSignal() != 0; }

std::string SummaryOf(const hub::Repository& repository, const hub::Snapshot& snapshot) {
  int64_t bytes = 0;
  for (const hub::HubFile& file : snapshot.files) bytes += file.bytes;
  return absl::StrCat(
      hub::NameOf(repository), " at ", repository.revision, ": commit ", snapshot.commit, ", ",
      snapshot.files.size(), " files, ", FormatBytes(static_cast<uint64_t>(bytes)), ", of which ",
      FormatBytes(static_cast<uint64_t>(snapshot.fetched_bytes)), " were downloaded now\n");
}

absl::StatusOr<hub::Snapshot> Pull(Cox* cox, const PullArgs& args) {
  ASSIGN_OR_RETURN(const hub::Settings settings, hub::ReadSettings());
  ASSIGN_OR_RETURN(const hub::Repository repository,
                   hub::MakeRepository(
                       args.dataset ? hub::RepositoryType::kDataset : hub::RepositoryType::kModel,
                       args.id, args.revision));
  ASSIGN_OR_RETURN(const hub::ResolvedCommit resolved,
                   hub::ResolveCommit(settings, repository, Interrupted));
  if (!resolved.from_cache.ok()) {
    cox->err() << "cox: " << OneLine(std::string(resolved.from_cache.message()))
               << "; what the cache has is taken\n";
  }
  PullView view(cox->terminal, ParseProgressMode(args.progress, cox->terminal.err_tty), args.id);
  const auto show = [&](const hub::Progress& progress) { view.Show(progress, cox->now_unix_ms()); };
  absl::StatusOr<hub::Snapshot> snapshot =
      hub::Download(settings, repository, resolved.commit,
                    {.include = args.include, .cancelled = Interrupted, .progress = show});
  view.Close();
  if (snapshot.ok() && args.progress != "none") cox->err() << SummaryOf(repository, *snapshot);
  return snapshot;
}

int RunPull(Cox* cox, const PullArgs& args) {
  const absl::StatusOr<hub::Snapshot> snapshot = Pull(cox, args);
  if (!snapshot.ok()) return cox->Fail(snapshot.status());
  cox->out() << OneLine(snapshot->path) << "\n";
  return kOk;
}

}  // namespace

void AddPull(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<PullArgs>();
  Verb(app, "pull", "Download a model or dataset of the Hugging Face Hub; needs no controller")
      .RequiredText("id", &args->id, "org/name or name")
      .Flag("--dataset", &args->dataset, "It is a dataset; else a model")
      .Text("--revision", &args->revision, "Branch, tag or commit")
      .Texts("--include", &args->include,
             "Only files that match, e.g. 'data/*.parquet'; repeatable. Default: of a model what "
             "training needs, of a dataset all")
      .Progress(&args->progress)
      .Footer(
          "Prints the folder. Files go into the cache of huggingface_hub (HF_HUB_CACHE, HF_HOME),\n"
          "verified; a download that was stopped goes on. HF_TOKEN or `hf auth login` gives "
          "access\n"
          "to private and gated repositories. HF_ENDPOINT names another Hub; HF_HUB_OFFLINE=1 "
          "takes\n"
          "what the cache has. HTTPS_PROXY and NO_PROXY are curl's.")
      .Run(cox, [cox, args] { return RunPull(cox, *args); });
}

}  // namespace coxswain::cli
