#include "common/faults/fault_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace coxswain::fault {
namespace {

constexpr Row kRows[] = {
#define COXSWAIN_FAULT_POINT(constant, name, process, failure, knows, sentence) \
  {Point::constant, name, Process::process, Failure::failure, Knows::knows, sentence},
#include "common/faults/fault_points.inc"
#undef COXSWAIN_FAULT_POINT
};

const char* NameOf(Process process) {
  switch (process) {
    case Process::kController:
      return "controller";
    case Process::kWorker:
      return "worker";
    case Process::kSupervisor:
      return "supervisor";
    case Process::kControllerAndWorker:
      return "controller, worker";
  }
  return "";
}

}  // namespace

std::span<const Row> Table() { return kRows; }

bool Has(Process process, const Row& row) {
  if (row.process != Process::kControllerAndWorker) return process == row.process;
  return process != Process::kSupervisor;
}

bool KnowsStep(const Row& row) { return row.knows == Knows::kStep || row.knows == Knows::kBoth; }
bool KnowsRank(const Row& row) { return row.knows == Knows::kRank || row.knows == Knows::kBoth; }

std::vector<std::string> ActionsOf(const Row& row) {
  std::vector<std::string> actions = {"kill", "stop", "delay=MS"};
  if (row.failure != Failure::kNone) actions.push_back("error");
  if (row.failure == Failure::kFile) actions.push_back("enospc");
  if (row.point == Point::kClockWall) actions.push_back("jump=MS");
  return actions;
}

std::string ListFaults(Process process) {
  std::string text;
  for (const Row& row : Table()) {
    if (!Has(process, row)) continue;
    absl::StrAppendFormat(&text, "%-22s %-36s %s\n", row.name, absl::StrJoin(ActionsOf(row), " "),
                          row.sentence);
  }
  return text;
}

std::string FaultsPage() {
  std::string text =
      "# Fault points\n\n"
      "Made of `common/faults/fault_points.inc` by `build/cpu/bin/fault_reference > "
      "common/faults/FAULTS.md`.\n"
      "How a fault is written: `common/faults/fault_point.h`. Points without `error` cannot "
      "fail.\n\n"
      "| point | process | knows | actions | reached when |\n|---|---|---|---|---|\n";
  for (const Row& row : Table()) {
    absl::StrAppend(&text, "| `", row.name, "` | ", NameOf(row.process), " | ",
                    KnowsStep(row) ? "step " : "", KnowsRank(row) ? "rank " : "", "| ",
                    absl::StrJoin(ActionsOf(row), ", "), " | ", row.sentence, " |\n");
  }
  return text;
}

}  // namespace coxswain::fault
