// Looking into a prepared engine from a test, on whatever device its kernels run.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_STATE_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {

// "cpu" or "cuda": the device of the kernels that this test is linked with.
const std::string& TestDevice();

// Elements in device memory as floats; writing rounds to the type.
std::vector<float> ReadFloats(const void* device, kernels::DType dtype, int64_t count);
void WriteFloats(const std::vector<float>& values, void* device, kernels::DType dtype);

// Of parameter i: the trained values, and the gradient.
std::vector<float> TrainedValues(const State& state, size_t i);
void SetTrainedValues(const State& state, size_t i, const std::vector<float>& values);
std::vector<float> GradientOf(const State& state, size_t i);
// Of all trainable parameters, in table order.
std::vector<float> AllGradients(const State& state);

// The rows [tokens of `bins`, columns] of an activation: without the padding of a GPU engine. All
// bins in one micro-step.
std::vector<float> TokenRows(const State& state, const BinBatch& bins, const void* activation,
                             int64_t columns);

// Runs AccumulateGradients to its end and returns the rank's loss sum.
double GradientStep(State& state, const TrainStep& step);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TEST_STATE_H_
