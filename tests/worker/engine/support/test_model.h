// Model directories for tests, and a scratch folder that is removed again.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_MODEL_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_MODEL_H_

#include <string>
#include <vector>

#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/plan/plan.h"

namespace coxswain::engine {

// A tensor of a file to be written: what the table says, with values in +-0.2.
TensorSource RandomTensor(const model::Parameter& parameter, ElementType dtype = ElementType::kF32);
TensorSource ZeroTensor(const std::string& name, ElementType dtype,
                        const std::vector<int64_t>& shape);

// The base tensors of the plan, or those of its adapter.
std::vector<TensorSource> BaseTensors(const plan::Plan& plan,
                                      ElementType dtype = ElementType::kF32);
std::vector<TensorSource> AdapterTensors(const plan::Plan& plan);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_MODEL_H_
