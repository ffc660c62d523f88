// Errors and device of kernels/c_api/c_api.h: exceptions become codes.
#include "kernels/c_api/calls.h"

#include <new>
#include <string>

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

}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

const char* coxswain_last_error(void) { return c_api::last_error.c_str(); }

int coxswain_select_device(int index) {
  return c_api::Guarded([&] { kernels::SelectDevice(index); });
}

}  // extern "C"
