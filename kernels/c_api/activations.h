/* Of kernels/c_api/c_api.h: gates.h. */
#ifndef COXSWAIN_KERNELS_C_API_ACTIVATIONS_H_
#define COXSWAIN_KERNELS_C_API_ACTIVATIONS_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int32_t dtype;
  int64_t rows, intermediate;
  const void* dy; /* [rows, intermediate]; backward only */
  void* gate_up;  /* [rows, 2 intermediate] */
  void* gradient; /* [rows, 2 intermediate]; null: overwrites gate_up; backward only */
  void* y;        /* [rows, intermediate]; null: the backward does not give it */
} coxswain_swiglu_args;
int coxswain_swiglu_forward(const coxswain_swiglu_args* args, void* stream);
int coxswain_swiglu_backward(const coxswain_swiglu_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t rows, intermediate;
  float alpha, limit; /* above 0 */
  const void* dy;     /* [rows, intermediate]; backward only */
  void* gate_up;      /* [rows, 2 intermediate] */
  void* gradient;     /* [rows, 2 intermediate]; null: overwrites gate_up; backward only */
  void* y;            /* [rows, intermediate]; null: the backward does not give it */
} coxswain_clamped_swiglu_args;
int coxswain_clamped_swiglu_forward(const coxswain_clamped_swiglu_args* args, void* stream);
int coxswain_clamped_swiglu_backward(const coxswain_clamped_swiglu_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int32_t erf; /* of GELU; 0: the tanh form */
  int64_t rows, intermediate;
  const void* dy; /* [rows, intermediate]; backward only */
  void* gate_up;  /* [rows, 2 intermediate] */
  void* gradient; /* [rows, 2 intermediate]; null: overwrites gate_up; backward only */
  void* y;        /* [rows, intermediate]; null: the backward does not give it */
} coxswain_geglu_args;
int coxswain_geglu_forward(const coxswain_geglu_args* args, void* stream);
int coxswain_geglu_backward(const coxswain_geglu_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int32_t erf; /* 0: the tanh form */
  int64_t rows, columns;
  const void* dy; /* [rows, columns]; backward only */
  void* x;        /* [rows, columns] */
  void* gradient; /* [rows, columns]; null: overwrites x; backward only */
  void* y;        /* [rows, columns]; forward only */
} coxswain_gelu_args;
int coxswain_gelu_forward(const coxswain_gelu_args* args, void* stream);
int coxswain_gelu_backward(const coxswain_gelu_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_ACTIVATIONS_H_ */
