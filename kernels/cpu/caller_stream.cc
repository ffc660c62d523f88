// A launch on the CPU has finished when it returns: there is nothing that a stream would order.
#include "kernels/c_api/calls.h"

namespace coxswain::kernels::c_api {

Stream* Wrap(void* handle) { return nullptr; }

}  // namespace coxswain::kernels::c_api
