// The services that a gang uses. controller/server.cc, or a test, owns them and outlives the gang.
#ifndef COXSWAIN_CONTROLLER_GANG_DEPS_H_
#define COXSWAIN_CONTROLLER_GANG_DEPS_H_

#include "controller/gang/settings.h"
#include "controller/runtime/files.h"
#include "controller/runtime/loop.h"
#include "controller/runtime/metrics.h"
#include "controller/scheduler/registry.h"
#include "controller/transport/fan_out.h"
#include "controller/transport/worker_transport.h"

namespace coxswain::gang {

struct Deps {
  Loop* loop = nullptr;
  Files* files = nullptr;
  WorkerTransport* transport = nullptr;
  FanOut* fan_out = nullptr;
  scheduler::Registry* registry = nullptr;
  Metrics* metrics = nullptr;
  Settings settings;
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_DEPS_H_
