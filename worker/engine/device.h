// The device of this process, as the linked kernels see it, and what outlives the process about it.
#ifndef COXSWAIN_WORKER_ENGINE_DEVICE_H_
#define COXSWAIN_WORKER_ENGINE_DEVICE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace coxswain::engine {

// Counts the devices that OpenDevice can choose among; 1 on the CPU. Errors are OpenDevice's.
absl::StatusOr<int> CountDevices();
// Describes all of them and chooses none. The error is OpenDevice's of the first that cannot be
// chosen, by number.
absl::StatusOr<std::vector<kernels::DeviceDescription>> ListDevices();

// Chooses the device of this process, before any Engine. FailedPrecondition says in one sentence
// what is missing: no driver, a driver too old, no such device, too old a device, one without code
// in this build. Unavailable: the device does not answer, as when what a dead process left on it is
// being cleared away; a later try can succeed.
absl::StatusOr<kernels::DeviceDescription> OpenDevice(int index);

struct SettleTimes {
  std::chrono::milliseconds interval{100}, quiet{2000}, limit{15000};
};
// Waits for free memory of a device and returns it once there is `enough`, or none has come free
// for `quiet`, or after `limit`. A process that died gives its memory back when it is gone, and
// what other ranks had opened of it when they let go.
int64_t SettledFreeBytes(int64_t enough, const std::function<int64_t()>& free_bytes,
                         const SettleTimes& times = {});

// What plans may take of a GPU whose free memory was read in this process: all but 1 GiB. The
// context is open by then and no longer free; plans count it (plan::kCudaRuntimeBytes).
uint64_t PlannableDeviceBytes(uint64_t free_bytes);
// The same of what is free now, on any thread; 0 where the device does not say.
uint64_t PlannableDeviceBytesNow();

// Makes the GEMM choices of `table` (Engine::gemm_table of any process); an engine prepared from
// then on tunes none of its shapes. False where it is of another device or library, or empty.
absl::StatusOr<bool> UseGemmTable(const std::string& table);

// The GEMM choices of earlier processes: kept in a file so that they are measured once per device.
class GemmTableFile {
 public:
  explicit GemmTableFile(std::string path) : path_(std::move(path)) {}

  // True when the file's choices are used from now on; false when it is absent or of another device
  // or library. Errors name the file.
  absl::StatusOr<bool> Load();
  // Writes the choices when they are not what the file was seen to hold; true when written. It
  // makes the directory, and does nothing on the CPU.
  absl::StatusOr<bool> Save();

 private:
  const std::string path_;
  std::string seen_;  // the file's content, as far as known
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_DEVICE_H_
