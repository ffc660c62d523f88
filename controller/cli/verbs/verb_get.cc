#include <iterator>
#include <memory>

#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

struct GetArgs {
  std::vector<std::string> names;
  std::vector<std::string> labels;
  std::string output = "table";
};

absl::StatusOr<std::vector<v1::Job>> Jobs(Cox* cox, const GetArgs& args) {
  std::vector<v1::Job> jobs;
  if (args.names.empty()) {
    v1::ListRequest request;
    for (const std::string& label : args.labels) request.add_labels(label);
    do {
      absl::StatusOr<v1::ListResponse> page = cox->Server().List(request);
      if (!page.ok()) return page.status();
      jobs.insert(jobs.end(), std::make_move_iterator(page->mutable_jobs()->begin()),
                  std::make_move_iterator(page->mutable_jobs()->end()));
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return jobs;
  }
  for (const std::string& name : args.names) {
    absl::StatusOr<v1::Job> job = cox->Server().Get(name);
    if (!job.ok()) return job.status();
    jobs.push_back(*std::move(job));
  }
  return jobs;
}

int RunGet(Cox* cox, GetArgs args) {
  if (!args.names.empty() && (args.names[0] == "jobs" || args.names[0] == "job"))
    args.names.erase(args.names.begin());
  const absl::StatusOr<std::vector<v1::Job>> jobs = Jobs(cox, args);
  if (!jobs.ok()) return cox->Fail(jobs.status());
  if (args.output == "name") {
    for (const v1::Job& job : *jobs) cox->out() << OneLine(job.id()) << "\n";
  } else if (!IsStructured(args.output)) {
    if (jobs->empty()) {
      cox->err() << "no jobs\n";
    } else {
      cox->out() << JobsTable(*jobs, args.output == "wide", cox->now_unix_ms());
    }
  } else if (args.names.size() == 1) {
    PrintStructured(MessageJson(jobs->front()), args.output, cox->out());
  } else {
    auto list = nlohmann::ordered_json::array();
    for (const v1::Job& job : *jobs) list.push_back(MessageJson(job));
    PrintStructured({{"jobs", list}}, args.output, cox->out());
  }
  return kOk;
}

}  // namespace

void AddGet(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<GetArgs>();
  Verb(app, "get", "List jobs, or the named ones")
      .Arguments("jobs", &args->names, "`jobs`, or ids, unique id prefixes or names")
      .Texts("-l,--selector", &args->labels, "Label that must match: key=value (repeatable)")
      .Output(&args->output, {"table", "wide", "name", "json", "yaml"})
      .Run(cox, [cox, args] { return RunGet(cox, *args); });
}

}  // namespace coxswain::cli
