// What ReplaceCalls puts in the place of the engine's calls. The linker leads the calls of other
// object files to those named __wrap_* here (--wrap in CMakeLists.txt, which has the same names),
// and __real_* to what they were.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/worker/engine/without.h"
#include "kernels/device.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/tensors/whole_tensors.h"
#include "worker/engine/batches/batch.h"
#include "worker/engine/batches/graphs.h"
#include "worker/engine/memory/random_init.h"

#define COXSWAIN_RUN                                                                      \
  "_ZN8coxswain6engine6Graphs3RunERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE" \
  "RKNS0_10MicroBatchESt8functionIFvPNS0_9StopwatchEEEPNS_7kernels6StreamE"
#define COXSWAIN_ADAMW "_ZN8coxswain7kernels5AdamWERKNS0_9AdamWArgsEPNS0_6StreamE"
#define COXSWAIN_DECIDE "_ZN8coxswain7kernels12DecideUpdateERKNS0_16DecideUpdateArgsEPNS0_6StreamE"
#define COXSWAIN_FILL "_ZN8coxswain7kernels10RandomFillERKNS0_14RandomFillArgsEPNS0_6StreamE"
#define COXSWAIN_TUNING "_ZN8coxswain7kernels13SetGemmTuningEb"

namespace coxswain::bench {
namespace {

using engine::Graphs;
using engine::Stopwatch;
using kernels::Stream;

Without replaced;
std::map<std::string, Stopwatch> watches;  // of what ran outside of a graph
// Chunks of the tensors of the lists that AdamW was given, by their place in device memory.
std::map<const kernels::AdamWTensor*, std::vector<int64_t>> chunks;
// Routers of the plan by the counter of their draws.
struct Router {
  int64_t hidden = 0;
  double width = 1;  // of the first expert's weights
};
std::map<std::pair<uint32_t, uint32_t>, Router> routers;

constexpr double kFullest = 4;  // times the mean

std::pair<uint32_t, uint32_t> CounterOf(const kernels::RandomFillArgs& fill) {
  return {fill.counter[0], fill.counter[1]};
}

void FindRouters(const plan::Plan& plan) {
  for (const model::Parameter& parameter : plan.parameters) {
    if (!model::IsBase(parameter, model::Kind::kRouter)) continue;
    const double mean =
        static_cast<double>(plan.model.mixture.chosen) / static_cast<double>(parameter.rows);
    routers[CounterOf(engine::RandomInit(plan.seed, parameter, plan.model))] = {
        parameter.cols, WidthOfFullest(parameter.rows, plan.model.mixture.chosen, kFullest * mean)};
  }
}

const std::vector<int64_t>& ChunksOf(const kernels::AdamWArgs& args, Stream* stream) {
  std::vector<int64_t>& found = chunks[args.tensors];
  if (found.empty()) {
    std::vector<kernels::AdamWTensor> records(static_cast<size_t>(args.count));
    kernels::CopyMemory(records.data(), args.tensors,
                        static_cast<int64_t>(records.size() * sizeof(records[0])), stream);
    kernels::Synchronize(stream);
    for (const auto& record : records) found.push_back(kernels::TensorChunks(record.n));
  }
  return found;
}

}  // namespace

void ReplaceCalls(const Without& without, const plan::Plan& plan) {
  replaced = without;
  watches.clear();
  chunks.clear();
  routers.clear();
  if (without.balance) FindRouters(plan);
}

const Stopwatch& RealRun(Graphs* graphs, const std::string& name, const engine::MicroBatch& batch,
                         Graphs::Launches launches, Stream* stream) asm("__real_" COXSWAIN_RUN);
const Stopwatch& Run(Graphs* graphs, const std::string& name, const engine::MicroBatch& batch,
                     Graphs::Launches launches, Stream* stream) asm("__wrap_" COXSWAIN_RUN);
const Stopwatch& Run(Graphs* graphs, const std::string& name, const engine::MicroBatch& batch,
                     Graphs::Launches launches, Stream* stream) {
  // A host that decides cannot be part of a graph.
  if (!replaced.graphs && !(replaced.fused_update && name == "optimizer")) {
    return RealRun(graphs, name, batch, std::move(launches), stream);
  }
  Stopwatch& watch = watches[name];
  launches(&watch);
  return watch;
}

void RealAdamW(const kernels::AdamWArgs& args, Stream* stream) asm("__real_" COXSWAIN_ADAMW);
void AdamW(const kernels::AdamWArgs& args, Stream* stream) asm("__wrap_" COXSWAIN_ADAMW);
void AdamW(const kernels::AdamWArgs& args, Stream* stream) {
  if (!replaced.fused_update) return RealAdamW(args, stream);
  const std::vector<int64_t>& of_tensors = ChunksOf(args, stream);
  kernels::AdamWArgs one = args;
  one.count = 1;
  for (size_t i = 0; i < of_tensors.size(); ++i) {
    one.tensors = args.tensors + i;
    one.chunks = of_tensors[i];
    one.last = args.last && i + 1 == of_tensors.size();
    RealAdamW(one, stream);
  }
}

void RealDecideUpdate(const kernels::DecideUpdateArgs& args,
                      Stream* stream) asm("__real_" COXSWAIN_DECIDE);
void DecideUpdate(const kernels::DecideUpdateArgs& args,
                  Stream* stream) asm("__wrap_" COXSWAIN_DECIDE);
void DecideUpdate(const kernels::DecideUpdateArgs& args, Stream* stream) {
  if (!replaced.fused_update) return RealDecideUpdate(args, stream);
  kernels::NormSums sums;
  kernels::OptimizerScalars scalars;
  kernels::CopyMemory(&sums, args.sums, sizeof(sums), stream);
  kernels::CopyMemory(&scalars, args.scalars, sizeof(scalars), stream);
  kernels::Synchronize(stream);
  const double norm = std::sqrt(sums.sum_squares);
  scalars.clip_factor = args.max_norm > 0 ? std::min(1.0, args.max_norm / (norm + 1e-6)) : 1.0;
  scalars.skip = std::isfinite(norm) ? 0 : 1;
  kernels::CopyMemory(args.scalars, &scalars, sizeof(scalars), stream);
  kernels::CopyMemory(args.norm, &norm, sizeof(norm), stream);
  kernels::Synchronize(stream);
}

void RealRandomFill(const kernels::RandomFillArgs& args,
                    Stream* stream) asm("__real_" COXSWAIN_FILL);
void RandomFill(const kernels::RandomFillArgs& args, Stream* stream) asm("__wrap_" COXSWAIN_FILL);
void RandomFill(const kernels::RandomFillArgs& args, Stream* stream) {
  RealRandomFill(args, stream);
  const auto router = routers.find(CounterOf(args));
  if (router == routers.end() || args.kind != kernels::RandomFillKind::kNormal) return;
  kernels::RandomFillArgs wider = args;
  wider.value *= router->second.width;
  wider.count = std::clamp<int64_t>(router->second.hidden - args.first, 0, args.count);
  if (wider.count > 0) RealRandomFill(wider, stream);
}

void RealSetGemmTuning(bool on) asm("__real_" COXSWAIN_TUNING);
void SetGemmTuning(bool on) asm("__wrap_" COXSWAIN_TUNING);
void SetGemmTuning(bool on) { RealSetGemmTuning(on && !replaced.tuning); }

}  // namespace coxswain::bench
