/* Of kernels/c_api/c_api.h: whole_tensors.h. */
#ifndef COXSWAIN_KERNELS_C_API_TENSORS_H_
#define COXSWAIN_KERNELS_C_API_TENSORS_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y += alpha x. */
typedef struct {
  int32_t dtype;   /* of y */
  int32_t x_dtype; /* that of y, or COXSWAIN_BFLOAT16 */
  int64_t count;
  float alpha;   /* 0: 1 */
  const void* x; /* [count] */
  void* y;       /* [count] */
} coxswain_add_args;
int coxswain_add(const coxswain_add_args* args, void* stream);

/* x *= factor; nothing is done where it is 1. */
typedef struct {
  int32_t dtype; /* of x */
  int64_t count;
  const float* factor; /* one float */
  void* x;             /* [count] */
} coxswain_scale_args;
int coxswain_scale(const coxswain_scale_args* args, void* stream);

typedef struct {
  int32_t from, to; /* dtypes */
  int64_t count;
  const void* in; /* [count] */
  void* out;      /* [count] */
} coxswain_convert_args;
int coxswain_convert(const coxswain_convert_args* args, void* stream);

enum coxswain_fill { COXSWAIN_CONSTANT = 0, COXSWAIN_UNIFORM = 1, COXSWAIN_NORMAL = 2 };

typedef struct {
  int32_t dtype;
  int32_t kind; /* one of coxswain_fill */
  double value; /* the constant, the bound, or the standard deviation */
  uint32_t key[2], counter[2];
  int64_t first; /* element that out[0] is */
  int64_t count;
  void* out; /* [count] */
} coxswain_random_fill_args;
int coxswain_random_fill(const coxswain_random_fill_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t count;
  const void* values; /* [count] */
  uint64_t* sum;      /* one word, added to */
} coxswain_checksum_args;
int coxswain_checksum(const coxswain_checksum_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t count;
  const void* values; /* [count] */
  int32_t* all_zero;  /* one word, 1 before; 0 after where an element differs from zero */
} coxswain_all_zero_args;
int coxswain_all_zero(const coxswain_all_zero_args* args, void* stream);

typedef struct {
  int64_t count;
  const float* values; /* [count] */
  double* sum;
  int32_t accumulate; /* 0: *sum is overwritten */
} coxswain_sum_args;
int coxswain_sum(const coxswain_sum_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_TENSORS_H_ */
