#include "controller/driver/job/job_fetch.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/guarded.h"
#include "controller/driver/records/make_events.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

using Clock = std::chrono::steady_clock;

// Whoever looks at the job sees the progress this often.
constexpr std::chrono::milliseconds kShowEvery{500};

std::string FetchedText(const sources::FetchedSource& fetched) {
  const auto bytes = [](int64_t count) { return FormatBytes(static_cast<uint64_t>(count)); };
  return absl::StrCat(fetched.source, ": ", fetched.files,
                      fetched.files == 1 ? " file, " : " files, ", bytes(fetched.bytes),
                      ", of which ", bytes(fetched.fetched_bytes), " were downloaded in ",
                      FormatDuration(fetched.seconds));
}

}  // namespace

void JobFetch::Stop() {
  lifetime_.Reset();
  if (cancelled_) cancelled_->store(true);
}

void JobFetch::Start(Done done) {
  if (!sources::NamesSources(job_.spec)) {
    done(std::nullopt);
    return;
  }
  cancelled_ = std::make_shared<std::atomic<bool>>(false);
  auto result = std::make_shared<Result>();
  job_.deps.loop->Offload(
      Lane::kTransfers,
      GuardedInto(result,
                  [work = job_.deps.lane_work, spec = job_.spec, owner = job_.record.job().owner(),
                   hooks = Hooks(), result] { *result = work->fetch(spec, owner, hooks); }),
      lifetime_.Wrap([this, result, done = std::move(done)] { OnFetched(*result, done); }));
}

sources::FetchHooks JobFetch::Hooks() {
  Loop* loop = job_.deps.loop;
  auto show = lifetime_.Wrap(
      [this](const std::string& source, const hub::Progress& progress) { Show(source, progress); });
  auto next = std::make_shared<Clock::time_point>();  // of the lane's thread
  return {.progress =
              [loop, show, next](const std::string& source, const hub::Progress& progress) {
                if (Clock::now() < *next) return;
                *next = Clock::now() + kShowEvery;
                loop->Post([show, source, progress]() mutable { show(source, progress); });
              },
          .cancelled = [cancelled = cancelled_] { return cancelled->load(); }};
}

void JobFetch::Show(const std::string& source, const hub::Progress& progress) {
  v1::Fetching& shown = *job_.record.edit().mutable_progress()->mutable_fetching();
  shown.set_source(source);
  shown.set_bytes(progress.bytes);
  shown.set_bytes_total(progress.bytes_total);
  shown.set_bytes_per_second(progress.bytes_per_second);
  shown.set_waits(progress.waits);
  job_.record.Changed();
}

void JobFetch::OnFetched(const Result& result, const Done& done) {
  job_.record.edit().mutable_progress()->clear_fetching();
  job_.record.Changed();
  if (!result.ok()) {
    done(failure::MakeError(result.status(), {.phase = "fetch"}));
    return;
  }
  for (const sources::FetchedSource& fetched : *result) {
    if (told_ && fetched.fetched_bytes == 0) continue;
    job_.record.AddEvent(SourceFetchedEvent(fetched), FetchedText(fetched));
  }
  told_ = true;
  done(std::nullopt);
}

}  // namespace coxswain::driver
