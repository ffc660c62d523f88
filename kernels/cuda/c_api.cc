// Errors, device and streams of kernels/c_api.h: exceptions become codes.
#include "kernels/c_api.h"

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "kernels/cuda/c_api_calls.h"

namespace coxswain::kernels::c_api {
namespace {

thread_local std::string last_error;

int Fail(int code, const char* what) {
  last_error = what;
  return code;
}

}  // namespace

int Guarded(const std::function<void()>& call) {
  try {
    call();
    return COXSWAIN_OK;
  } catch (const std::bad_alloc&) {
    return Fail(COXSWAIN_OUT_OF_MEMORY, "out of memory");
  } catch (const DeviceError& error) {
    return Fail(error.sticky() ? COXSWAIN_DEVICE_LOST : COXSWAIN_DEVICE_ERROR, error.what());
  } catch (const std::exception& error) {
    return Fail(COXSWAIN_INVALID_ARGUMENT, error.what());
  }
}

Stream* Wrap(void* handle) {
  static std::mutex mutex;
  static auto* streams = new std::map<std::pair<std::thread::id, void*>, std::unique_ptr<Stream>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Stream>& stream = (*streams)[{std::this_thread::get_id(), handle}];
  if (stream == nullptr) stream = std::make_unique<Stream>(static_cast<cudaStream_t>(handle));
  return stream.get();
}

}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

const char* coxswain_last_error(void) { return c_api::last_error.c_str(); }

int coxswain_select_device(int index) {
  return c_api::Guarded([&] { kernels::SelectDevice(index); });
}

}  // extern "C"
