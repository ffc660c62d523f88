// The values of the parameters on the device: how they get there and which copy is the trained one.
#ifndef COXSWAIN_WORKER_ENGINE_PARAMETER_STORE_H_
#define COXSWAIN_WORKER_ENGINE_PARAMETER_STORE_H_

#include <cstddef>
#include <cstdint>

#include "common/plan/plan.h"
#include "kernels/dtype.h"
#include "kernels/random_fill.h"
#include "worker/engine/buffers.h"
#include "worker/engine/model.h"

namespace coxswain::engine {

// Values of one tensor in device memory.
struct Values {
  void* data = nullptr;
  kernels::DType dtype = kernels::DType::kFloat32;
  int64_t elements = 0;
};

// Views only. Calls block until done.
class ParameterStore {
 public:
  // `buffers` with its scratch bound.
  ParameterStore(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers)
      : plan_(plan), layout_(layout), buffers_(buffers) {}

  // Parameter i from host memory [elements], rounded to nearest where it is kept in bfloat16.
  void Upload(size_t i, const float* values) const;
  // Parameter i from counters; dtype, count and out of `fill` are set here.
  void Fill(size_t i, kernels::RandomFillArgs fill) const;

  // What forward and backward read.
  Values Compute(size_t i) const;
  // What the optimizer updates and a checkpoint holds: the master, else the weight itself.
  Values Trained(size_t i) const;

 private:
  const plan::Plan& plan_;
  const ParameterLayout& layout_;
  const Buffers& buffers_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_PARAMETER_STORE_H_
