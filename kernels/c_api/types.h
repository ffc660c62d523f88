/* What every function of kernels/c_api/c_api.h takes and returns. */
#ifndef COXSWAIN_KERNELS_C_API_TYPES_H_
#define COXSWAIN_KERNELS_C_API_TYPES_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum coxswain_result {
  COXSWAIN_OK = 0,
  COXSWAIN_INVALID_ARGUMENT = 1, /* a violated contract; nothing was launched */
  COXSWAIN_OUT_OF_MEMORY = 2,
  COXSWAIN_DEVICE_ERROR = 3, /* the call failed, later ones may work */
  COXSWAIN_DEVICE_LOST = 4   /* every later call of the process fails */
};

enum coxswain_dtype { COXSWAIN_FLOAT32 = 0, COXSWAIN_BFLOAT16 = 1 };

/* Of the last function that failed on this thread; valid until the next one fails. */
const char* coxswain_last_error(void);

int coxswain_select_device(int index);

typedef struct {
  void* data;
  int64_t bytes;
} coxswain_workspace;

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_TYPES_H_ */
