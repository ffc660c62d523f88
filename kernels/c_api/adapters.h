/* Of kernels/c_api/c_api.h: lora_linear.h, lora_gated_linear.h, dropout.h and dora.h. */
#ifndef COXSWAIN_KERNELS_C_API_ADAPTERS_H_
#define COXSWAIN_KERNELS_C_API_ADAPTERS_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A frozen linear with up to 3 adapters that share its input; a member's y is a column slice of the
   packed output. */
typedef struct {
  int32_t dtype, grad_dtype;
  int32_t members;
  int64_t in_features, rank;
  int64_t out_features[3], column_offset[3];
  int64_t ldy; /* columns of the packed output */
  float scale, dropout_rate;
  uint32_t key[2],
      site;             /* of the dropout mask, read where dropout_rate is not 0, as what follows */
  const uint32_t* step; /* one word */
  const uint32_t *bins, *positions; /* [rows] */
  int64_t rows;
  const void* x;                       /* [rows, in_features] */
  const void* weight;                  /* [ldy, in_features] */
  const void* bias;                    /* [ldy]; null: none; forward only */
  const void* a;                       /* [members rank, in_features] */
  const void* b[3];                    /* [out_features, rank] */
  void* h;                             /* [rows, members rank]; forward writes it */
  void* y;                             /* [rows, ldy]; forward only */
  const void* dy;                      /* [rows, ldy]; backward only */
  void* da;                            /* as a, of grad_dtype, accumulated; backward only */
  void* db[3];                         /* as b, likewise */
  void* dx;                            /* [rows, in_features]; null: not wanted; backward only */
  int32_t accumulate_y, accumulate_dx; /* 0: overwritten */
  coxswain_workspace workspace;
} coxswain_lora_linear_args;
int64_t coxswain_lora_linear_forward_workspace_bytes(const coxswain_lora_linear_args* args);
int64_t coxswain_lora_linear_backward_workspace_bytes(const coxswain_lora_linear_args* args);
int coxswain_lora_linear_forward(const coxswain_lora_linear_args* args, void* stream);
int coxswain_lora_linear_backward(const coxswain_lora_linear_args* args, void* stream);

/* The linear of gate and up, whose y is gate_up, with the gated unit behind it; backward: the down
   projection, whose dx is the product's gradient, with that of the unit. Without bias; workspaces
   are those of the linear. */
typedef struct {
  coxswain_lora_linear_args linear; /* backward: x null: the product comes back in dx */
  int32_t activation;
  void* product; /* [rows, intermediate]; null: not wanted; forward only */
  void* gate_up; /* [rows, 2 intermediate], overwritten by its gradient; backward only */
} coxswain_lora_gated_linear_args;
int coxswain_lora_gated_linear_forward(const coxswain_lora_gated_linear_args* args, void* stream);
int coxswain_lora_gated_linear_backward(const coxswain_lora_gated_linear_args* args, void* stream);

/* y = the kept elements of x / (1 - rate); the backward is the same call on dy. */
typedef struct {
  int32_t dtype;
  float rate;
  int64_t rows, columns;
  uint32_t key[2], site;            /* read where rate is not 0, as what follows */
  const uint32_t* step;             /* one word */
  const uint32_t *bins, *positions; /* [rows] */
  const void* x;                    /* [rows, columns] */
  void* y;                          /* [rows, columns] */
  int32_t accumulate;               /* 0: y is overwritten */
} coxswain_dropout_args;
int coxswain_dropout_apply(const coxswain_dropout_args* args, void* stream);

/* Squares of the lengths of w's rows. */
typedef struct {
  int32_t dtype;
  int64_t rows, columns;
  const void* w;  /* [rows, columns] */
  float* squares; /* [rows] */
} coxswain_dora_row_squares_args;
int coxswain_dora_row_squares(const coxswain_dora_row_squares_args* args, void* stream);

/* Beside the calls of a LoRA linear without dropout; members, a and b as there. */
typedef struct {
  int32_t dtype, grad_dtype;
  int32_t members;
  int64_t in_features, rank;
  int64_t out_features[3], column_offset[3];
  int64_t ldy; /* columns of the packed output */
  float scale;
  const void* w;            /* [ldy, in_features]; factors only, as squares and a */
  const float* squares;     /* [ldy], of coxswain_dora_row_squares */
  const void* a;            /* [members rank, in_features] */
  const void* b[3];         /* [out_features, rank]; factors only */
  const void* magnitude[3]; /* [out_features] */
  void* dmagnitude[3];      /* [out_features] of grad_dtype, accumulated; null: frozen */
  float *norm, *factor;     /* [ldy], factors writes them */
  int64_t rows;
  const void* u;                /* [rows, ldy], of the products without bias */
  const void* bias;             /* [ldy]; null: none; forward only */
  void* y;                      /* [rows, ldy]; forward only */
  void* dy;                     /* [rows, ldy]; backward overwrites it by the gradient of u */
  coxswain_workspace workspace; /* factors, backward */
} coxswain_dora_args;
int64_t coxswain_dora_factors_workspace_bytes(const coxswain_dora_args* args);
int coxswain_dora_factors(const coxswain_dora_args* args, void* stream);
int coxswain_dora_forward(const coxswain_dora_args* args, void* stream);
int64_t coxswain_dora_backward_workspace_bytes(const coxswain_dora_args* args);
int coxswain_dora_backward(const coxswain_dora_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_ADAPTERS_H_ */
