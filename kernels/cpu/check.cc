#include "kernels/cpu/check.h"

#include <stdexcept>
#include <string>

namespace coxswain::kernels::cpu {

void RequireSupported(bool supported, const char* op) {
  if (!supported) {
    throw std::invalid_argument(std::string(op) +
                                ": the CPU library does not support this spec; ask " + op +
                                "'s Supports function before the first launch");
  }
}

void RequireExtent(int64_t extent, const char* op, const char* name) {
  if (extent < 0) {
    throw std::invalid_argument(std::string(op) + ": " + name + " is " + std::to_string(extent) +
                                ", must not be negative");
  }
}

int64_t RowStride(int64_t stride, int64_t columns, const char* op) {
  if (stride == 0) return columns;
  if (stride < columns) {
    throw std::invalid_argument(std::string(op) + ": " + std::to_string(stride) +
                                " elements between rows of " + std::to_string(columns));
  }
  return stride;
}

void RequireWorkspace(const Workspace& workspace, int64_t bytes, const char* op) {
  if (workspace.bytes < bytes || (bytes > 0 && workspace.data == nullptr)) {
    throw std::invalid_argument(std::string(op) + ": workspace of " +
                                std::to_string(workspace.bytes) + " bytes, needs " +
                                std::to_string(bytes));
  }
}

}  // namespace coxswain::kernels::cpu
