// What a browser asks the status page for: any path has an answer.
#include "controller/status_page/status_page.h"

#include <memory>
#include <string>

#include "common/logging.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/sim/simulation.h"

namespace coxswain {
namespace {

// A cluster with one job that has ended and one that runs, and its page.
struct Served {
  Served() {
    context.deps = sim.deps();
    context.jobs = &sim.jobs();
    const std::string first = sim.Submit({.name = "ended"});
    sim.RunUntilState(first, v1::JOB_STATE_SUCCEEDED);
    const std::string second = sim.Submit({.name = "runs"});
    sim.RunUntilState(second, v1::JOB_STATE_RUNNING);
    page = std::make_unique<status_page::StatusPage>(
        &context, &sim.clock(), [](const status_page::StatusPage::Task& task) { task(); });
  }

  sim::Simulation sim{sim::Simulation::Options()};
  api::Context context;
  std::unique_ptr<status_page::StatusPage> page;
};

}  // namespace
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {
    log::Init("fuzz", log::Level::kError);
    return true;
  }();
  (void)quiet;
  static Served served;
  served.sim.Suspend(status_page::StatusPage::kKeep.count());  // nothing of the last input is kept
  const HttpResponse response = served.page->Answer(std::string(fuzz::TextOf(data, size)));
  fuzz::Expect(
      response.status == 200 || response.status == 404,
      "an answer is a page or says that there is none, not " + std::to_string(response.status));
  fuzz::Expect(!response.body.empty(), "an answer says something");
  return 0;
}

}  // namespace coxswain
