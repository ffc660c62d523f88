// The device of this process, as the linked kernels see it, and the GEMM choices that a file keeps
// across processes.
#ifndef COXSWAIN_WORKER_ENGINE_DEVICE_DEVICE_H_
#define COXSWAIN_WORKER_ENGINE_DEVICE_DEVICE_H_

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
// Describes all devices and chooses none. Returns the OpenDevice error of the first device, by
// number, that cannot be chosen.
absl::StatusOr<std::vector<kernels::DeviceDescription>> ListDevices();

// Chooses the device of this process, before any Engine. FailedPrecondition says in one sentence
// what is missing: there is no driver or it is too old, there is no such device or it is too old,
// or this build has no code for it. Unavailable: the device does not answer, for example while it
// clears up after a dead process; a later try can succeed.
absl::StatusOr<kernels::DeviceDescription> OpenDevice(int index);

struct SettleTimes {
  std::chrono::milliseconds interval{100}, quiet{2000}, limit{15000};
};
// Waits for free memory of a device. Returns the free bytes once there are `enough`, once none has
// become free for `quiet`, or after `limit`. The memory of a dead process becomes free when the
// process is gone and other ranks have closed their mappings of it.
int64_t SettledFreeBytes(int64_t enough, const std::function<int64_t()>& free_bytes,
                         const SettleTimes& times = {});

// Bytes of a GPU that plans may use, from its free memory as read in this process: all but 1 GiB.
// The open context is not part of the free memory; plans count it (plan::kCudaRuntimeBytes).
uint64_t PlannableDeviceBytes(uint64_t free_bytes);
// PlannableDeviceBytes of the memory that is free now. Any thread. 0 when the device does not say.
uint64_t PlannableDeviceBytesNow();

// Takes over the GEMM choices of `table` (Engine::gemm_table of any process). Engines prepared
// later do not tune its shapes. False: the table is empty or belongs to another device or library.
absl::StatusOr<bool> UseGemmTable(const std::string& table);

// Keeps GEMM choices in a file, so that they are measured once per device and not once per process.
class GemmTableFile {
 public:
  explicit GemmTableFile(std::string path) : path_(std::move(path)) {}

  // True when the file's choices are used from now on. False when the file is absent or belongs to
  // another device or library. Errors name the file.
  absl::StatusOr<bool> Load();
  // Writes the choices if they differ from the known content of the file; true when written. Makes
  // the directory. Does nothing on the CPU.
  absl::StatusOr<bool> Save();

 private:
  const std::string path_;
  std::string seen_;  // the file's content, as far as known
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_DEVICE_DEVICE_H_
