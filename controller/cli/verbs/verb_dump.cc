#include <fstream>
#include <memory>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/text/dump_text.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

struct DumpArgs {
  std::string job;
  std::string output = "table";
  bool stop = false;
};

// Whole, or the file's error.
absl::Status WriteTo(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::trunc);
  out << text << "\n";
  out.close();
  if (out) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write ", path, ": -o takes table, json, yaml or a file to write"));
}

int RunDump(Cox* cox, const DumpArgs& args) {
  const absl::StatusOr<v1::DumpResponse> dump = cox->Server().Dump(args.job, args.stop);
  if (!dump.ok()) return cox->Fail(dump.status());
  const auto json = nlohmann::ordered_json::parse(dump->json(), nullptr, false);
  if (args.output == "table") {
    cox->out() << DumpText(json);
  } else if (IsStructured(args.output)) {
    PrintStructured(json, args.output, cox->out());
  } else {
    const absl::Status written = WriteTo(args.output, dump->json());
    if (!written.ok()) return cox->Fail(written);
    cox->out() << args.output << "\n";
  }
  if (args.stop) cox->err() << "its gang was ended: the job continues from its last checkpoint\n";
  return kOk;
}

}  // namespace

void AddDump(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<DumpArgs>();
  Verb(app, "dump",
       "Show what the ranks of a job are doing: commands, collectives, memory, device, native "
       "stacks")
      .Job(&args->job)
      .Text("-o,--output", &args->output, "table, json, yaml, or a file to write as JSON")
      .Flag("--stop", &args->stop,
            "Then end its gang: the job continues from its last checkpoint, at the cost of no "
            "restart")
      .Footer("The dump is kept with the job's incidents; cox explain says what it shows.")
      .Run(cox, [cox, args] { return RunDump(cox, *args); });
}

}  // namespace coxswain::cli
