#include "controller/cli/text/describe_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/faults/failure_kind.h"
#include "common/files/hash.h"
#include "common/format.h"
#include "common/outside_text.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/expert_text.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/log_text.h"
#include "controller/cli/text/preference_text.h"
#include "controller/cli/text/status_line.h"
#include "controller/cli/text/table.h"
#include "controller/folders/verification.h"

namespace coxswain::cli {
namespace {

std::string Line(const std::string& label, const std::string& value) {
  return value.empty() ? "" : fmt::format("{:<14} {}\n", label + ":", OneLine(value));
}

std::string Time(int64_t unix_ms, int64_t now_unix_ms) {
  if (unix_ms == 0) return "";
  return fmt::format("{} ({} ago)", FormatTime(unix_ms),
                     FormatDuration(static_cast<double>(now_unix_ms - unix_ms) / 1000));
}

std::string Known(bool known, const char* format, double value) {
  return known ? fmt::format(fmt::runtime(format), value) : "-";
}

double Percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string Identity(const v1::Job& job, int64_t now) {
  std::string labels;
  std::vector<std::pair<std::string, std::string>> sorted(job.labels().begin(), job.labels().end());
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [key, value] : sorted)
    labels += fmt::format("{}{}={}", labels.empty() ? "" : ", ", key, value);
  std::string readings;
  for (const v1::Verification& verification : job.verifications())
    readings += Line("Read back", VerificationText(verification));
  const std::string recipe = job.recipe_hash().empty() ? "" : ToHex(job.recipe_hash().substr(0, 6));
  const std::string plan = job.plan_hash().empty() ? "" : ToHex(job.plan_hash().substr(0, 6));
  return Line("Id", job.id()) + Line("Name", job.name()) + Line("Labels", labels) +
         Line("State", StateName(job.state())) + Line("Method", job.method()) +
         Line("Base model", job.base_model()) + Line("Device", DeviceText(job)) +
         Line("Workers", fmt::format("{} (priority {}, gang {})", WorkersText(job), job.priority(),
                                     job.epoch())) +
         Line("Restarts", fmt::format("{} ({} since the last new checkpoint)", job.restarts(),
                                      job.restarts_since_checkpoint())) +
         Line("Recipe", recipe) + Line("Plan", plan) +
         Line("Created", Time(job.created_unix_ms(), now)) +
         Line("Started", Time(job.started_unix_ms(), now)) +
         Line("Finished", Time(job.finished_unix_ms(), now)) +
         Line("Artifact", job.artifact_dir()) + Line("Merged", job.merged_dir()) + readings +
         Line("Pushed", job.pushed_url());
}

std::string ErrorText(const v1::Error& e) {
  std::string where;
  if (e.rank() >= 0 && !e.host().empty())
    where = fmt::format(", rank {} on {}", e.rank(), OneLine(e.host()));
  if (!e.phase().empty()) where += ", in " + OneLine(e.phase());
  return fmt::format("  {} ({}{})\n  {}\n", OneLine(e.code()), FailureSubject(e.kind()), where,
                     OneLine(e.message()));
}

std::string SetbackText(const v1::Job& job, int64_t now) {
  const int64_t left_ms = job.retry_unix_ms() - now;
  return fmt::format("\nWaits, after\n{}  next attempt {}\n", ErrorText(job.setback()),
                     left_ms > 0 ? "in " + FormatDuration(static_cast<double>(left_ms) / 1000)
                                 : std::string("when its workers are free"));
}

std::string ReadoptionText(const v1::Readoption& gang, int64_t now) {
  const int64_t left_ms = gang.deadline_unix_ms() - now;
  return fmt::format(
      "\nThe controller was started again\n  gang {} goes on when all its ranks are back: {} of {} "
      "are{}\n",
      gang.epoch(), gang.returned(), gang.ranks(),
      gang.returned() == gang.ranks() || left_ms <= 0
          ? ""
          : "; the others have " + FormatDuration(static_cast<double>(left_ms) / 1000));
}

std::string ProgressText(const v1::Job& job) {
  const v1::Progress& p = job.progress();
  std::string text = "\nProgress\n";
  if (p.has_fetching()) {
    return text + "  downloads " +
           DownloadText(OneLine(p.fetching().source()), ProgressOf(p.fetching())) + "\n";
  }
  if (job.state() == v1::JOB_STATE_PREPARING)
    return text + fmt::format("  data {:.0f} % prepared\n", 100 * p.prepare_fraction());
  text += fmt::format("  step {}/{} ({:.1f} %), pass {}\n", p.step(), p.total_steps(),
                      Percent(p.step(), p.total_steps()), p.pass());
  const bool stepped = p.step() > 0;
  text += fmt::format("  loss {}, grad norm {}, learning rate {}, skipped steps {}\n",
                      Known(stepped, "{:.6f}", p.loss()), Known(stepped, "{:.6f}", p.grad_norm()),
                      Known(stepped, "{:.3g}", p.learning_rate()), p.skipped_steps());
  if (p.has_preference()) text += "  " + PreferenceText(p.preference());
  if (p.has_experts()) text += "  " + ExpertText(p.experts());
  text += fmt::format("  evaluation loss {}", Known(p.has_eval(), "{:.6f}", p.eval_loss()));
  if (p.has_eval()) {
    text += fmt::format(" (before training {:.6f}, best {:.6f} at step {})", p.first_eval_loss(),
                        p.best_eval_loss(), p.best_step());
  }
  if (p.has_eval_preference()) {
    text += ", " + MarginText(p.eval_preference());
  } else if (p.has_eval_token_accuracy()) {  // a release without it told no perplexity either
    text += fmt::format(", perplexity {:.4g}, token accuracy {:.2f} %", p.eval_perplexity(),
                        100 * p.eval_token_accuracy());
  }
  text += fmt::format(
      "\n  {} tokens, {} tokens/s", FormatCount(p.tokens()),
      p.tokens_per_second() > 0 ? FormatCount(static_cast<int64_t>(p.tokens_per_second())) : "-");
  if (job.state() == v1::JOB_STATE_RUNNING && p.eta_seconds() > 0)
    text += ", ETA " + FormatDuration(p.eta_seconds());
  return text + "\n";
}

std::string DataText(const v1::DatasetSummary& d) {
  return fmt::format(
      "\nData\n  {} records read, {} documents kept; truncated {}, split {}, dropped: too long {}, "
      "bad {}, no target {}\n"
      "  {} tokens, {} targets ({:.1f} %), longest document {}\n"
      "  {} bins, {:.2f} % of their slots filled\n  evaluation: {} documents, {} targets\n",
      FormatCount(d.records_read()), FormatCount(d.documents()), FormatCount(d.truncated()),
      FormatCount(d.split()), FormatCount(d.dropped_too_long()), FormatCount(d.bad_records()),
      FormatCount(d.no_target()), FormatCount(d.tokens()), FormatCount(d.targets()),
      Percent(d.targets(), d.tokens()), FormatCount(d.longest_document()), FormatCount(d.bins()),
      100 * d.packing_efficiency(), FormatCount(d.eval_documents()), FormatCount(d.eval_targets()));
}

std::string MemoryText(const v1::Job& job) {
  Table table({"", "WEIGHTS", "GRADIENTS", "OPTIMIZER", "ACTIVATIONS", "WORKSPACE", "TOTAL"});
  const auto add = [&](const char* name, const v1::MemoryBytes& m) {
    table.Add({name, FormatBytes(m.weights()), FormatBytes(m.gradients()),
               FormatBytes(m.optimizer()), FormatBytes(m.activations()), FormatBytes(m.workspace()),
               FormatBytes(Allocated(m))});
  };
  if (job.has_planned_memory()) add("planned", job.planned_memory());
  std::string peaks;
  const v1::MemoryBytes& planned = job.planned_memory();
  if (planned.peak() > Allocated(planned)) {
    peaks =
        fmt::format("  planned with CUDA's runtime and NCCL: {}\n", FormatBytes(planned.peak()));
  }
  if (job.has_measured_memory()) {
    add("allocated", job.measured_memory());
    peaks += fmt::format("  process resident (with libraries): {}\n",
                         FormatBytes(job.measured_memory().peak()));
  }
  return "\nMemory per rank\n" + table.Text(2) + peaks;
}

std::string CheckpointsText(const v1::Job& job, int64_t now) {
  Table table({"STEP", "SIZE", "EVAL-LOSS", "AGE", "DIRECTORY"});
  for (const v1::CheckpointInfo& c : job.checkpoints()) {
    table.Add({std::to_string(c.step()), FormatBytes(c.bytes()),
               c.has_eval() ? fmt::format("{:.4f}", c.eval_loss()) : "",
               FormatDuration(static_cast<double>(now - c.committed_unix_ms()) / 1000),
               c.directory()});
  }
  return "\nCheckpoints\n" + table.Text(2);
}

std::string SamplesText(const v1::Job& job) {
  std::string text = "\nAnswers\n";
  for (const v1::SampleAnswers& sample : job.samples()) {
    text += AnswerText("prompt", sample.prompt());
    text += AnswerText(fmt::format("at step {}", sample.first_step()), sample.first_answer());
    if (sample.step() == sample.first_step()) continue;
    text += AnswerText(fmt::format("at step {}", sample.step()), sample.answer());
  }
  return text;
}

}  // namespace

