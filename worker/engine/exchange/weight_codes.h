// Codes of weights that ranks gather instead of values (common/plan/fp8_gather.h): their scales,
// and the codes of this rank's part of a unit. All launches read the weights that this rank owns,
// in the compute dtype.
#ifndef COXSWAIN_WORKER_ENGINE_EXCHANGE_WEIGHT_CODES_H_
#define COXSWAIN_WORKER_ENGINE_EXCHANGE_WEIGHT_CODES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/plan/fp8_gather.h"
#include "common/plan/plan.h"
#include "kernels/device.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"

namespace coxswain::engine {

// "fp8.constants": the amax that is given where none is wanted. Returns when it is there. Does
// nothing where no codes are gathered.
void FillFp8Constants(const Buffers& buffers, kernels::Stream* stream);

class WeightCodes {
 public:
  // The arguments must outlive this object.
  WeightCodes(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers);

  bool any() const { return !weights_.empty(); }
  bool trained() const { return trained_; }  // some of the weights are

  // Scales take three calls: what this rank finds of its elements of each weight, which lies at
  // OwnAmaxes() and is then gathered, AmaxesOfRank() floats a rank, into AllAmaxes(); and what
  // follows for the whole weights.
  void FindAmaxes(kernels::Stream* stream) const;
  float* OwnAmaxes() const;
  float* AllAmaxes() const { return buffers_.fp8_weight_amaxes; }
  int64_t AmaxesOfRank() const { return amaxes_of_rank_; }
  void FindScales(kernels::Stream* stream) const;

  // Writes the codes of the owned range of a coded flat to OwnCodes(). Its scales are known.
  void Quantize(size_t flat, kernels::Stream* stream) const;
  uint8_t* OwnCodes(size_t flat) const;

 private:
  // This rank's elements of a weight; they may be none. Of the flat.
  plan::Range OwnedOf(const plan::CodedWeight& weight) const;
  // Reads `elements` of a flat that this rank owns: `observed` takes their amax, `codes` their
  // codes with the scale of `amax`. Null: not wanted.
  struct Reading {
    size_t flat = 0;
    plan::Range elements;
    const float* amax = nullptr;
    float* observed = nullptr;
    uint8_t* codes = nullptr;
    float* scale = nullptr;
  };
  void Read(const Reading& reading, kernels::Stream* stream) const;
  float* AmaxOf(const plan::CodedWeight& weight) const;  // of all ranks
  float* ScaleOf(const plan::CodedWeight& weight) const;

  const plan::Plan& plan_;
  const ParameterLayout& layout_;
  const Buffers& buffers_;
  const std::vector<plan::CodedWeight> weights_;
  const int64_t amaxes_of_rank_;
  bool trained_ = false;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_EXCHANGE_WEIGHT_CODES_H_
