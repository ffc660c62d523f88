#include "worker/engine/device/device.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/read_file.h"
#include "common/plan/extents.h"
#include "common/status_macros.h"
#include "kernels/products/gemm.h"
#include "worker/engine/commands/executor.h"

namespace coxswain::engine {
namespace {

constexpr uint64_t kLeftUnplanned = uint64_t{1} << 30;

// Of what keeps a device from being chosen the sentence alone is told.
absl::Status Choosing(const std::function<void()>& choose) {
  const std::string doing = "device";
  const absl::Status status = RunGuarded(&doing, [&] {
    choose();
    return absl::OkStatus();
  });
  if (status.ok()) return status;
  const bool busy = absl::IsInternal(status) || absl::IsResourceExhausted(status);
  const auto code = busy ? absl::StatusCode::kUnavailable : absl::StatusCode::kFailedPrecondition;
  return absl::Status(code, status.message().substr(doing.size() + 2));
}

}  // namespace

absl::StatusOr<int> CountDevices() {
  int count = 0;
  RETURN_IF_ERROR(Choosing([&] { count = kernels::DeviceCount(); }));
  return count;
}

absl::StatusOr<std::vector<kernels::DeviceDescription>> ListDevices() {
  ASSIGN_OR_RETURN(const int count, CountDevices());
  std::vector<kernels::DeviceDescription> devices(static_cast<size_t>(count));
  for (int index = 0; index < count; ++index) {
    const absl::Status status =
        Choosing([&] { devices[static_cast<size_t>(index)] = kernels::DescribeDevice(index); });
    if (status.ok()) continue;
    return absl::Status(status.code(), absl::StrCat("GPU ", index, ": ", status.message()));
  }
  return devices;
}

absl::StatusOr<kernels::DeviceDescription> OpenDevice(int index) {
  kernels::DeviceDescription device;
  RETURN_IF_ERROR(Choosing([&] { device = kernels::SelectDevice(index); }));
  return device;
}

int64_t SettledFreeBytes(int64_t enough, const std::function<int64_t()>& free_bytes,
                         const SettleTimes& times) {
  const auto start = std::chrono::steady_clock::now();
  auto grown = start;
  int64_t most = free_bytes();
  while (most < enough) {
    std::this_thread::sleep_for(times.interval);
    const auto now = std::chrono::steady_clock::now();
    const int64_t found = free_bytes();
    if (found > most) grown = now;
    most = std::max(most, found);
    if (now - grown >= times.quiet || now - start >= times.limit) break;
  }
  return most;
}

uint64_t PlannableDeviceBytes(uint64_t free_bytes) {
  const uint64_t all = free_bytes + plan::kCudaRuntimeBytes;
  return all - std::min(all, kLeftUnplanned);
}

uint64_t PlannableDeviceBytesNow() {
  uint64_t bytes = 0;
  const std::string doing = "free memory";
  const absl::Status asked = RunGuarded(&doing, [&] {
    bytes = PlannableDeviceBytes(static_cast<uint64_t>(kernels::FreeMemoryBytes()));
    return absl::OkStatus();
  });
  return asked.ok() ? bytes : 0;
}

absl::StatusOr<bool> UseGemmTable(const std::string& table) {
  bool taken = false;
  const std::string doing = "GEMM table";
  RETURN_IF_ERROR(RunGuarded(&doing, [&] {
    taken = !table.empty() && kernels::LoadGemmTable(table);
    return absl::OkStatus();
  }));
  return taken;
}

absl::StatusOr<bool> GemmTableFile::Load() {
  const absl::StatusOr<std::string> table = ReadFile(path_);
  if (absl::IsNotFound(table.status())) return false;
  if (!table.ok()) return absl::FailedPreconditionError(absl::StrCat(path_, ": cannot be read"));
  ASSIGN_OR_RETURN(const bool taken, UseGemmTable(*table));
  if (taken) seen_ = *table;
  return taken;
}

absl::StatusOr<bool> GemmTableFile::Save() {
  std::string table;
  const std::string doing = absl::StrCat("GEMM table ", path_);
  RETURN_IF_ERROR(RunGuarded(&doing, [&] {
    table = kernels::GemmTable();
    return absl::OkStatus();
  }));
  if (table.empty() || table == seen_) return false;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  RETURN_IF_ERROR(WriteFileDurably(path_, table));
  seen_ = std::move(table);
  return true;
}

}  // namespace coxswain::engine