std::string DescribeText(const v1::Job& job, const std::vector<v1::JobEvent>& events,
                         int64_t now_unix_ms) {
  std::string text = Identity(job, now_unix_ms);
  if (job.has_error()) text += "\nError\n" + ErrorText(job.error());
  if (job.has_setback()) text += SetbackText(job, now_unix_ms);
  if (job.has_readoption()) text += ReadoptionText(job.readoption(), now_unix_ms);
  if (job.has_progress()) text += ProgressText(job);
  if (job.has_data()) text += DataText(job.data());
  if (job.has_planned_memory() || job.has_measured_memory()) text += MemoryText(job);
  if (!job.checkpoints().empty()) text += CheckpointsText(job, now_unix_ms);
  if (!job.samples().empty()) text += SamplesText(job);
  if (!events.empty()) {
    const size_t first = events.size() > 20 ? events.size() - 20 : 0;
    const std::vector<v1::JobEvent> newest(events.begin() + static_cast<std::ptrdiff_t>(first),
                                           events.end());
    std::string table = EventsTable(newest, now_unix_ms);
    text += "\nEvents\n";
    for (size_t begin = 0; begin < table.size();) {
      const size_t end = table.find('\n', begin) + 1;
      text += "  " + table.substr(begin, end - begin);
      begin = end;
    }
  }
  return text;
}

std::string NextText(const v1::Job& job) {
  const std::string id = OneLine(job.id());
  if (job.state() == v1::JOB_STATE_SUCCEEDED)
    return fmt::format("\nNext\n  cox download {} -o DIR\n", id);
  if (job.state() == v1::JOB_STATE_PAUSED)
    return fmt::format("\nNext\n  cox resume {0}\n  cox step {0} -n 1\n", id);
  if (IsTerminal(job.state())) return fmt::format("\nNext\n  cox events {0}\n  cox logs {0}\n", id);
  return fmt::format(
      "\nNext\n  cox watch {0}\n  cox inspect {0}\n  cox pause {0}\n  cox cancel {0}\n", id);
}

}  // namespace coxswain::cli
