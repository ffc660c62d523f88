/* The ops of libcoxswain_kernels_cuda.so for callers in C and in languages that load C libraries.
 *
 * Each function has the contract of the C++ op of the same name (kernels/<op>.h): device pointers,
 * row-major, launched on `stream`, a cudaStream_t of the current device (null: the default stream);
 * nothing waits for the device. Structs are filled with zeros first; a zero stands for "none".
 * A function returns COXSWAIN_OK or what went wrong, and then coxswain_last_error() says it in
 * words; functions that return bytes return -1. Before the first call: coxswain_select_device.
 */
#ifndef COXSWAIN_KERNELS_C_API_C_API_H_
#define COXSWAIN_KERNELS_C_API_C_API_H_

#include "kernels/c_api/activations.h"
#include "kernels/c_api/adapters.h"
#include "kernels/c_api/attention.h"
#include "kernels/c_api/documents.h"
#include "kernels/c_api/experts.h"
#include "kernels/c_api/norms.h"
#include "kernels/c_api/optimizer.h"
#include "kernels/c_api/products.h"
#include "kernels/c_api/quantized.h"
#include "kernels/c_api/scores.h"
#include "kernels/c_api/tensors.h"
#include "kernels/c_api/tokens.h"
#include "kernels/c_api/types.h"

#endif /* COXSWAIN_KERNELS_C_API_C_API_H_ */
