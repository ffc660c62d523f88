// The order in which the experts of a mixture compute: the pairs (token, slot) of a router's ids,
// sorted by expert. Pair p is slot p % k of token p / k. The sort is stable: the pairs of an expert
// keep their order. A pair with id -1 belongs to no expert and is left out.
#ifndef COXSWAIN_KERNELS_EXPERTS_SORT_BY_EXPERT_H_
#define COXSWAIN_KERNELS_EXPERTS_SORT_BY_EXPERT_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct SortByExpertSpec {
  int64_t experts = 0;  // E
  int64_t chosen = 0;   // k
};
bool SortByExpertSupports(const SortByExpertSpec& spec);
int64_t SortByExpertWorkspaceBytes(const SortByExpertSpec& spec, int64_t tokens);

struct SortByExpertArgs {
  SortByExpertSpec spec = {};
  int64_t tokens = 0;            // T; T k below 2^31
  const int32_t* ids = nullptr;  // [T, k], in [-1, E)
  int32_t* order = nullptr;      // [T k], the pair at each place; -1 behind the last
  int32_t* places = nullptr;     // [T, k], the place of each pair; -1: left out
  int32_t* offsets = nullptr;    // [E + 1]: expert e has places offsets[e] to offsets[e + 1]
  int32_t* counts = nullptr;     // [E], pairs of each expert
  Workspace workspace = {};
};
void SortByExpert(const SortByExpertArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_SORT_BY_EXPERT_H_
