// The real controller of the simulator, as server.cc puts it together, over simulated seams.
#ifndef COXSWAIN_TESTS_SIM_CONTROLLER_H_
#define COXSWAIN_TESTS_SIM_CONTROLLER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "controller/api/context.h"
#include "controller/api/registration.h"
#include "controller/driver/job/job_table.h"
#include "tests/sim/fakes/virtual_lanes.h"

namespace coxswain::sim {

struct Controller {
  struct World {  // outlives the controller
    const Clock* clock = nullptr;
    VirtualLanes* lanes = nullptr;
    store::Store* store = nullptr;
    Files* files = nullptr;
    WorkerTransport* transport = nullptr;
    driver::LaneWork* lane_work = nullptr;
    Metrics* metrics = nullptr;
    driver::Settings settings;
  };
  explicit Controller(const World& world)
      : loop(world.clock,
             [this, lanes = world.lanes](Lane lane, Loop::Task work, Loop::Task done) {
               lanes->Run(&loop, lane, std::move(work), std::move(done));
             }),
        registry(&loop, world.transport, scheduler::LeaseTimes{}),
        registration(&registry, v1::BuildInfo()),
        journal(&loop, world.store),
        deps{.loop = &loop,
             .journal = &journal,
             .files = world.files,
             .transport = world.transport,
             .fan_out = &fan_out,
             .registry = &registry,
             .lane_work = world.lane_work,
             .metrics = world.metrics,
             .incidents_dir = "/state/incidents",
             .settings = world.settings},
        jobs(std::make_unique<driver::JobTable>(deps)),
        context{.deps = deps,
                .jobs = jobs.get(),
                .events = &events,
                .build = {},
                .pages = {},
                .plan = nullptr,
                .pin = nullptr} {
    journal.OnEvents([this](const std::set<std::string>& changed) { events.Notify(changed); });
  }

  Loop loop;
  FanOut fan_out{0};
  scheduler::Registry registry;
  api::Registration registration;
  std::map<int, std::unique_ptr<api::Registration::Beats>> beats;  // by slot
  driver::Journal journal;
  driver::Deps deps;
  std::unique_ptr<driver::JobTable> jobs;
  api::EventHub events;
  api::Context context;

  // What its parts were in at the last look, for the coverage table.
  std::map<std::string, state::WorkerStatus> worker_states;            // by incarnation
  std::map<std::string, std::pair<uint64_t, state::GangPhase>> gangs;  // epoch and phase, by job
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_CONTROLLER_H_
