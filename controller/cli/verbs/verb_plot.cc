#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/jobs/kept_history.h"
#include "controller/cli/text/exit_code.h"
#include "controller/status_page/picture.h"
#include "controller/status_page/picture_png.h"

namespace coxswain::cli {
namespace {

struct PlotArgs {
  std::vector<std::string> jobs;
  std::string file;
};

struct Curves {
  std::string label;
  status_page::History history;
};

absl::Status CheckFile(const std::string& file) {
  if (file.empty()) return absl::InvalidArgumentError("give a file: -o curve.svg");
  if (file == "-" || file.ends_with(".svg") || file.ends_with(".png")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("-o ", file,
                   ": cox plot writes SVG and PNG; give a name that ends in .svg or .png, or - for "
                   "SVG on the standard output"));
}

absl::StatusOr<Curves> ReadCurves(Cox* cox, const std::string& typed) {
  Curves curves;
  std::vector<v1::JobEvent> events;
  if (NamesFolder(typed)) {
    auto kept = ReadHistory(typed);
    if (!kept.ok()) return kept.status();
    curves.label = kept->job.id();
    events = std::move(kept->events);
  } else {
    const absl::StatusOr<v1::Job> job = cox->Server().Get(typed);
    if (!job.ok()) return job.status();
    auto read = ReadEvents(&cox->Server(), job->id());
    if (!read.ok()) return read.status();
    curves.label = job->id();
    events = *std::move(read);
  }
  for (const v1::JobEvent& event : events) curves.history.Add(event);
  return curves;
}

int RunPlot(Cox* cox, const PlotArgs& args) {
  if (args.jobs.empty()) return cox->Fail(absl::InvalidArgumentError("give one job or more"));
  if (const absl::Status file = CheckFile(args.file); !file.ok()) return cox->Fail(file);
  std::vector<Curves> read;
  for (const std::string& job : args.jobs) {
    absl::StatusOr<Curves> curves = ReadCurves(cox, job);
    if (!curves.ok()) return cox->Fail(curves.status());
    read.push_back(*std::move(curves));
  }
  std::vector<status_page::PlottedJob> plotted;
  for (const Curves& curves : read) {
    plotted.push_back({.label = curves.label, .history = &curves.history});
  }
  absl::StatusOr<std::string> picture = status_page::PictureSvg(plotted);
  if (args.file == "-") {
    cox->out() << *picture;
    return kOk;
  }
  if (args.file.ends_with(".png")) picture = status_page::PngOf(*picture);
  if (!picture.ok()) return cox->Fail(picture.status());
  const absl::Status written = WriteFileDurably(args.file, *picture);
  if (!written.ok()) return cox->Fail(written);
  cox->err() << "wrote " << args.file << "\n";
  return kOk;
}

}  // namespace

void AddPlot(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<PlotArgs>();
  Verb(app, "plot", "Curves of jobs as a picture")
      .Arguments("job", &args->jobs,
                 "Ids, unique id prefixes or names; or output_dirs of jobs of cox train")
      .Text("-o,--output", &args->file,
            "The file, whose name ends in .svg or .png; -: SVG to the standard output")
      .Run(cox, [cox, args] { return RunPlot(cox, *args); });
}

}  // namespace coxswain::cli
