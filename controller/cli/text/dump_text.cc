#include "controller/cli/text/dump_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/format.h"
#include "common/outside_text.h"
#include "controller/cli/text/table.h"

namespace coxswain::cli {
namespace {

using nlohmann::ordered_json;

const ordered_json* At(const ordered_json& value, const char* path) {
  const ordered_json::json_pointer pointer(path);
  return value.contains(pointer) ? &value.at(pointer) : nullptr;
}

std::string TextAt(const ordered_json& value, const char* path) {
  const ordered_json* found = At(value, path);
  return found != nullptr && found->is_string() ? OneLine(found->get<std::string>()) : "";
}

// Lines of the controller's own.
std::string LinesAt(const ordered_json& value, const char* path) {
  const ordered_json* found = At(value, path);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

// -1: there is none.
double NumberAt(const ordered_json& value, const char* path) {
  const ordered_json* found = At(value, path);
  return found != nullptr && found->is_number() ? found->get<double>() : -1;
}

std::string CountAt(const ordered_json& value, const char* path) {
  const double number = NumberAt(value, path);
  return number < 0 ? "" : absl::StrFormat("%.0f", number);
}

std::string BytesAt(const ordered_json& value, const char* path) {
  const double bytes = NumberAt(value, path);
  return bytes < 0 ? "" : FormatBytes(static_cast<uint64_t>(bytes));
}

std::string Seconds(double seconds) {
  return seconds < 60 ? absl::StrFormat("%.1fs", seconds) : FormatDuration(seconds);
}

// "train step 5, 2 bins for 3.2s", "17 done": its own account, else its beat's.
std::string Command(const ordered_json& rank, double now_ms) {
  const std::string running = TextAt(rank, "/dump/waiting/0/command");
  if (!running.empty()) {
    const double begun_ms = NumberAt(rank, "/dump/waiting/0/begun_unix_ms");
    return begun_ms <= 0
               ? absl::StrCat(running, " waits")
               : absl::StrCat(running, " for ", Seconds(std::max(0.0, now_ms - begun_ms) / 1000));
  }
  std::string done = CountAt(rank, "/dump/last_done_seq");
  if (done.empty()) done = CountAt(rank, "/controller/done_seq");
  return done.empty() ? "" : absl::StrCat(done, " done");
}

// "#12 all_reduce of 7 float32 over world for 3.2s", "#12 done": its own account, else its beat's.
std::string Collective(const ordered_json& rank) {
  const ordered_json* told = At(rank, "/dump/collectives");
  if (told == nullptr) told = At(rank, "/controller/collectives");
  if (told == nullptr || NumberAt(*told, "/started") <= 0) return "";
  const std::string number = absl::StrCat("#", CountAt(*told, "/started"));
  const std::string operation = TextAt(*told, "/operation");
  if (operation.empty()) return number + " done";
  return absl::StrCat(number, " ", operation, " for ",
                      Seconds(std::max(0.0, NumberAt(*told, "/in_it_ms")) / 1000));
}

// Number of the group of stacks that the rank is in, from 1.
std::string GroupOf(const ordered_json& dump, double rank) {
  const ordered_json* groups = At(dump, "/groups");
  if (groups == nullptr || !groups->is_array()) return "";
  for (size_t i = 0; i < groups->size(); ++i) {
    const ordered_json* ranks = At((*groups)[i], "/ranks");
    if (ranks == nullptr) continue;
    for (const ordered_json& member : *ranks) {
      if (member == rank) return absl::StrCat(i + 1);
    }
  }
  return "";
}

std::string RanksText(const ordered_json& dump, const ordered_json& ranks) {
  Table table({"RANK", "WORKER", "STATE", "SILENT", "COMMAND", "COLLECTIVE", "PROCESS", "RESIDENT",
               "STACKS"});
  const double now_ms = NumberAt(dump, "/time_unix_ms");
  for (const ordered_json& rank : ranks) {
    const double silent = NumberAt(rank, "/controller/silent_seconds");
    const std::string pid = CountAt(rank, "/process/pid");
    table.Add({CountAt(rank, "/rank"), TextAt(rank, "/worker"), TextAt(rank, "/controller/phase"),
               silent < 0 ? "" : Seconds(silent), Command(rank, now_ms), Collective(rank),
               pid.empty() ? "" : absl::StrCat(pid, " ", TextAt(rank, "/process/state")),
               BytesAt(rank, "/process/resident_bytes"), GroupOf(dump, NumberAt(rank, "/rank"))});
  }
  return table.Text();
}

std::string MemoryText(const ordered_json& ranks) {
  Table table(
      {"RANK", "WEIGHTS", "GRADIENTS", "OPTIMIZER", "ACTIVATIONS", "WORKSPACE", "PEAK", "HOST"});
  bool any = false;
  for (const ordered_json& rank : ranks) {
    if (At(rank, "/dump/memory") == nullptr) continue;
    any = true;
    std::vector<std::string> row = {CountAt(rank, "/rank")};
    for (const char* of :
         {"weights", "gradients", "optimizer", "activations", "workspace", "peak", "host"}) {
      row.push_back(BytesAt(rank, absl::StrCat("/dump/memory/", of).c_str()));
    }
    table.Add(std::move(row));
  }
  return any ? absl::StrCat("\n", table.Text()) : "";
}

std::string GpuText(const ordered_json& ranks) {
  Table table({"RANK", "GPU BUSY %", "USED", "OF", "SM MHZ", "OF", "WATTS", "CELSIUS",
               "ECC CORRECTED", "UNCORRECTED", "THROTTLED BY", "XID"});
  bool any = false;
  for (const ordered_json& rank : ranks) {
    const ordered_json* gpu = At(rank, "/dump/device/gpu");
    if (gpu == nullptr) continue;
    any = true;
    const double milliwatts = NumberAt(*gpu, "/power_milliwatts");
    const double reasons = NumberAt(*gpu, "/throttle_reasons");
    const std::string problem = TextAt(*gpu, "/problem");
    table.Add({CountAt(rank, "/rank"), CountAt(*gpu, "/busy_percent"),
               BytesAt(*gpu, "/memory_used_bytes"), BytesAt(*gpu, "/memory_total_bytes"),
               CountAt(*gpu, "/sm_clock_mhz"), CountAt(*gpu, "/most_sm_clock_mhz"),
               milliwatts < 0 ? "" : absl::StrFormat("%.0f", milliwatts / 1000),
               CountAt(*gpu, "/temperature_celsius"), CountAt(*gpu, "/corrected_ecc_errors"),
               CountAt(*gpu, "/uncorrected_ecc_errors"),
               reasons < 0 ? "" : absl::StrFormat("%#x", static_cast<uint64_t>(reasons)),
               problem.empty() ? TextAt(*gpu, "/xid/0") : problem});
  }
  return any ? absl::StrCat("\n", table.Text()) : "";
}

std::string SilentText(const ordered_json& ranks) {
  std::string text;
  for (const ordered_json& rank : ranks) {
    const std::string error = TextAt(rank, "/error");
    if (error.empty()) continue;
    absl::StrAppend(&text, "rank ", CountAt(rank, "/rank"), " gave no dump: ", error, "\n");
  }
  return text.empty() ? text : absl::StrCat("\n", text);
}

}  // namespace

std::string DumpText(const ordered_json& dump) {
  std::string text =
      absl::StrCat("job ", TextAt(dump, "/id"), ", ", TextAt(dump, "/state"), ", gang ",
                   CountAt(dump, "/epoch"), ", step ", CountAt(dump, "/step"), " of ",
                   CountAt(dump, "/total_steps"), ", restarts ", CountAt(dump, "/restarts"), "\n");
  const ordered_json* ranks = At(dump, "/ranks");
  if (ranks == nullptr || ranks->empty()) {
    const std::string failure = LinesAt(dump, "/last_failure/explanation");
    return absl::StrCat(text, "it has no gang: no rank can be asked\n",
                        failure.empty() ? "" : "\nThe last failure. ", failure);
  }
  absl::StrAppend(&text, "\n", RanksText(dump, *ranks), MemoryText(*ranks), GpuText(*ranks),
                  SilentText(*ranks), "\n", LinesAt(dump, "/explanation"));
  const std::string file = TextAt(dump, "/file");
  if (!file.empty()) absl::StrAppend(&text, "  Kept in ", file, "\n");
  return text;
}

}  // namespace coxswain::cli
