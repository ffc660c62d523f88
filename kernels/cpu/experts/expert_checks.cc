#include "kernels/cpu/experts/expert_checks.h"

#include <stdexcept>
#include <string>

namespace coxswain::kernels::cpu {
namespace {

[[noreturn]] void Refuse(const char* op, const std::string& what) {
  throw std::invalid_argument(std::string(op) + ": " + what);
}

}  // namespace

void RequireExperts(const int32_t* ids, int64_t tokens, int64_t chosen, int64_t experts,
                    const char* op) {
  for (int64_t i = 0; i < tokens * chosen; ++i) {
    if (ids[i] < -1 || ids[i] >= experts) {
      Refuse(op, "token " + std::to_string(i / chosen) + " has expert " + std::to_string(ids[i]) +
                     ", there are " + std::to_string(experts));
    }
  }
}

void RequireRoutes(const int32_t* ids, int64_t tokens, int64_t chosen, int64_t experts,
                   const char* op) {
  RequireExperts(ids, tokens, chosen, experts, op);
  for (int64_t i = 0; i < tokens * chosen; ++i) {
    if ((ids[i] < 0) != (ids[i - i % chosen] < 0)) {
      Refuse(op, "token " + std::to_string(i / chosen) +
                     " has experts and -1; a padding row has -1 alone");
    }
  }
}

void RequireIndex(const int32_t* index, int64_t count, int64_t end, const char* op,
                  const char* name) {
  for (int64_t i = 0; i < count; ++i) {
    if (index[i] < -1 || index[i] >= end) {
      Refuse(op, std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(index[i]) +
                     ", must be in [-1, " + std::to_string(end) + ")");
    }
  }
}

void RequireOffsets(const int32_t* offsets, int64_t experts, int64_t rows, const char* op) {
  if (offsets[0] != 0) {
    Refuse(op, "offsets start at " + std::to_string(offsets[0]) + ", must start at 0");
  }
  RequireSegments(offsets, experts, rows, op);
}

void RequireSegments(const int32_t* offsets, int64_t experts, int64_t rows, const char* op) {
  if (offsets[0] < 0) {
    Refuse(op, "offsets start at " + std::to_string(offsets[0]) + ", must not be negative");
  }
  for (int64_t e = 0; e < experts; ++e) {
    if (offsets[e + 1] < offsets[e] || offsets[e + 1] > rows) {
      Refuse(op, "rows of expert " + std::to_string(e) + " are " + std::to_string(offsets[e]) +
                     " to " + std::to_string(offsets[e + 1]) + " of " + std::to_string(rows));
    }
  }
}

}  // namespace coxswain::kernels::cpu
