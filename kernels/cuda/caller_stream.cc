// The library's handles for a caller's stream, one set per thread and stream, kept for the life of
// the process: at its end the driver may be gone before them.
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/c_api/calls.h"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels::c_api {

Stream* Wrap(void* handle) {
  static std::mutex mutex;
  static auto* streams = new std::map<std::pair<std::thread::id, void*>, std::unique_ptr<Stream>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Stream>& stream = (*streams)[{std::this_thread::get_id(), handle}];
  if (stream == nullptr) stream = std::make_unique<Stream>(static_cast<cudaStream_t>(handle));
  return stream.get();
}

}  // namespace coxswain::kernels::c_api
