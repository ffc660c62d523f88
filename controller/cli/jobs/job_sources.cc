#include "controller/cli/jobs/job_sources.h"

#include <memory>
#include <string>
#include <utility>

#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/checkpoint/goes_on.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/text/pull_view.h"
#include "controller/runtime/files.h"
#include "controller/sources/fetch_sources.h"
#include "controller/sources/kept_revisions.h"
#include "controller/sources/pin_sources.h"

namespace coxswain::cli {
namespace {

// A bar for each source, one after the other.
class SourcesView {
 public:
  explicit SourcesView(Cox* cox)
      : cox_(cox), mode_(ParseProgressMode("auto", cox->terminal.err_tty)) {}

  void Show(const std::string& source, const hub::Progress& progress) {
    if (progress.bytes == progress.bytes_total && view_ == nullptr) return;  // it is there
    if (view_ == nullptr || source != shown_) {
      Close();
      view_ = std::make_unique<PullView>(cox_->terminal, mode_, source);
      shown_ = source;
    }
    view_->Show(progress, cox_->now_unix_ms());
  }

  void Close() {
    if (view_ != nullptr) view_->Close();
    view_.reset();
  }

 private:
  Cox* const cox_;
  const ProgressMode mode_;
  std::unique_ptr<PullView> view_;
  std::string shown_;
};

}  // namespace

absl::StatusOr<config::ParsedJob> BringSources(Cox* cox, config::ParsedJob job) {
  if (!sources::NamesSources(job.spec)) return job;
  const auto interrupted = [] { return InterruptSignal() != 0; };
  ASSIGN_OR_RETURN(const sources::HubCaller caller, sources::CallerOf({}, /*owner=*/""));
  DiskFiles files;
  sources::KeepRevisions(checkpoint::JobThere(&files, job.spec), &job.spec);
  ASSIGN_OR_RETURN(sources::PinnedJob pinned,
                   sources::PinSources(caller, std::move(job), interrupted));
  for (const sources::PinnedSource& source : pinned.sources) {
    cox->err() << OneLine(sources::LineOf(source)) << "\n";
  }
  SourcesView view(cox);
  const sources::FetchHooks hooks{
      .progress = [&](const std::string& source,
                      const hub::Progress& progress) { view.Show(source, progress); },
      .cancelled = interrupted};
  const auto fetched = sources::FetchSources(caller, pinned.job.spec, hooks);
  view.Close();
  RETURN_IF_ERROR(fetched.status());
  return std::move(pinned.job);
}

}  // namespace coxswain::cli
