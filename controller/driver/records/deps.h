// The services that the driver uses. controller/server.cc, or a test, owns them and outlives the
// driver.
#ifndef COXSWAIN_CONTROLLER_DRIVER_RECORDS_DEPS_H_
#define COXSWAIN_CONTROLLER_DRIVER_RECORDS_DEPS_H_

#include <memory>
#include <string>

#include "controller/driver/preparation/lane_work.h"
#include "controller/driver/preparation/preparation_gate.h"
#include "controller/driver/records/journal.h"
#include "controller/driver/records/settings.h"
#include "controller/gang/gang.h"
#include "controller/runtime/files.h"
#include "controller/runtime/loop.h"
#include "controller/runtime/metrics.h"
#include "controller/scheduler/registry.h"
#include "controller/transport/fan_out.h"
#include "controller/transport/worker_transport.h"

namespace coxswain::driver {

struct Deps {
  Loop* loop = nullptr;
  Journal* journal = nullptr;
  Files* files = nullptr;
  WorkerTransport* transport = nullptr;
  FanOut* fan_out = nullptr;
  scheduler::Registry* registry = nullptr;
  LaneWork* lane_work = nullptr;
  Metrics* metrics = nullptr;
  std::string incidents_dir;  // absolute; empty: incidents are not kept
  Settings settings;
  std::shared_ptr<PreparationGate> preparations = std::make_shared<PreparationGate>();

  gang::Deps OfGang() const {
    return {.loop = loop,
            .files = files,
            .transport = transport,
            .fan_out = fan_out,
            .registry = registry,
            .metrics = metrics,
            .settings = settings};
  }
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_RECORDS_DEPS_H_
