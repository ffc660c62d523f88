#include "controller/cli/text/job_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/faults/failure_kind.h"
#include "common/format.h"
#include "common/outside_text.h"
#include "controller/cli/text/expert_text.h"
#include "controller/cli/text/held_out_text.h"
#include "controller/cli/text/table.h"
#include "controller/folders/verification.h"

namespace coxswain::cli {
namespace {

std::string Age(int64_t then_unix_ms, int64_t now_unix_ms) {
  return then_unix_ms == 0 ? ""
                           : FormatDuration(static_cast<double>(now_unix_ms - then_unix_ms) / 1000);
}

std::string BaseName(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path;
  const size_t slash = path.rfind('/', end);
  return path.substr(slash == std::string::npos ? 0 : slash + 1,
                     end - (slash == std::string::npos ? 0 : slash + 1) + 1);
}

// "org/name" of a snapshot in the Hub's cache, else the folder's own name.
std::string ModelName(const std::string& path) {
  constexpr std::string_view kPrefix = "/models--", kSnapshots = "/snapshots/";
  const size_t begin = path.find(kPrefix), end = path.find(kSnapshots);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return BaseName(path);
  std::string name = path.substr(begin + kPrefix.size(), end - begin - kPrefix.size());
  const size_t dashes = name.find("--");
  if (dashes != std::string::npos) name.replace(dashes, 2, "/");
  return name;
}

std::string Number(double value) { return fmt::format("{:.4f}", value); }

std::string Build(const v1::BuildInfo& build) {
  return build.version().empty() ? "" : fmt::format("{}-{}", build.version(), build.commit());
}

std::vector<std::string> JobRow(const v1::Job& job, bool wide, int64_t now_unix_ms) {
  const v1::Progress& p = job.progress();
  std::vector<std::string> row = {
      job.id(),
      StateName(job.state()),
      job.method(),
      ModelName(job.base_model()),
      WorkersText(job),
      fmt::format("{:.0f}%", 100 * ProgressFraction(job)),
      p.total_steps() > 0 ? fmt::format("{}/{}", p.step(), p.total_steps()) : "",
      p.step() > 0 ? Number(p.loss()) : "",
      p.eta_seconds() > 0 && job.state() == v1::JOB_STATE_RUNNING ? FormatDuration(p.eta_seconds())
                                                                  : "",
      std::to_string(job.restarts()),
      Age(job.created_unix_ms(), now_unix_ms)};
  if (wide) {
    row.push_back(p.has_eval() ? Number(p.eval_loss()) : "");
    row.push_back(
        p.tokens_per_second() > 0 ? FormatCount(static_cast<int64_t>(p.tokens_per_second())) : "");
    row.push_back(std::to_string(job.epoch()));
    row.push_back(std::to_string(job.priority()));
    row.push_back(job.base_model());
  }
  return row;
}

// "job-1 waits 40s (storage): cannot write ...".
std::string WaitingLine(const v1::Job& job, int64_t now_unix_ms) {
  const int64_t left_ms = job.retry_unix_ms() - now_unix_ms;
  const std::string time =
      left_ms > 0 ? " " + FormatDuration(static_cast<double>(left_ms) / 1000) : "";
  return fmt::format("{} waits{} ({}): {}\n", OneLine(job.id()), time,
                     FailureSubject(job.setback().kind()), OneLine(job.setback().message()));
}

// "   MFU 41.2 %" over the ranks whose device's peak is known.
std::string MeanMfu(const v1::InspectResponse& ranks) {
  double sum = 0;
  int known = 0;
  for (const v1::RankStatus& rank : ranks.ranks()) {
    if (rank.mfu() <= 0) continue;
    sum += rank.mfu();
    ++known;
  }
  return known == 0 ? "" : fmt::format("   MFU {:.1f} %", 100 * sum / known);
}

}  // namespace

uint64_t Allocated(const v1::MemoryBytes& memory) {
  return memory.weights() + memory.gradients() + memory.optimizer() + memory.activations() +
         memory.workspace();
}

std::string WorkersText(const v1::Job& job) {
  return job.workers() > 0 ? std::to_string(job.workers()) : "auto";
}

std::string DeviceText(const v1::Job& job) {
  if (job.resources_reason().empty()) return job.device();
  return fmt::format("{} ({})", job.device(), job.resources_reason());
}

std::string ResourcesLine(const v1::Job& job) {
  if (!job.resources_reason().empty()) {
    return fmt::format("device: {}, workers: {} ({})\n", OneLine(job.device()), job.workers(),
                       OneLine(job.resources_reason()));
  }
  if (job.device() != "auto" && job.workers() > 0) return "";
  return fmt::format(
      "device: {}, workers: {}: chosen once workers have registered; cox explain {}\n",
      OneLine(job.device()), WorkersText(job), OneLine(job.id()));
}

std::string StateName(v1::JobState state) {
  const std::string name = v1::JobState_Name(state);
  const std::string prefix = "JOB_STATE_";
  return name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : name;
}

double ProgressFraction(const v1::Job& job) {
  const v1::Progress& p = job.progress();
  if (job.state() == v1::JOB_STATE_SUCCEEDED) return 1;
  if (p.fetching().bytes_total() > 0) {
    return static_cast<double>(p.fetching().bytes()) /
           static_cast<double>(p.fetching().bytes_total());
  }
  if (job.state() == v1::JOB_STATE_PREPARING) return p.prepare_fraction();
  return p.total_steps() > 0 ? static_cast<double>(p.step()) / static_cast<double>(p.total_steps())
                             : 0;
}

std::string JobsTable(const std::vector<v1::Job>& jobs, bool wide, int64_t now_unix_ms) {
  std::vector<std::string> header = {"NAME", "STATE", "METHOD", "MODEL",    "WORKERS", "PROGRESS",
                                     "STEP", "LOSS",  "ETA",    "RESTARTS", "AGE"};
  if (wide) {
    for (const char* column : {"EVAL-LOSS", "TOKENS/S", "GANG", "PRIORITY", "BASE-MODEL"})
      header.push_back(column);
  }
  Table table(header);
  std::string waiting;
  for (const v1::Job& job : jobs) {
    table.Add(JobRow(job, wide, now_unix_ms));
    if (job.has_setback()) waiting += WaitingLine(job, now_unix_ms);
  }
  return table.Text() + waiting;
}

std::string EventsTable(const std::vector<v1::JobEvent>& events, int64_t now_unix_ms) {
  Table table({"ID", "AGE", "TYPE", "STATE", "MESSAGE"});
  for (const v1::JobEvent& event : events) {
    table.Add({std::to_string(event.id()), Age(event.time_unix_ms(), now_unix_ms), event.type(),
               StateName(event.state()), event.message()});
  }
  return table.Text();
}

std::string WorkersTable(const v1::ListWorkersResponse& workers, bool wide) {
  std::vector<std::string> header = {"WORKER", "STATE",  "JOB",     "RANK",     "KIND",
                                     "DEVICE", "MEMORY", "THREADS", "HEARTBEAT"};
  if (wide) {
    for (const char* column : {"ADDRESS", "METRICS", "BUILD", "PID"}) header.push_back(column);
  }
  Table table(header);
  for (const v1::WorkerInfo& w : workers.workers()) {
    std::vector<std::string> row = {
        w.id(),
        w.cordoned().empty() || w.state() == "REFUSED" ? w.state() : w.state() + ",CORDONED",
        w.job(),
        w.job().empty() ? "" : std::to_string(w.rank()),
        w.build().device(),
        w.device_name(),
        FormatBytes(w.memory_bytes()),
        std::to_string(w.threads()),
        fmt::format("{:.1f}s", w.heartbeat_age_seconds())};
    if (wide) {
      row.insert(row.end(),
                 {w.address(), w.metrics_address(), Build(w.build()), std::to_string(w.pid())});
    }
    table.Add(row);
  }
  return table.Text();
}

std::string CordonLines(const v1::ListWorkersResponse& workers, int64_t now_unix_ms) {
  std::string text;
  for (const v1::WorkerInfo& worker : workers.workers()) {
    if (worker.state() != "REFUSED") continue;
    text += fmt::format("{} is refused: {}\n", OneLine(worker.id()), OneLine(worker.cordoned()));
  }
  for (const v1::WorkerCordon& cordon : workers.cordons()) {
    text += fmt::format("{} is {} since {}: {}\n", OneLine(cordon.target()),
                        cordon.automatic() ? "left out" : "cordoned",
                        Age(cordon.since_unix_ms(), now_unix_ms), OneLine(cordon.reason()));
  }
  return text;
}

namespace {

// "slowest rank 3 on h1: 412.0ms of compute a step, 1.80x the median of the others (229.0ms)".
std::string PaceText(const v1::InspectResponse& ranks) {
  const v1::GangPace& pace = ranks.pace();
  if (pace.steps() == 0) return "";
  std::string text;
  const int slowest = pace.slowest_rank();
  if (slowest >= 0 && slowest < ranks.ranks_size() && pace.peer_median_seconds() > 0) {
    text = fmt::format(
        "slowest rank {} on {}: {:.1f}ms of compute a step, {:.2f}x the median of the others "
        "({:.1f}ms)\n",
        slowest, OneLine(ranks.ranks(slowest).host()), 1000 * pace.slowest_seconds(),
        pace.slowest_seconds() / pace.peer_median_seconds(), 1000 * pace.peer_median_seconds());
  }
  return text + fmt::format("waiting for commands: {:.2f} % of the time, over the last {} steps\n",
                            100 * pace.control_idle_ratio(), pace.steps());
}

}  // namespace

std::string RanksTable(const v1::InspectResponse& ranks, bool wide) {
  std::string text = fmt::format("state {}", OneLine(ranks.job_state()));
  if (ranks.last_step() >= 0) {
    text += fmt::format("   step {}   loss {:.6f}   grad norm {:.6f}", ranks.last_step() + 1,
                        ranks.loss(), ranks.grad_norm());
  }
  text += MeanMfu(ranks);
  std::vector<std::string> header = {"RANK",    "WORKER",    "HOST",     "DEVICE",  "BUILD",
                                     "STATE",   "ALLOCATED", "RESIDENT", "STEP",    "LOSS-SUM",
                                     "TARGETS", "TOKENS",    "TOKENS/S", "FORWARD", "BACKWARD",
                                     "COMM",    "OPTIMIZER", "TOTAL",    "IDLE"};
  if (wide) header.push_back("BINS");
  Table table(header);
  std::string errors;
  for (const v1::RankStatus& r : ranks.ranks()) {
    if (!r.error().empty()) errors += fmt::format("rank {}: {}\n", r.rank(), OneLine(r.error()));
    const bool stepped = r.last_step() >= 0;
    const auto of_step = [&](std::string value) {
      return stepped ? std::move(value) : std::string();
    };
    std::vector<std::string> row = {
        std::to_string(r.rank()),
        r.worker(),
        r.host(),
        r.device_name(),
        Build(r.build()),
        r.state(),
        FormatBytes(Allocated(r.memory())),
        FormatBytes(r.memory().peak()),
        of_step(std::to_string(r.last_step() + 1)),
        of_step(fmt::format("{:.4f}", r.loss_sum())),
        of_step(FormatCount(r.targets())),
        of_step(FormatCount(r.tokens())),
        of_step(FormatCount(static_cast<int64_t>(r.tokens_per_second())))};
    for (const double seconds : {r.seconds().forward(), r.seconds().backward(), r.seconds().comm(),
                                 r.seconds().optimizer(), r.seconds().step(), r.idle_seconds()}) {
      row.push_back(of_step(fmt::format("{:.1f}ms", 1000 * seconds)));
    }
    if (wide) {
      std::string bins;
      for (const int64_t bin : r.bin_ids()) bins += (bins.empty() ? "" : ",") + std::to_string(bin);
      row.push_back(bins);
    }
    table.Add(row);
  }
  if (ranks.ranks().empty()) return text + "\nno ranks: the job has no gang now\n";
  text += "\n" + table.Text() + PaceText(ranks) + "RESIDENT: process resident (with libraries)\n" +
          errors;
  if (ranks.has_experts()) text += ExpertText(ranks.experts());
  if (wide) text += ExpertTable(ranks);
  if (wide && !ranks.choices().empty()) text += ranks.choices() + "\n";
  return text;
}

std::string Summary(const v1::Job& job) {
  const v1::Progress& p = job.progress();
  std::string text = fmt::format("{} {}", OneLine(job.id()), StateName(job.state()));
  if (p.total_steps() > 0) text += fmt::format(" at step {}/{}", p.step(), p.total_steps());
  if (job.started_unix_ms() > 0 && job.finished_unix_ms() > 0) {
    text += fmt::format(" in {}", Age(job.started_unix_ms(), job.finished_unix_ms()));
  }
  text += "\n";
  if (job.has_error()) {
    const v1::Error& e = job.error();
    text += fmt::format("error:       {}{}\n", OneLine(e.message()),
                        e.rank() >= 0 && !e.host().empty()
                            ? fmt::format(" (rank {} on {})", e.rank(), OneLine(e.host()))
                            : "");
  }
  if (p.has_eval()) {
    text += HeldOutText(job);
  } else if (p.step() > 0) {
    text += fmt::format("training loss: {:.4f} at the last step (no evaluation set)\n", p.loss());
  }
  if (!job.artifact_dir().empty())
    text += fmt::format("artifact:    {}\n", OneLine(job.artifact_dir()));
  if (!job.merged_dir().empty())
    text += fmt::format("merged:      {}\n", OneLine(job.merged_dir()));
  for (const v1::Verification& verification : job.verifications())
    text += fmt::format("read back:   {}\n", OneLine(VerificationText(verification)));
  if (!job.pushed_url().empty())
    text += fmt::format("pushed:      {}\n", OneLine(job.pushed_url()));
  if (!job.checkpoints().empty()) {
    const v1::CheckpointInfo& last = *job.checkpoints().rbegin();
    text += fmt::format("checkpoint:  {} (step {})\n", OneLine(last.directory()), last.step());
  }
  return text;
}

}  // namespace coxswain::cli
