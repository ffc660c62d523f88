// Contract checks that the ops of experts share; they throw std::invalid_argument with the op's
// name.
#ifndef COXSWAIN_KERNELS_CPU_EXPERTS_EXPERT_CHECKS_H_
#define COXSWAIN_KERNELS_CPU_EXPERTS_EXPERT_CHECKS_H_

#include <cstdint>

namespace coxswain::kernels::cpu {

// ids [tokens, chosen] are in [-1, experts).
void RequireExperts(const int32_t* ids, int64_t tokens, int64_t chosen, int64_t experts,
                    const char* op);
// As RequireExperts, and -1 stands in all places of a row or in none: the row is padding.
void RequireRoutes(const int32_t* ids, int64_t tokens, int64_t chosen, int64_t experts,
                   const char* op);
// index [count] is in [-1, end).
void RequireIndex(const int32_t* index, int64_t count, int64_t end, const char* op,
                  const char* name);
// offsets [experts + 1] are not negative, never fall and end at `rows` or before.
void RequireSegments(const int32_t* offsets, int64_t experts, int64_t rows, const char* op);
// As RequireSegments, and they start at 0.
void RequireOffsets(const int32_t* offsets, int64_t experts, int64_t rows, const char* op);

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_EXPERTS_EXPERT_CHECKS_H_
