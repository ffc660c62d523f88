/* Of kernels/c_api/c_api.h: global_norm.h, lists of whole_tensors.h, adamw.h and adamw_8bit.h. */
#ifndef COXSWAIN_KERNELS_C_API_OPTIMIZER_H_
#define COXSWAIN_KERNELS_C_API_OPTIMIZER_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lists of tensors lie in device memory. first_chunk: the sum of ceil(n / COXSWAIN_TENSOR_CHUNK)
 * over the tensors before it in the list; `chunks` of a call is that sum over all of its list. */
enum { COXSWAIN_TENSOR_CHUNK = 16384 };

typedef struct {
  void* p;       /* [n] of p_dtype */
  float* master; /* [n]; null: p is updated itself */
  const void* g; /* [n] of g_dtype */
  void *m, *v;   /* [n] of the call's state_dtype */
  int64_t n;
  int64_t begin; /* element of the parameter that p[0] is, for stochastic rounding */
  int64_t first_chunk;
  double lr_scale, weight_decay;
  uint8_t p_dtype, g_dtype;
  uint32_t index; /* of the parameter, for stochastic rounding */
} coxswain_adamw_tensor;

/* In device memory. */
typedef struct {
  double lr, beta1, beta2, eps;
  int64_t applied_updates; /* before this one */
  double clip_factor;      /* 1 for none */
  int32_t skip;
} coxswain_optimizer_scalars;

typedef struct {
  const coxswain_adamw_tensor* tensors;
  int64_t count, chunks;
  coxswain_optimizer_scalars* scalars;
  int32_t state_dtype;   /* of m and v of every tensor */
  uint32_t key[2];       /* for stochastic rounding of weights */
  uint32_t state_key[2]; /* for that of states */
  const uint32_t* step;  /* likewise, one word in device memory */
  int32_t more_follow;   /* further lists belong to this update: it is not counted yet */
} coxswain_adamw_args;
int coxswain_adamw(const coxswain_adamw_args* args, void* stream);

/* Elements that share the scale of a state of 8 bits. */
enum { COXSWAIN_STATE_BLOCK = 256 };

typedef struct {
  coxswain_adamw_tensor tensor; /* m and v in float32; not used where there are codes */
  uint8_t *m_codes, *v_codes;   /* [n]; null: m and v are the states */
  float *m_absmax, *v_absmax;   /* [ceil(n / COXSWAIN_STATE_BLOCK)] */
} coxswain_adamw_8bit_tensor;

typedef struct {
  const coxswain_adamw_8bit_tensor* tensors;
  int64_t count, chunks;
  coxswain_optimizer_scalars* scalars;
  uint32_t key[2];      /* for stochastic rounding of weights */
  const uint32_t* step; /* likewise, one word in device memory */
  int32_t more_follow;
} coxswain_adamw_8bit_args;
int coxswain_adamw_8bit(const coxswain_adamw_8bit_args* args, void* stream);

typedef struct {
  const void* data;
  int64_t elements, first_chunk;
  uint8_t dtype;
} coxswain_norm_tensor;

typedef struct {
  double sum_squares, nonfinite;
} coxswain_norm_sums;

typedef struct {
  const coxswain_norm_tensor* tensors;
  int64_t count, chunks;
  coxswain_norm_sums* sums;     /* device memory, overwritten */
  coxswain_workspace workspace; /* holds the sums of each chunk afterwards */
} coxswain_global_norm_args;
int64_t coxswain_global_norm_workspace_bytes(const coxswain_global_norm_args* args);
int coxswain_global_norm(const coxswain_global_norm_args* args, void* stream);

/* The sums of each tensor, from what coxswain_global_norm left of the chunks of the same list. */
typedef struct {
  const coxswain_norm_tensor* tensors; /* [count] */
  int64_t count;
  const coxswain_norm_sums* chunk_sums; /* the workspace of coxswain_global_norm */
  coxswain_norm_sums* sums;             /* [count], device memory, overwritten */
} coxswain_tensor_norms_args;
int coxswain_tensor_norms(const coxswain_tensor_norms_args* args, void* stream);

/* coxswain_checksum and coxswain_all_zero of every tensor of a list, reading each element once. */
typedef struct {
  uint64_t checksum;
  uint64_t nonzero; /* 1: an element differs from zero */
} coxswain_tensor_bits;

typedef struct {
  const coxswain_norm_tensor* tensors; /* [count], device memory */
  int64_t count, chunks;
  coxswain_tensor_bits* bits; /* [count], device memory, overwritten */
} coxswain_checksum_tensors_args;
int coxswain_checksum_tensors(const coxswain_checksum_tensors_args* args, void* stream);

typedef struct {
  const coxswain_norm_sums* sums;
  double max_norm;                     /* 0: no clipping */
  coxswain_optimizer_scalars* scalars; /* clip_factor and skip are written */
  double* norm;                        /* before clipping */
} coxswain_decide_update_args;
int coxswain_decide_update(const coxswain_decide_update_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_OPTIMIZER_H_ */
